import { runProvisionerDaemon } from '../daemon/daemon.ts';
import type { DaemonOptions } from '../daemon/options.ts';
import { testLogger } from './harness.ts';

/** A daemon in its own process, for tests that kill it. The first argument has the options as JSON. */
const options = JSON.parse(process.argv[2]!) as Omit<DaemonOptions, 'log'>;
await runProvisionerDaemon({ ...options, log: testLogger }).done;
