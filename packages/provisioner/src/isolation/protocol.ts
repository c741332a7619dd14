/**
 * How builds get a uid of their own. The *launcher* is a small process that runs as root beside the built-in daemons.
 * It starts Terraform under a build's uid, signals its process groups, and hands out uids. Daemons and runners, which
 * are unprivileged, ask it over a Unix socket that only their uid can connect to. It acts for uids of the
 * installation's block alone, so that a daemon cannot become root, nor anybody else's uid, through it.
 *
 * Each request is one connection: one JSON line there, one or two JSON lines back. A run's output does not pass
 * through the launcher: the caller opens two more connections, which become the program's stdout and stderr.
 */
import type { ProcessRef } from '../runner/protocol.ts';

/** For jobs without a workspace: an import or a dry run gets one that no living process has. */
export const SPARE_UIDS = 64;

/** Who a job's programs run as. */
export interface BuildUser {
  uid: number;
  home: string;
  /** Of the system user, where there is one. */
  name?: string;
}

export interface RunRequest {
  op: 'run';
  uid: number;
  file: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  /** Tokens of the connections that become stdout and stderr. */
  out: string;
  err: string;
}

export type LauncherRequest =
  | { op: 'stream'; token: string }
  | RunRequest
  /** A process of the uid that does nothing and lives as long as the connection. */
  | { op: 'hold'; uid: number }
  | { op: 'signal'; process: ProcessRef; signal: NodeJS.Signals }
  | { op: 'clear'; uid: number; dir: string }
  /** `key`: the same one gets the same uid for ever. `name`: of the person, where a system user is wanted. */
  | { op: 'user'; key: string; name?: string | undefined }
  /** Free again when the folder of the session is gone. */
  | { op: 'spare'; session: string }
  /** Ends all processes of the session's spare uid, and removes its files once the folder of the session is gone. */
  | { op: 'release'; session: string };

export type LauncherReply =
  | { error: string }
  | { ok: true }
  | { user: BuildUser }
  | { started: ProcessRef }
  | { exit: { code: number | null; signal: NodeJS.Signals | null } };
