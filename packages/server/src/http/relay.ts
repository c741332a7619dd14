import type { Duplex } from 'node:stream';
import { AppError, errorText, isAppError } from '@ropewalk/kit';
import { CAPABILITIES_HEADER, type Capability, formatCapabilities } from '@ropewalk/wire/capabilities';
import { splice } from '@ropewalk/wire/splice';
import { byteStream, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { allowTunnel, type WantedTunnel } from '../app/agent/tunnel.ts';
import { recordTunnel } from '../app/audit-entries/connection.ts';
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

/** Relays bytes between the client's WebSocket and a service of an agent, for as long as the client may use it. */
export async function relayToAgent(
  ctx: Ctx,
  http: Exchange,
  agents: AgentReach,
  { headers, onConnection, ...wanted }: RelayOptions,
): Promise<void> {
  const { agent } = wanted;
  const offers = (capability: Capability) => agents.offers(agent, capability);
  const { permission, request, capabilities, key } = await allowTunnel(ctx, wanted, offers).catch((err) => {
    if (isAppError(err, 'forbidden')) recordTunnel(ctx, agent, wanted.request)?.deny('Rejected: not permitted.');
    throw err;
  });
  requireUpgrade(http);
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
      AbortSignal.any([ctx.signal, revoked.signal]),
    );
    const outside = upgradeOr(inside, () => {
      const more: Record<string, string> =
        capabilities.length > 0 ? { [CAPABILITIES_HEADER]: formatCapabilities(capabilities) } : {};
      const connection = http.upgrade({ ...headers, ...more });
      const stream = byteStream(connection);
      onConnection?.(connection, stream);
      return stream;
    });
    recorded?.begin();
    revoked.signal.addEventListener('abort', () => outside.destroy());
    void splice(outside, inside)
      .catch((err) =>
        ctx.log.debug('a relay ended', { agent_id: agent.id, service: request.service, err: errorText(err) }),
      )
      .finally(() => {
        recorded?.end();
        stopWatching();
      });
  } catch (err) {
    stopWatching();
    throw err;
  }
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
