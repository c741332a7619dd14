import type { Duplex } from 'node:stream';
import { AppError, errorText } from '@platform/kit';
import {
  CAPABILITIES_HEADER,
  type Capability,
  formatCapabilities,
  parseCapabilities,
} from '@platform/wire/capabilities';
import { implement, serveDrpc } from '@platform/wire/drpc';
import { Agent } from '@platform/wire/proto/agent';
import { Tailnet } from '@platform/wire/proto/tailnet';
import { requestTunnel, TunnelError, type TunnelRequest } from '@platform/wire/tunnel';
import { byteStream, type WebSocketConnection } from '@platform/wire/websocket';
import { YamuxSession } from '@platform/wire/yamux';
import { createAgentReports } from '../app/agent/reports.ts';
import type { Services } from '../app/context.ts';
import { type RevokedHolders, revokedHolders } from '../app/revoked.ts';
import type { ConnectedAgent } from '../authz/proofs.ts';
import type { AgentIdentity } from '../db/queries/agents.ts';
import { agentApi } from './agent/api.ts';
import { type LiveAgent, startAgentLiveness } from './agent/liveness.ts';
import { tailnetApi } from './agent/tailnet.ts';
import { startWatching } from './agent/watching.ts';
import { AGENT_BOUNDS } from './bounds.ts';
import { patient } from './patience.ts';

/** Towards our own agents; published ones keep the protocol's 256 KiB. */
const OUR_WINDOW = 1024 * 1024;
/** What all windows of one agent's connection may take more, where the way to it is long. */
const WINDOW_GROWTH = 64 * 1024 * 1024;
/** Calls of one agent at a time. */
const MOST_CALLS = 64;
/** Bytes of messages that they hold together: four of the longest. An agent sends one at a time. */
const MOST_HELD_BYTES = 16 * 1024 * 1024;
const TUNNEL_TIMEOUT_MS = 10_000;
/** Close code of a connection that a newer one of the same agent has taken the place of: ours then waits longer. */
const SUPERSEDED = 4409;
export const HOST_KEY_HEADER = 'platform-ssh-host-key';

export interface AgentConnections {
  /** Serves one agent's connection until it ends. */
  serve(
    connection: WebSocketConnection,
    agent: ConnectedAgent<AgentIdentity>,
    /** From admitAgent. */
    number: number,
    offered: string | string[] | undefined,
  ): Promise<void>;
  /** A stream to a service of a connected agent. Throws `unavailable` where it is not connected or can't be reached. */
  open(agentId: string, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex>;
  connected(agentId: string): boolean;
  /** Whether a connected agent said that it can do this. */
  offers(agentId: string, capability: Capability): boolean;
  /** Has one agent, or all that are connected, end the sessions of whoever may no longer hold one. */
  forget(holders: RevokedHolders, agentId?: string): void;
  /** Ends all connections, and notes it. */
  close(): Promise<void>;
}

export function agentUpgradeHeaders(offered: string | string[] | undefined): Record<string, string> {
  return parseCapabilities(offered).has('tunnel/1') ? { [CAPABILITIES_HEADER]: formatCapabilities(['tunnel/1']) } : {};
}

/** The agents that are connected to this server: RPC served, liveness noted, tunnels opened towards them. */
export function createAgentConnections(services: Services, options: { aliveEveryMs?: number } = {}): AgentConnections {
  const { sql, events, log } = services;
  const live = new Map<
    string,
    { session: YamuxSession; number: number; offers: Set<Capability>; workspaceId: string; supersede(): void }
  >();
  const all = new Set<YamuxSession>();
  const liveness = startAgentLiveness(services, options.aliveEveryMs);
  const reports = createAgentReports(services);
  // the newest connection wins, wherever it was taken
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
        // an agent that is gone keeps a session for 100 s, which nobody without rights can go on with
        (err) => log.debug('an agent could not be told of a revocation', { agent_id: id, err: errorText(err) }),
      );
    }
  };
  const offRevoked = events.on('revoked', (event) => {
    revokedHolders(sql, event).then(forget, (err) =>
      log.warn('could not look at a revocation', { err: errorText(err) }),
    );
  });

  const self: AgentConnections = {
    async serve(connection, agent, number, offered) {
      const offers = parseCapabilities(offered);
      let superseded = false;
      const closeCode = (): number => (superseded ? SUPERSEDED : session.failed ? 1011 : 1000);
      const session: YamuxSession = new YamuxSession(byteStream(connection, { closeCode }), {
        role: 'server',
        keepAlive: false,
        maxIncomingStreams: MOST_CALLS,
        ...(offers.has('tunnel/1') ? { maxWindow: OUR_WINDOW, growth: WINDOW_GROWTH } : {}),
      });
      all.add(session);
      const supersede = () => {
        superseded = true;
        void session.close();
      };
      const here = { session, number, offers, workspaceId: agent.workspace_id, supersede };
      const before = live.get(agent.id);
      if (before && before.number > number) supersede();
      else {
        before?.supersede();
        live.set(agent.id, here);
      }
      serveDrpc(
        session,
        [implement(Agent, patient(agentApi(services, reports, agent), log)), implement(Tailnet, tailnetApi())],
        {
          maxHeldBytes: MOST_HELD_BYTES,
          bounds: AGENT_BOUNDS,
          onError: (err, method) => log.debug('agent call failed', { method, agent_id: agent.id, err: errorText(err) }),
        },
      );
      const living: LiveAgent = {
        agent,
        number,
        workspaceId: agent.workspace_id,
        ownerId: agent.owner_id,
        ping: () => session.ping(),
        close: () => void session.close(),
      };
      void liveness.arrived(living);
      log.info('agent connected', { agent_id: agent.id, workspace_id: agent.workspace_id });
      await session.closed;
      all.delete(session);
      log.info('agent disconnected', { agent_id: agent.id, workspace_id: agent.workspace_id });
      const last = live.get(agent.id) === here;
      if (last) live.delete(agent.id);
      await liveness.gone(living, last);
    },
    async open(agentId, request, signal) {
      const here = live.get(agentId);
      if (!here) throw new AppError('unavailable', 'The agent is not connected.');
      if (!here.offers.has('tunnel/1')) {
        throw new AppError('unavailable', 'The agent of this workspace can not be reached through this server.', {
          detail:
            "It is an agent of the published platform, which offers only its own tunnels. Restart the workspace to get this server's agent.",
        });
      }
      try {
        return await requestTunnel(here.session, request, {
          timeoutMs: TUNNEL_TIMEOUT_MS,
          ...(signal ? { signal } : {}),
        });
      } catch (err) {
        signal?.throwIfAborted();
        // what the agent refuses, it refuses in words for a person
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
      for (const session of all) session.close();
      await Promise.all([...all].map((session) => session.closed));
      await Promise.all([liveness.close(), reports.close()]);
    },
  };
  // agents of the published platform hear of it by the stream that they ask for
  const offReinit = events.on('agent_reinit', ({ workspace_id: id, reason }) => {
    for (const [agentId, { workspaceId, offers }] of live) {
      if (workspaceId !== id || !offers.has('tunnel/1')) continue;
      self.open(agentId, { service: 'reinit', reason }).then(
        (stream) => stream.on('error', () => {}).destroy(),
        (err) => log.debug('an agent can not be told to start over', { agent_id: agentId, err: errorText(err) }),
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
