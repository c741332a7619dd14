import type { Clock, Closer, Logger } from '@ropewalk/kit';
import type { PresentedCertificate } from '../app/deployment/security.ts';
import type { BuiltinDaemons } from '../builtin-daemons/builtin-daemons.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Config } from '../config/options.ts';
import type { Dashboard } from '../http/dashboard/build.ts';
import type { FindBinary } from '../http/executables/binaries.ts';

export interface ServerOptions {
  config: Config;
  /** Where each option's value came from, to be shown next to it. */
  sources?: LoadedConfig['sources'];
  /** Holds secrets of this installation and, without an external database, the bundled one. */
  configDir: string;
  log: Logger;
  /** The program and arguments that run the built-in daemons; see builtin-daemons/builtin-daemons.ts. */
  daemonCommand: readonly string[];
  /** The program and arguments that start builds under their own uids, where the server runs as root. */
  launcherCommand?: readonly string[];
  /** The files and folders that these programs consist of. */
  programPaths?: readonly string[];
  /** Finds the executables that workspaces download. */
  findBinary: FindBinary;
  /** Whether such an executable is still being built, so that agents wait for it. */
  buildsBinaries?: () => boolean;
  /** The dashboard. Default: the one of the executable, or the one that the checkout builds for its first page. */
  dashboard?: Dashboard;
  /** What the daemons may inherit of, minus secrets. */
  env: NodeJS.ProcessEnv;
  /** Default: the system's. */
  clock?: Clock;
  /** Ends the start: what was started is ended again, and the start rejects with the signal's reason. */
  stop?: AbortSignal;
}

/** What every step of the start receives. */
export interface Starting extends ServerOptions {
  clock: Clock;
  /** A step adds what ends the parts that it starts. */
  closer: Closer;
}

/** What routes read of parts that start after them, and what changes when the server stops. */
export interface LateParts {
  builtin: BuiltinDaemons | undefined;
  /** The certificates that the HTTPS server presents now. */
  certificates(): PresentedCertificate[];
  /** `/readyz` says that the server is ready between its start and its end. */
  phase: 'starting' | 'ready' | 'stopping';
}
