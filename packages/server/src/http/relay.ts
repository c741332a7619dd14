import type { Duplex } from 'node:stream';
import { AppError, errorText, isAppError } from '@ropewalk/kit';
import { CAPABILITIES_HEADER, type Capability, formatCapabilities } from '@ropewalk/wire/capabilities';
import { splice } from '@ropewalk/wire/splice';
import { byteStream, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { allowTunnel, type WantedTunnel } from '../app/agent/tunnel.ts';
import { type RecordedTunnel, recordTunnel } from '../app/audit-entries/connection.ts';
import { whileAllowed } from '../app/context/allowed.ts';
import type { Ctx } from '../app/context/context.ts';
import type { AgentReach } from '../cluster/agents.ts';
import { type Exchange, requireUpgrade } from './exchange.ts';

export interface RelayOptions extends WantedTunnel {
  /** Headers of the answer. */
  headers?: Record<string, string>;
  /** Called with the client's connection before bytes are relayed. */
  onConnection?(connection: WebSocketConnection, stream: Duplex): void;
}

/** A tunnel to an agent that ends when the person may not use it any more. */
interface OpenTunnel {
  inside: Duplex;
  capabilities: readonly Capability[];
  recorded: RecordedTunnel | undefined;
  /** Aborted when the permission is revoked. */
  revoked: AbortSignal;
  /** Call it when the tunnel has ended. */
  end(): void;
}

/** Opens a tunnel for the actor, who may need a permission for it. `before` runs when it is permitted. */
async function openAllowed(
  ctx: Ctx,
  agents: AgentReach,
  { before, signal, ...wanted }: WantedTunnel & { before?: () => void; signal?: AbortSignal },
): Promise<OpenTunnel> {
  const { agent } = wanted;
  const offers = (capability: Capability) => agents.offers(agent, capability);
  const { permission, request, capabilities, key } = await allowTunnel(ctx, wanted, offers).catch((err) => {
    if (isAppError(err, 'forbidden')) recordTunnel(ctx, agent, wanted.request)?.deny('Rejected: not permitted.');
    throw err;
  });
  before?.();
  // watched before the tunnel is open, because the agent may take its time to answer
  const revoked = new AbortController();
  const stopWatching = whileAllowed(ctx, permission, () => {
    revoked.abort(new AppError('forbidden', 'Your permission to connect to this workspace was revoked.'));
    if (key) agents.forget({ users: [], keys: [key] }, agent.id);
  });
  try {
    const recorded = recordTunnel(ctx, agent, request);
    const inside = await agents.open(
      agent.id,
      recorded ? { ...request, connection: recorded.id } : request,
      AbortSignal.any([signal ?? ctx.signal, revoked.signal]),
    );
    const end = () => {
      recorded?.end();
      stopWatching();
    };
    return { inside, capabilities, recorded, revoked: revoked.signal, end };
  } catch (err) {
    stopWatching();
    throw err;
  }
}

/** Relays bytes between the client's WebSocket and a service of an agent, for as long as the client may use it. */
export async function relayToAgent(
  ctx: Ctx,
  http: Exchange,
  agents: AgentReach,
  { headers, onConnection, ...wanted }: RelayOptions,
): Promise<void> {
  const { agent, request } = wanted;
  const tunnel = await openAllowed(ctx, agents, { ...wanted, before: () => requireUpgrade(http) });
  const { inside, capabilities, recorded, revoked } = tunnel;
  try {
    const outside = upgradeOr(inside, () => {
      const more: Record<string, string> =
        capabilities.length > 0 ? { [CAPABILITIES_HEADER]: formatCapabilities([...capabilities]) } : {};
      const connection = http.upgrade({ ...headers, ...more });
      const stream = byteStream(connection);
      onConnection?.(connection, stream);
      return stream;
    });
    recorded?.begin();
    revoked.addEventListener('abort', () => outside.destroy());
    void splice(outside, inside)
      .catch((err) =>
        ctx.log.debug('a relay ended', { agent_id: agent.id, service: request.service, err: errorText(err) }),
      )
      .finally(tunnel.end);
  } catch (err) {
    tunnel.end();
    throw err;
  }
}

/** Opens a service of an agent for work that this server does for the actor. The stream ends with the permission. */
export async function openForActor(
  ctx: Ctx,
  agents: AgentReach,
  wanted: WantedTunnel,
  signal: AbortSignal,
): Promise<Duplex> {
  const { inside, recorded, revoked, end } = await openAllowed(ctx, agents, { ...wanted, signal });
  recorded?.begin();
  inside.once('close', end);
  const stop = () => inside.destroy();
  revoked.addEventListener('abort', stop, { once: true });
  if (revoked.aborted || inside.destroyed) stop();
  return inside;
}

/** The result of `upgrade`. If it throws, the tunnel to the agent is destroyed. */
function upgradeOr<T>(inside: Duplex, upgrade: () => T): T {
  try {
    return upgrade();
  } catch (err) {
    inside.destroy();
    throw err;
  }
}
