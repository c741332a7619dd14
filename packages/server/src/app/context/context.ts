import type { TailnetDERPRegion } from '@ropewalk/contract';
import type { Clock, Logger } from '@ropewalk/kit';
import type { Actor } from '../../authz/actor.ts';
import type { LoadedConfig } from '../../config/load.ts';
import type { Config } from '../../config/options.ts';
import type { Sql } from '../../db/connect.ts';
import type { Events } from '../../db/events.ts';
import type { TemplateCatalog } from '../template-catalog/catalog.ts';
import type { Work } from '../threads/start.ts';
import type { TaskStatus } from './background-task.ts';
import type { ProxyRelays } from './proxy-relays.ts';
import type { Vault } from './vault.ts';

/** The dependencies of all rules, created once at start. */
export interface Services {
  sql: Sql;
  /**
   * Separate connections for lists and searches, few and with a short statement timeout. Expensive searches wait only
   * for each other and never delay other queries.
   */
  lists: Sql;
  events: Events;
  /** Worker threads for input that people wrote or uploaded. */
  work: Work;
  config: Config;
  clock: Clock;
  log: Logger;
  vault: Vault;
  /** The bases and modules of the template builder. */
  templateCatalog: TemplateCatalog;
  /** The id of this installation, stored in the database. */
  deploymentId: string;
  /** The id of this process among the servers that use the database. */
  replicaId: string;
  /** Shown as X-Coder-Build-Version and in buildinfo. */
  version: string;
  /** The URL where people and agents reach this server, without a trailing slash. */
  accessUrl: string;
  /** The source of each option's value, where known. */
  optionSources: Partial<LoadedConfig['sources']>;
  /** The relays of --derp-config-url or --derp-config-path. */
  relayRegions: readonly TailnetDERPRegion[];
  /** The relays of workspace proxies. */
  proxyRelays: ProxyRelays;
  /** Problems of this server that its operator should know. The health page shows them. */
  warnings: string[];
  /** Why this server's built-in daemons do not run, or keep ending. Undefined while they run well or are turned off. */
  builtinDaemonsProblem: () => string | undefined;
  /** The status of this server's background tasks. */
  backgroundTasks: () => TaskStatus[];
  /** Whether new agents wait because the executable that they download is still being built. */
  agentsWait: () => boolean;
}

/** One operation, with its actor, log, clock and signal. The first argument of every rule. */
export interface Ctx extends Services {
  actor: Actor;
  requestId: string;
  ip: string;
  userAgent: string;
  /** Aborts when the caller disconnects. */
  signal: AbortSignal;
}

/** A context for work that the server does by itself. */
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
