import { type DaemonOptions, runProvisionerDaemon } from '../daemon/daemon.ts';
import { testLogger } from './harness.ts';

/** A daemon in a process of its own, for tests that kill it. Options come as JSON in the first argument. */
const options = JSON.parse(process.argv[2]!) as Omit<DaemonOptions, 'log'>;
await runProvisionerDaemon({ ...options, log: testLogger }).done;
