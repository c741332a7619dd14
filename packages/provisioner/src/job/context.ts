import type { Logger } from '@platform/kit';
import type { AcquiredJob } from '@platform/wire/proto/provisionerd';
import type { DiskPause } from '../daemon/disk-pause.ts';
import type { DaemonMetrics } from '../daemon/metrics.ts';
import type { Launcher } from '../isolation/client.ts';
import type { Runner } from '../runner/client.ts';
import type { Env } from '../terraform/env.ts';
import type { VersionCache } from '../terraform/prepare.ts';
import type { TerraformBinary } from '../terraform/version.ts';
import type { Session } from './journal.ts';
import type { JobPort } from './port.ts';

/** What jobs of one daemon share. */
export interface Tools {
  terraform: TerraformBinary;
  versions: VersionCache;
  runner: Runner;
  /** Starts the job's programs under uids of their own; absent: they run under this process's. */
  launcher?: Launcher | undefined;
  /** What terraform inherits of the daemon's environment. */
  env: Env;
  /** `<os>_<arch>` → bootstrap script. */
  initScripts: Record<string, string>;
  /** False: use the coder provider that the registry has. */
  attachProvider: boolean;
  exitTimeoutMs?: number | undefined;
  /** Where the disk may be what a job fails for, beside its session's folder. */
  cacheDir: string;
  diskPause: DiskPause;
  metrics?: Pick<DaemonMetrics, 'stageEnded'> | undefined;
  log: Logger;
}

/** One job under way. */
export interface JobContext extends Tools {
  job: AcquiredJob;
  session: Session;
  port: JobPort;
  /** Fires to cancel: terraform gets SIGINT, then SIGKILL. */
  signal: AbortSignal;
}
