/**
 * How builds get their own uid. The *launcher* is a small process that runs as root next to the built-in daemons.
 * It starts Terraform under a build's uid, signals its process groups, and assigns uids. Daemons and runners are
 * unprivileged. They send requests over a Unix socket that only their uid can connect to. The launcher accepts only
 * uids of the installation's block, so a daemon cannot become root or any other user through it.
 *
 * Each request is one connection: the caller sends one JSON line and receives one or two JSON lines. A run's output
 * does not pass through the launcher: the caller opens two more connections, which become the program's stdout and
 * stderr.
 */
import type { ProcessRef } from '../runner/protocol.ts';

/** The number of uids for jobs without a workspace. An import or a dry run gets one that no process has. */
export const SPARE_UIDS = 64;

/** The user that a job's programs run as. */
export interface BuildUser {
  uid: number;
  home: string;
  /** The name of the system user, if one exists. */
  name?: string;
  /** Its own folder for temporary files. Absent: that of the machine. */
  tmp?: string;
  /** Whether other jobs get the uid after this one. Absent: unknown. */
  spare?: boolean;
}

export interface RunRequest {
  op: 'run';
  uid: number;
  file: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  /** The tokens of the connections that become stdout and stderr. */
  out: string;
  err: string;
}

export type LauncherRequest =
  | { op: 'stream'; token: string }
  | RunRequest
  /** Starts a process of the uid that does nothing and lives as long as the connection. */
  | { op: 'hold'; uid: number }
  /** Keeps the launcher running as long as the connection, also without its server. */
  | { op: 'stay' }
  | { op: 'signal'; process: ProcessRef; signal: NodeJS.Signals }
  | { op: 'clear'; uid: number; dirs: string[] }
  /** The same `key` always gets the same uid. With `name`, a person's name, the launcher also creates a system user. */
  | { op: 'user'; key: string; name?: string | undefined; own?: OwnKey | undefined; earlier?: EarlierHome | undefined }
  /** Ends the processes of an own key, removes its files and frees its uid. Nothing if no uid has this key. */
  | { op: 'vacate'; key: string }
  /** Assigns a spare uid, which is free again when the folder of the session is gone. */
  | { op: 'spare'; session: string }
  /** Ends all processes of the session's spare uid. Removes its files if the folder of the session is gone. */
  | { op: 'release'; session: string };

/**
 * The key of a workspace that has a uid for itself, because it was built before it had its owner. The first build takes
 * the uid. All others use it if there is one.
 */
export interface OwnKey {
  key: string;
  take: boolean;
}

/** The workspace whose home an earlier release may have left under another uid; see earlier-homes.ts. */
export interface EarlierHome {
  /** The names of its owner and of itself. */
  owner: string;
  workspace: string;
  /** Whether the build deletes the workspace. */
  deleted: boolean;
}

export type LauncherReply =
  | { error: string }
  | { ok: true }
  | { user: BuildUser }
  | { started: ProcessRef }
  | { exit: { code: number | null; signal: NodeJS.Signals | null } };
