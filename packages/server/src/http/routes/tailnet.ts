import type { RouteQuery } from '@ropewalk/contract';
import { formatNodeKey } from '@ropewalk/tailnet/keys';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import { whileAllowed } from '../../app/context/allowed.ts';
import type { Ctx } from '../../app/context/context.ts';
import { connectionInfo, derpMaps } from '../../app/tailnet/derp-map.ts';
import { mayJoinTailnet } from '../../app/tailnet/reach.ts';
import { checkAgentApiVersion } from '../../app/values/api-version.ts';
import { authorize } from '../../authz/authorize.ts';
import { TailnetClient, tailnetOwner } from '../../rpc/tailnet/client.ts';
import type { TailnetHub } from '../../rpc/tailnet/hub.ts';
import { defineHandlers, type Exchange, requireUpgrade } from '../exchange.ts';
import { watchSilence } from '../heartbeat.ts';

type TailnetQuery = RouteQuery<'GET /tailnet'>;

/** How often the server pings a control connection, in ms. */
const PING_MS = 15_000;
const CLOSE_REVOKED = 1008;

/** Sends the map of relays, and again when it changes, until the connection closes. */
async function sendMaps(ctx: Ctx, connection: WebSocketConnection): Promise<void> {
  const closed = new AbortController();
  connection.once('close', () => closed.abort());
  for await (const map of derpMaps(ctx, closed.signal)) connection.sendBinary(Buffer.from(JSON.stringify(map)));
}

/** The control connections of upstream's clients, and what administrators see of the tailnet. */
export function tailnetHandlers(hub: TailnetHub) {
  async function join(ctx: Ctx, http: Exchange, query: TailnetQuery, own: { version: string; agentId?: string }) {
    const { agentId } = own;
    await mayJoinTailnet(ctx, agentId);
    checkAgentApiVersion(query.version || own.version);
    const resumed = query.resume_token ? hub.resumeTokens.read(query.resume_token, tailnetOwner(ctx)) : undefined;
    requireUpgrade(http);
    // before the upgrade: a server that ends answers with its status
    await hub.load();
    const connection = http.upgrade();
    watchSilence(connection, {
      pingMs: PING_MS,
      busy: () => connection.bufferedBytes > 0,
      end: (why) => connection.destroy(why),
    });
    const peerId = resumed ?? crypto.randomUUID();
    void new TailnetClient(hub, ctx, { peerId, ...(agentId === undefined ? {} : { agentId }) }).serve(connection);
  }
  return defineHandlers({
    'GET /workspaceagents/connection': (ctx) => connectionInfo(ctx),
    'GET /workspaceagents/{workspaceagent}/coordinate': (ctx, { params, query, http }) =>
      join(ctx, http, query, { version: '1.0', agentId: params.workspaceagent }),
    'GET /tailnet': (ctx, { query, http }) => join(ctx, http, query, { version: '2.0' }),
    'GET /derp-map': (ctx, { http }) => {
      const connection = http.upgrade();
      const end = whileAllowed(
        ctx,
        () => {},
        () => connection.close(CLOSE_REVOKED, 'not allowed any more'),
      );
      connection.once('close', end);
      watchSilence(connection, { busy: () => connection.bufferedBytes > 0, end: (why) => connection.destroy(why) });
      for (const event of ['text', 'binary'] as const) connection.on(event, () => {});
      void sendMaps(ctx, connection);
    },
    'GET /debug/coordinator': (ctx, { http }) => {
      authorize(ctx, 'read', { type: 'debug_info' });
      http.reply.type('text/plain; charset=utf-8');
      const coordinator = hub.parts?.coordinator;
      if (!coordinator) return Buffer.from('No client or agent has used the coordinator.\n');
      const { peers, tunnels } = coordinator.size;
      return Buffer.from(`peers: ${peers}\ntunnels: ${tunnels}\n`);
    },
    'GET /debug/tailnet': (ctx, { http }) => {
      authorize(ctx, 'read', { type: 'debug_info' });
      http.reply.type('text/plain; charset=utf-8');
      const relay = hub.parts?.relay;
      if (!relay) return Buffer.from('No client or agent has used the relay.\n');
      return Buffer.from(`${JSON.stringify(relay.stats(), undefined, 2)}\n`);
    },
    'GET /debug/derp/traffic': (ctx) => {
      authorize(ctx, 'read', { type: 'debug_info' });
      return (hub.parts?.relay.traffic() ?? []).map(({ key, bytesReceived, bytesSent }) => ({
        key: formatNodeKey(Buffer.from(key, 'hex')),
        recv: bytesReceived,
        sent: bytesSent,
      }));
    },
  });
}
