import type { Logger } from '@ropewalk/kit';
import type { Services } from '../../app/context/context.ts';
import type { JoinedDaemon } from '../../app/provisioner/credential.ts';
import type { workerOf } from '../../app/provisioner/join.ts';
import type { Metrics } from '../../metrics/metrics.ts';

/** What the calls of one daemon's connection use. */
export interface DaemonParts {
  services: Services;
  metrics: Metrics;
  daemon: JoinedDaemon;
  worker: ReturnType<typeof workerOf>;
  /** Whether the daemon is one of this platform's, which use more calls than upstream's daemons. */
  ours: boolean;
  log: Logger;
  /** Ends the connection. */
  cut(): void;
  /** Aborted when the connection ends. */
  ended: AbortSignal;
}
