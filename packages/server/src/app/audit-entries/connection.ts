import { errorText } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { systemTask } from '../../authz/proofs.ts';
import { endConnection, insertTunnel, insertWebConnection } from '../../db/queries/connections.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import { type Ctx, type Services, systemContext } from '../context/context.ts';

/** The services of an agent whose tunnels are connections of a person, and their types in the log. */
const TYPES: Readonly<Record<string, string>> = {
  ssh: 'ssh',
  pty: 'reconnecting_pty',
  tcp: 'port_forwarding',
  udp: 'port_forwarding',
};

export interface RecordedTunnel {
  /** For the agent, which adds to this entry how the session ended. */
  id: string;
  /** Call it when the tunnel is open. */
  begin(): void;
  /** Call it when the tunnel was not allowed. */
  deny(reason: string): void;
  /** Call it when the tunnel has ended. A session that outlives its tunnel ends when the agent reports it. */
  end(): void;
}

/**
 * Records the tunnel of a person to an agent in the connection log: who, from where, how long. Undefined for services
 * that are not a connection, and for the next tunnel of a resumed session. Nothing waits for the database.
 */
export function recordTunnel(
  ctx: Ctx,
  agent: AgentIdentity,
  { service, port, resume }: { service: string; port?: unknown; resume?: unknown },
): RecordedTunnel | undefined {
  const type = ownValue(TYPES, service);
  const { actor, sql, log } = ctx;
  if (!type || resume === 'attach' || actor.kind !== 'user') return undefined;
  const id = crypto.randomUUID();
  const by = systemTask(systemContext(ctx, 'connections'));
  let written: Promise<unknown> = Promise.resolve();
  const write = (work: () => Promise<unknown>) => {
    written = written.then(work).catch((err) => log.warn('could not record a connection', { err: errorText(err) }));
  };
  const insert = (code: number | null, denied?: string) => {
    const at = ctx.clock.now();
    const slug = port === undefined ? null : `${service === 'udp' ? 'udp ' : ''}${String(port)}`;
    const client = { user_id: actor.id, ip: ctx.ip, user_agent: ctx.userAgent.replaceAll('\0', '').slice(0, 256) };
    write(() => insertTunnel(sql, by, agent, { id, type, at, slug, code, denied, ...client }));
  };
  return {
    id,
    begin: () => insert(type === 'port_forwarding' ? 101 : null),
    deny: (reason) => insert(type === 'port_forwarding' ? 403 : null, reason),
    end() {
      if (resume !== undefined) return;
      const at = ctx.clock.now();
      write(() => endConnection(sql, by, id, at));
    },
  };
}

export interface WebConnection {
  workspaceId: string;
  agentId: string;
  /** The slug of an app, or a port. */
  app: string;
  isPort: boolean;
  userId: string | null;
  ip: string;
  userAgent: string;
}

const HOUR_MS = 3_600_000;
/** The maximum number of connections that this server remembers. */
const MAX_REMEMBERED = 10_000;

/**
 * Records that somebody opened an app or a port in the browser. The same person at the same address has one entry an
 * hour: this server remembers it, and the database knows those of other servers. The caller does not wait for it.
 */
export function createWebConnectionLog(services: Services): (connection: WebConnection) => void {
  const { sql, clock, log } = services;
  const by = systemTask(systemContext(services, 'connections'));
  const recorded = new Map<string, number>();
  return ({ userAgent, isPort, ...rest }) => {
    const type = isPort ? 'port_forwarding' : 'workspace_app';
    const row = { ...rest, type, userAgent: userAgent.replaceAll('\0', '').slice(0, 256) };
    const key = JSON.stringify(row);
    const now = clock.monotonic();
    if (now - (recorded.get(key) ?? Number.NEGATIVE_INFINITY) < HOUR_MS) return;
    recorded.delete(key);
    if (recorded.size >= MAX_REMEMBERED) recorded.delete(recorded.keys().next().value!);
    recorded.set(key, now);
    insertWebConnection(sql, by, row).catch((err) => {
      recorded.delete(key);
      log.warn('could not record a connection', { err: errorText(err) });
    });
  };
}
