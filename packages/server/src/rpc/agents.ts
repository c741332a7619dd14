import type { Duplex } from 'node:stream';
import { AppError, errorText } from '@ropewalk/kit';
import {
  CAPABILITIES_HEADER,
  type Capability,
  formatCapabilities,
  parseCapabilities,
} from '@ropewalk/wire/capabilities';
import { implement, serveDrpc } from '@ropewalk/wire/drpc';
import { Agent } from '@ropewalk/wire/proto/agent';
import { Tailnet } from '@ropewalk/wire/proto/tailnet';
import { requestTunnel, TunnelError, type TunnelRequest } from '@ropewalk/wire/tunnel';
import { byteStream, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import type { Admitted } from '../app/agent/admit.ts';
import { createConnectionReports } from '../app/agent/connections.ts';
import { createAgentReports } from '../app/agent/reports.ts';
import type { Services } from '../app/context/context.ts';
import { type RevokedHolders, revokedHolders } from '../app/context/revoked.ts';
import type { ConnectedAgent } from '../authz/proofs.ts';
import type { AgentIdentity } from '../db/rows.ts';
import { type Metrics, noMetrics } from '../metrics/metrics.ts';
import { agentApi } from './agent/api.ts';
import { type LiveAgent, startAgentLiveness } from './agent/liveness.ts';
import { callsAfter, createLogWriters, logWriterCalls } from './agent/log-writers.ts';
import { tailnetApi } from './agent/tailnet.ts';
import { startWatching } from './agent/watching.ts';
import { AGENT_BOUNDS } from './bounds.ts';
import { describeCallError } from './call-errors.ts';
import { patient } from './patience.ts';

/** The window of our own agents' streams. Upstream's agents keep the protocol's 256 KiB. */
const OUR_WINDOW = 1024 * 1024;
/** How much all windows of one agent's connection may grow together if the round trip is long. */
const WINDOW_GROWTH = 64 * 1024 * 1024;
/** Concurrent calls of one agent. */
const MAX_CALLS = 64;
/** Bytes of messages that these calls may hold together: four of the longest. An agent sends one at a time. */
const MAX_HELD_BYTES = 16 * 1024 * 1024;
const TUNNEL_TIMEOUT_MS = 10_000;
/** Close code of a connection that a newer one of the same agent replaces. Our agents then wait longer before they dial. */
const SUPERSEDED = 4409;
export const HOST_KEY_HEADER = 'platform-ssh-host-key';

export interface AgentConnections {
  /** Serves one agent's connection until it ends. */
  serve(
    connection: WebSocketConnection,
    agent: ConnectedAgent<AgentIdentity>,
    admitted: Admitted,
    offered: string | string[] | undefined,
  ): Promise<void>;
  /** Opens a tunnel to a service of a connected agent. Throws `unavailable` if the agent is not connected or has no tunnels. */
  open(agentId: string, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex>;
  connected(agentId: string): boolean;
  /** Whether a connected agent offers this capability. */
  offers(agentId: string, capability: Capability): boolean;
  /** Makes one agent, or all connected agents, end the sessions of these people and API keys. */
  forget(holders: RevokedHolders, agentId?: string): void;
  /** Ends all connections and stores that they ended. */
  close(): Promise<void>;
}

export function agentUpgradeHeaders(offered: string | string[] | undefined): Record<string, string> {
  return parseCapabilities(offered).has('tunnel/1') ? { [CAPABILITIES_HEADER]: formatCapabilities(['tunnel/1']) } : {};
}

/** The agents that are connected to this server. Serves their calls, stores their liveness, and opens tunnels to them. */
export function createAgentConnections(
  services: Services,
  { aliveEveryMs, metrics = noMetrics }: { aliveEveryMs?: number; metrics?: Metrics | undefined } = {},
): AgentConnections {
  const { sql, events, log } = services;
  const live = new Map<
    string,
    { session: YamuxSession; number: number; offers: Set<Capability>; workspaceId: string; supersede(): void }
  >();
  const all = new Set<YamuxSession>();
  const logWriters = createLogWriters(services);
  const liveness = startAgentLiveness(services, aliveEveryMs);
  const reports = createAgentReports(services);
  const reportConnection = createConnectionReports(services);
  // the newest connection wins, on whichever server it is
  const off = events.on('agent_connected', ({ agent_id, number }) => {
    const here = live.get(agent_id);
    if (here && here.number < number) here.supersede();
  });

  const forget = (holders: RevokedHolders, agentId?: string) => {
    if (holders.users.length + holders.keys.length === 0) return;
    for (const [id, { session, offers }] of live) {
      if (!offers.has('resume/1') || (agentId !== undefined && id !== agentId)) continue;
      requestTunnel(session, { service: 'forget', ...holders }, { timeoutMs: TUNNEL_TIMEOUT_MS }).then(
        (stream) => stream.destroy(),
        // an agent that is gone keeps a session for 100 s, but nobody without permission can resume it
        (err) => log.debug('could not send a revocation to an agent', { agent_id: id, err: errorText(err) }),
      );
    }
  };
  const offRevoked = events.on('revoked', (event) => {
    revokedHolders(sql, event).then(forget, (err) =>
      log.warn('could not read who was revoked', { err: errorText(err) }),
    );
  });

  const self: AgentConnections = {
    async serve(connection, agent, admitted, offered) {
      const offers = parseCapabilities(offered);
      let superseded = false;
      let living: LiveAgent | undefined;
      const closeCode = (): number => (superseded ? SUPERSEDED : session.failed ? 1011 : 1000);
      const session: YamuxSession = new YamuxSession(byteStream(connection, { closeCode }), {
        role: 'server',
        // the liveness pings agents
        ...(admitted.is === 'agent' ? { keepAlive: false } : {}),
        maxIncomingStreams: MAX_CALLS,
        ...(offers.has('tunnel/1') ? { maxWindow: OUR_WINDOW, growth: WINDOW_GROWTH } : {}),
      });
      all.add(session);
      const supersede = () => {
        superseded = true;
        void session.close();
      };
      /** From here on this is the connection of the agent. */
      const enter = (number: number) => {
        offLogWriter();
        const before = live.get(agent.id);
        if (before && before.number > number) supersede();
        else {
          before?.supersede();
          live.set(agent.id, { session, number, offers, workspaceId: agent.workspace_id, supersede });
        }
        living = {
          agent,
          number,
          workspaceId: agent.workspace_id,
          ownerId: agent.owner_id,
          ping: () => session.ping(),
          close: () => void session.close(),
        };
        void liveness.arrived(living);
        if (number === 1) metrics.agentFirstConnected(agent);
        log.info('agent connected', { agent_id: agent.id, workspace_id: agent.workspace_id });
      };
      const api = agentApi(services, { reports, reportConnection, metrics }, agent);
      let calls = api;
      let offLogWriter = () => {};
      if (admitted.is === 'agent') enter(admitted.number);
      else {
        offLogWriter = logWriters.add(agent, session);
        const logs = logWriterCalls(services, agent, api);
        const { is } = admitted;
        calls = is === 'log writer' ? logs : callsAfter(async () => enter(await admitted.admit()), api, logs);
      }
      serveDrpc(session, [implement(Agent, patient(calls, log)), implement(Tailnet, tailnetApi())], {
        maxHeldBytes: MAX_HELD_BYTES,
        bounds: AGENT_BOUNDS,
        describeError: describeCallError(log),
        onError: (err, method) => log.debug('agent call failed', { method, agent_id: agent.id, err: errorText(err) }),
      });
      await session.closed;
      all.delete(session);
      offLogWriter();
      if (!living) return;
      log.info('agent disconnected', { agent_id: agent.id, workspace_id: agent.workspace_id });
      const last = live.get(agent.id)?.session === session;
      if (last) live.delete(agent.id);
      await liveness.gone(living, last);
    },
    async open(agentId, request, signal) {
      const here = live.get(agentId);
      if (!here) throw new AppError('unavailable', 'The agent is not connected.');
      if (!here.offers.has('tunnel/1')) {
        throw new AppError('unavailable', 'The agent of this workspace cannot be reached through this server.', {
          detail:
            "It is upstream's agent, which offers only upstream's tunnels. Restart the workspace to get this server's agent.",
        });
      }
      try {
        return await requestTunnel(here.session, request, {
          timeoutMs: TUNNEL_TIMEOUT_MS,
          ...(signal ? { signal } : {}),
        });
      } catch (err) {
        signal?.throwIfAborted();
        // the agent's refusal has a message for a person
        if (err instanceof TunnelError && err.code === 'refused') throw new AppError('unavailable', err.message);
        throw new AppError('unavailable', 'The agent of this workspace does not answer.', { cause: err });
      }
    },
    connected: (agentId) => live.has(agentId),
    offers: (agentId, capability) => live.get(agentId)?.offers.has(capability) ?? false,
    forget,
    async close() {
      watching.close();
      offReinit();
      off();
      offRevoked();
      logWriters.close();
      for (const session of all) session.close();
      await Promise.all([...all].map((session) => session.closed));
      await Promise.all([liveness.close(), reports.close()]);
    },
  };
  // upstream's agents receive this over the stream of GET /workspaceagents/me/reinit
  const offReinit = events.on('agent_reinit', ({ workspace_id: id, reason }) => {
    for (const [agentId, { workspaceId, offers }] of live) {
      if (workspaceId !== id || !offers.has('tunnel/1')) continue;
      self.open(agentId, { service: 'reinit', reason }).then(
        (stream) => stream.on('error', () => {}).destroy(),
        (err) => log.debug('could not ask an agent to start over', { agent_id: agentId, err: errorText(err) }),
      );
    }
  });
  const watching = startWatching(services, {
    reports,
    connected: self.connected,
    open: (agentId) => self.open(agentId, { service: 'watch' }),
  });
  return self;
}
