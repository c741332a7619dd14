import type { Duplex } from 'node:stream';
import { AppError, errorText } from '@platform/kit';
import { CAPABILITIES_HEADER, formatCapabilities } from '@platform/wire/capabilities';
import { splice } from '@platform/wire/splice';
import type { TunnelRequest } from '@platform/wire/tunnel';
import { byteStream, type WebSocketConnection } from '@platform/wire/websocket';
import { endOfAgent } from '../app/agent/health.ts';
import { whileAllowed } from '../app/allowed.ts';
import type { Ctx } from '../app/context.ts';
import { workspaceObject } from '../app/workspace/find.ts';
import { authorize } from '../authz/authorize.ts';
import type { AgentIdentity } from '../db/queries/agents.ts';
import type { AgentConnections } from '../rpc/agents.ts';
import type { Exchange } from './exchange.ts';

export interface Carried {
  agent: AgentIdentity;
  request: TunnelRequest;
  /** Asks for a session of the agent's that outlives this connection, or for the next connection of one. */
  resume?: 'new' | 'attach' | undefined;
  /** Of the answer. */
  headers?: Record<string, string>;
  /** Sees the connection before bytes are carried. */
  onConnection?(connection: WebSocketConnection, stream: Duplex): void;
}

/** Joins the caller's WebSocket to a service of an agent, for as long as they may reach into its workspace. */
export async function carryService(
  ctx: Ctx,
  http: Exchange,
  connections: AgentConnections,
  { agent, request, resume: wanted, headers, onConnection }: Carried,
): Promise<void> {
  const permission = (now: Ctx) => authorize(now, 'ssh', workspaceObject(agent));
  permission(ctx);
  if (!http.isUpgrade) throw new AppError('invalid', 'This route is a WebSocket: ask for an upgrade.');
  const holder = ctx.actor.kind === 'user' ? { user: ctx.actor.id, key: ctx.actor.apiKeyId } : undefined;
  // an agent without it is served plainly, and the client sees that by the answer's header
  const resume = holder && connections.offers(agent.id, 'resume/1') ? wanted : undefined;
  if (wanted === 'attach' && !resume) {
    const end = await endOfAgent(ctx.sql, agent.id);
    if (end) throw new AppError('gone', `The workspace ${end}.`);
    throw new AppError('unavailable', 'The agent is not connected.');
  }
  // from here on: the agent may take its time to answer
  const revoked = new AbortController();
  const stopWatching = whileAllowed(ctx, permission, () => {
    revoked.abort(new AppError('forbidden', 'The right to this workspace was taken back.'));
    if (holder && wanted) connections.forget({ users: [], keys: [holder.key] }, agent.id);
  });
  try {
    const inside = await connections.open(
      agent.id,
      { ...request, ...(resume ? { resume, holder } : {}) },
      AbortSignal.any([ctx.signal, revoked.signal]),
    );
    const outside = upgradeOr(inside, () => {
      const more: Record<string, string> = resume ? { [CAPABILITIES_HEADER]: formatCapabilities(['resume/1']) } : {};
      const connection = http.upgrade({ ...headers, ...more });
      const stream = byteStream(connection);
      onConnection?.(connection, stream);
      return stream;
    });
    revoked.signal.addEventListener('abort', () => outside.destroy());
    void splice(outside, inside)
      .catch((err) => ctx.log.debug('a stream ended', { agent_id: agent.id, ...request, err: errorText(err) }))
      .finally(stopWatching);
  } catch (err) {
    stopWatching();
    throw err;
  }
}

/** What `upgrade` gives; where it can't, the stream into the workspace does not stay behind. */
function upgradeOr<T>(inside: Duplex, upgrade: () => T): T {
  try {
    return upgrade();
  } catch (err) {
    inside.destroy();
    throw err;
  }
}
