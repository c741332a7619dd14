import type { Clock, Logger } from '@ropewalk/kit';
import type { ClientTls } from '@ropewalk/wire/websocket';
import type { ProcessContext } from '../job/context.ts';
import type { NamedEngine } from '../terraform/named-engine.ts';
import type { DaemonAuth, ServerLink } from './link.ts';
import type { DaemonMetrics } from './metrics.ts';

export interface DaemonOptions {
  /** The base URL of the server, `https://…`. */
  serverUrl: string;
  /** The server's own Unix socket, to use instead of a connection to the host of `serverUrl`. */
  socketPath?: string | undefined;
  /** The name or id of the organization. Use `default` with a key or PSK. */
  organization: string;
  /** A name of 1 to 64 characters. A restarted daemon needs the same name to keep its running job. */
  name: string;
  tags: Record<string, string>;
  auth: DaemonAuth;
  headers?: Record<string, string> | undefined;
  tls?: ClientTls | undefined;
  /** The directory of the sessions. After a restart, the daemon adopts the running builds in it. */
  workDir: string;
  /** The directory of prepared versions, providers and the installed terraform. */
  cacheDir: string;
  /** Terraform executables to use instead of the one on PATH. A job has the first that its template allows. */
  terraformBinaries?: readonly string[] | undefined;
  /** Terraform programs to download, by version, URL and SHA-256. They come after `terraformBinaries`. */
  namedEngines?: readonly NamedEngine[] | undefined;
  /** A mirror of the publisher's downloads. */
  terraformBaseUrl?: string | undefined;
  /** Whether the daemon attaches its own coder provider. False: templates use the registry's. Default true. */
  attachProvider?: boolean | undefined;
  /** The command that starts the runner. A single executable uses its own path and its hidden command. */
  runnerCommand?: readonly string[] | undefined;
  provisionerVersion: string;
  /** Values that no child process may inherit in any variable. */
  secretValues: readonly string[];
  /** The variables that terraform may inherit, except the platform's own. Default: this process's environment. */
  env?: NodeJS.ProcessEnv | undefined;
  /** Ends after one job, also after an adopted one. `done` rejects if the job has no verdict. */
  once?: boolean | undefined;
  /** The time from SIGINT to SIGKILL of a canceled terraform, in ms. Default 3 min. */
  exitTimeoutMs?: number | undefined;
  /** The interval of the search for unfinished jobs of dead daemons and of this one, in ms. Default 15 s. */
  adoptEveryMs?: number | undefined;
  /** The first pause after a job fails because of a full disk, in ms. Default 30 s. */
  fullPauseMs?: number | undefined;
  metrics?: DaemonMetrics | undefined;
  log: Logger;
  clock?: Clock | undefined;
  /** Absent: the daemon makes its own. */
  shared?: ProcessContext | undefined;
  /** The daemon's connection, if it has begun to connect. */
  link?: ServerLink | undefined;
  /** The socket of the launcher, which starts builds under their own uids; see isolation/protocol.ts. */
  launcherPath?: string | undefined;
  /** A folder of the daemon for the sockets that builds with separate uids connect to. */
  socketsDir?: string | undefined;
}
