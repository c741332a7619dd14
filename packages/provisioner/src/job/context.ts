// The dependencies of functions, by their lifetime: the machine, a process with daemons, one daemon, one job.

import type { Logger } from '@ropewalk/kit';
import type { AcquiredJob } from '@ropewalk/wire/proto/provisionerd';
import type { Engines } from '../daemon/engines.ts';
import type { DiskPause } from '../daemon/full-disk.ts';
import type { DaemonMetrics } from '../daemon/metrics.ts';
import type { Launcher } from '../isolation/client.ts';
import type { Runner } from '../runner/client.ts';
import type { Env } from '../terraform/env.ts';
import type { VersionCache } from '../terraform/prepare.ts';
import type { TerraformBinary } from '../terraform/version.ts';
import type { JobPort } from './job-port.ts';
import type { LogShipper } from './log-shipper.ts';
import type { Session } from './session.ts';

/** What daemons find on the machine that they run on. */
export interface MachineContext {
  /** The versions of Terraform that jobs can have. The first is that of jobs without a requirement. */
  engines: Engines;
  /** Starts the job's programs under their own uids. Absent: they run under the uid of this process. */
  launcher: Launcher | undefined;
  /** The variables of the daemon's environment that terraform inherits. */
  env: Env;
}

/** What the daemons of one process share. */
export interface ProcessContext extends MachineContext {
  versions: VersionCache;
  runner: Runner;
  diskPause: DiskPause;
}

/** What all jobs of one daemon share. */
export interface DaemonContext extends ProcessContext {
  /** `<os>_<arch>` → bootstrap script. */
  initScripts: Record<string, string>;
  /** Whether the daemon attaches its own coder provider. False: templates use the registry's coder provider. */
  attachProvider: boolean;
  exitTimeoutMs?: number | undefined;
  /** A folder whose full disk can also make a job fail, like that of the session's folder. */
  cacheDir: string;
  metrics?: Pick<DaemonMetrics, 'stageEnded'> | undefined;
  log: Logger;
}

/** One running job. */
export interface JobContext extends DaemonContext {
  job: AcquiredJob;
  /** The one of the engines that the template's `required_version` allows. A module that init fetches can change it. */
  terraform: TerraformBinary;
  session: Session;
  port: JobPort;
  /** The job's log. */
  shipper: LogShipper;
  /** The name of the current step, with which the job's error begins, as upstream's. Empty: the step has no name. */
  step: string;
  /** Cancels the job: terraform receives SIGINT, then SIGKILL. */
  signal: AbortSignal;
}
