import type { Clock, Logger } from '@platform/kit';
import type { LoadedConfig } from '../config/load.ts';
import type { Config } from '../config/options.ts';
import type { Sql } from '../db/connect.ts';
import type { Events } from '../db/events.ts';
import type { UserWithRoles } from '../db/queries/users.ts';
import type { Work } from './work/start.ts';

export interface UserActor {
  kind: 'user';
  id: string;
  username: string;
  email: string;
  /** Site roles; `member` is implied. */
  roles: string[];
  /** Organization id → roles in it; `organization-member` is implied. */
  organizations: Map<string, string[]>;
  groups: string[];
  scope: 'all' | 'application_connect';
  apiKeyId: string;
  /** The account as it was when the session was verified, a few seconds ago at most; changes of it are told by event. */
  account?: UserWithRoles;
}

/** Who asks. `system` is the program itself (daemons, reconcilers), never a request. */
export type Actor = UserActor | { kind: 'system'; name: string } | { kind: 'none' };

/** What the rules work with; made once at start. */
export interface Services {
  sql: Sql;
  /**
   * Connections of their own for lists and searches, few and with a short statement timeout: expensive searches wait
   * for each other and never for, or before, anything else.
   */
  lists: Sql;
  events: Events;
  /** Threads for what people wrote and sent. */
  work: Work;
  config: Config;
  clock: Clock;
  log: Logger;
  /** Of this installation; kept in the database. */
  deploymentId: string;
  /** Shown as X-Coder-Build-Version and in buildinfo. */
  version: string;
  /** Where people and agents reach this server; never ends in a slash. */
  accessUrl: string;
  /** Where each option's value came from, as far as that is known. */
  optionSources: Partial<LoadedConfig['sources']>;
  /** What an operator should know of how this server runs; shown on the health page. */
  warnings: string[];
  /** Whether new agents wait, because the executable that they download is still being built. */
  agentsWait: () => boolean;
}

/** One operation: who, with what log and clock, for how long. The first argument of every rule. */
export interface Ctx extends Services {
  actor: Actor;
  requestId: string;
  ip: string;
  userAgent: string;
  /** Aborts when the caller is gone. */
  signal: AbortSignal;
}

/** A context for work that the program does on its own account. */
export function systemContext(services: Services, name: string, signal?: AbortSignal): Ctx {
  return {
    ...services,
    log: services.log.child({ task: name }),
    actor: { kind: 'system', name },
    requestId: '',
    ip: '',
    userAgent: '',
    signal: signal ?? new AbortController().signal,
  };
}
