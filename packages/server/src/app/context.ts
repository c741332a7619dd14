import type { Clock, Logger } from '@platform/kit';
import type { Actor } from '../authz/actor.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Config } from '../config/options.ts';
import type { Sql } from '../db/connect.ts';
import type { Events } from '../db/events.ts';
import type { TaskStatus } from './background-task.ts';
import type { Work } from './work/start.ts';

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
  /** How the background tasks of this server fare. */
  backgroundTasks: () => TaskStatus[];
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
