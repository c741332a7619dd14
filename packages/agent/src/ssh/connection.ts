import type { Logger } from '@ropewalk/kit';
import type { Connection } from 'ssh2';
import type { Activity } from '../activity.ts';
import type { Workspace } from '../workspace.ts';

/** One client's connection, as its sessions and forwards use it. */
export interface SshConnection {
  readonly id: string;
  readonly client: Connection;
  readonly workspace: Workspace;
  readonly log: Logger;
  /** Aborted when the connection is gone. Everything that belongs to it ends. */
  readonly signal: AbortSignal;
  readonly activity: Activity;
  /** The server's id of the connection. Older servers send none. */
  readonly tunnelId: string | undefined;
  /** Returns the socket of the client's SSH agent: one for all sessions of the connection. */
  agentSocket(): Promise<string>;
}
