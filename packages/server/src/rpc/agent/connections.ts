import type { Duplex } from 'node:stream';
import { AppError, errorText } from '@ropewalk/kit';
import {
  CAPABILITIES_HEADER,
  type Capability,
  formatCapabilities,
  parseCapabilities,
} from '@ropewalk/wire/capabilities';
import { type DrpcHandlers, implement, serveDrpc } from '@ropewalk/wire/drpc';
import { Agent } from '@ropewalk/wire/proto/agent';
import { Tailnet } from '@ropewalk/wire/proto/tailnet';
import { requestTunnel, TunnelError, type TunnelRequest } from '@ropewalk/wire/tunnel';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import type { Admitted } from '../../app/agent/admit.ts';
import { type ConnectionReports, createConnectionReports } from '../../app/agent/connections.ts';
import { type AgentReports, createAgentReports } from '../../app/agent/reports.ts';
import { type AgentWrites, createAgentWrites } from '../../app/agent/writes.ts';
import type { Services } from '../../app/context/context.ts';
import { type RevokedHolders, revokedHolders } from '../../app/context/revoked.ts';
import { createResumeTokens } from '../../app/tailnet/resume-tokens.ts';
import { randomText } from '../../app/values/token.ts';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { EventMap } from '../../db/events.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import { type Metrics, noMetrics } from '../../metrics/metrics.ts';
import { AGENT_BOUNDS } from '../bounds.ts';
import { describeCallError } from '../call-errors.ts';
import { Departure } from '../departure.ts';
import { patient } from '../patience.ts';
import { TailnetAgents } from '../tailnet/agents.ts';
import { TailnetHub } from '../tailnet/hub.ts';
import { TailnetInvitations } from '../tailnet/invitations.ts';
import { TailnetServices } from '../tailnet/services.ts';
import { agentApi } from './api.ts';
import { AgentConnection } from './connection.ts';
import { type AgentLiveness, startAgentLiveness } from './liveness.ts';
import { callsAfter, createLogWriters, type LogWriters, logWriterCalls } from './log-writers.ts';
import { SecretChanges } from './secret-changes.ts';
import { tailnetApi } from './tailnet.ts';
import { startWatching } from './watching.ts';

/** Bytes of messages that one agent's calls may hold together: four of the longest. An agent sends one at a time. */
const MAX_HELD_BYTES = 16 * 1024 * 1024;
const TUNNEL_TIMEOUT_MS = 10_000;
export const HOST_KEY_HEADER = 'platform-ssh-host-key';

export interface AgentConnections {
  /** Writes of the reports of agents' starts. */
  readonly writes: AgentWrites;
  /** Serves one agent's connection until it ends. */
  serve(
    connection: WebSocketConnection,
    agent: ConnectedAgent<AgentIdentity>,
    admitted: Admitted,
    offered: string | string[] | undefined,
  ): Promise<void>;
  /**
   * Opens a tunnel to a service of a connected agent, or its service over the tailnet if it has no tunnels. Throws
   * `unavailable` if the agent is not connected or does not answer, and `unsupported` if it does not have the service.
   */
  open(agentId: string, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex>;
  connected(agentId: string): boolean;
  /** Whether a connected agent offers this capability. */
  offers(agentId: string, capability: Capability): boolean;
  /** Makes one agent, or all connected agents, end the sessions of these people and API keys. */
  forget(holders: RevokedHolders, agentId?: string): void;
  /** Ends all connections and stores that they ended. */
  close(): Promise<void>;
}

export interface AgentConnectionsOptions {
  aliveEveryMs?: number | undefined;
  metrics?: Metrics | undefined;
  departure?: Departure;
  /** Default: a separate one, with resume tokens that no other server reads. */
  tailnet?: TailnetHub;
}

type AgentCalls = DrpcHandlers<typeof Agent>;
/** A connection that is a log writer's, or is not yet known to be the agent's. */
type NotYetAgent = Exclude<Admitted, { is: 'agent' }>;

export function agentUpgradeHeaders(offered: string | string[] | undefined): Record<string, string> {
  return parseCapabilities(offered).has('tunnel/1') ? { [CAPABILITIES_HEADER]: formatCapabilities(['tunnel/1']) } : {};
}

/** The agents that are connected to this server. Serves their calls, stores their liveness, and opens tunnels to them. */
export function createAgentConnections(services: Services, options: AgentConnectionsOptions = {}): AgentConnections {
  return new ConnectedAgents(services, options);
}

class ConnectedAgents implements AgentConnections {
  readonly writes: AgentWrites;
  readonly #services: Services;
  readonly #metrics: Metrics;
  readonly #departure: Departure;
  readonly #logWriters: LogWriters;
  readonly #liveness: AgentLiveness;
  readonly #reports: AgentReports;
  readonly #reportConnection: ConnectionReports;
  readonly #secrets: SecretChanges;
  readonly #watching: { close(): void };
  readonly #tailnet: TailnetHub;
  readonly #tailnetAgents: TailnetAgents;
  readonly #invitations: TailnetInvitations;
  readonly #tailnetServices: TailnetServices;
  readonly #off: (() => void)[];
  /** All connections, those of log writers included. */
  readonly #all = new Set<AgentConnection>();
  /** The newest connection of each agent, by the agent's id. */
  readonly #live = new Map<string, AgentConnection>();

  constructor(
    services: Services,
    { metrics = noMetrics, departure = new Departure(), aliveEveryMs, tailnet }: AgentConnectionsOptions,
  ) {
    const { events, clock } = services;
    this.#tailnet = tailnet ?? new TailnetHub(services, createResumeTokens(randomText(43), clock));
    this.#tailnetAgents = new TailnetAgents(this.#tailnet);
    this.#invitations = new TailnetInvitations(this.#tailnet, {
      accepts: (agentId) => this.offers(agentId, 'tailnet/1'),
      invite: async (agentId) => {
        const stream = await this.open(agentId, { service: 'tailnet' });
        stream.on('error', () => {}).destroy();
      },
    });
    this.#tailnetServices = new TailnetServices(this.#tailnet);
    this.#services = services;
    this.#metrics = metrics;
    this.#departure = departure;
    departure.onBegin(() => {
      for (const connection of this.#all) this.#move(connection);
    });
    this.#logWriters = createLogWriters(services);
    this.#liveness = startAgentLiveness(services, {
      everyMs: aliveEveryMs,
      networkOf: (agentId, roundTripMs) => this.#tailnet.networkOf(agentId, roundTripMs),
    });
    this.#reports = createAgentReports(services);
    this.writes = createAgentWrites(services.sql);
    this.#reportConnection = createConnectionReports(services);
    this.#off = [
      events.on('agent_connected', (event) => this.#supersedeOlder(event)),
      events.on('revoked', (event) => this.#forgetRevoked(event)),
      events.on('agent_reinit', (event) => this.#askToReinitialize(event)),
    ];
    this.#secrets = new SecretChanges(services, {
      all: () => [...this.#live.values()].map(({ agent: { id }, ownerId }) => ({ id, ownerId })),
      refresh: (isFor) =>
        this.#announce({ service: 'secrets' }, ({ agent: { id }, ownerId }) => isFor({ id, ownerId })),
    });
    this.#watching = startWatching(services, {
      reports: this.#reports,
      connected: (agentId) => this.connected(agentId),
      open: (agentId) => this.open(agentId, { service: 'watch' }),
    });
  }

  async serve(
    connection: WebSocketConnection,
    agent: ConnectedAgent<AgentIdentity>,
    admitted: Admitted,
    offered: string | string[] | undefined,
  ): Promise<void> {
    const served = new AgentConnection(connection, {
      agent,
      offers: parseCapabilities(offered),
      keepAlive: admitted.is !== 'agent',
    });
    this.#all.add(served);
    if (admitted.is === 'agent') {
      const calls = this.#agentCalls(agent);
      this.#enter(served, admitted.number);
      this.#answer(served, calls);
      await served.session.closed;
    } else {
      const leave = this.#logWriters.add(agent, served.session);
      this.#answer(served, this.#callsBefore(served, admitted, leave));
      await served.session.closed;
      leave();
    }
    this.#all.delete(served);
    await this.#left(served);
  }

  /** From here on this is the connection of the agent. */
  #enter(entering: AgentConnection, number: number): void {
    const { agent } = entering;
    entering.number = number;
    const before = this.#live.get(agent.id);
    if (before && before.number > number) entering.supersede();
    else {
      if (before) this.#replace(before);
      this.#live.set(agent.id, entering);
    }
    if (this.#departure.isOn) this.#move(entering);
    void this.#liveness.arrived(entering);
    if (number === 1) this.#metrics.agentFirstConnected(agent);
    this.#invitations.connected(agent.id);
    this.#services.log.info('agent connected', { agent_id: agent.id, workspace_id: agent.workspace_id });
  }

  #agentCalls(agent: ConnectedAgent<AgentIdentity>): AgentCalls {
    const sinks = {
      reports: this.#reports,
      writes: this.writes,
      reportConnection: this.#reportConnection,
      secrets: this.#secrets,
      metrics: this.#metrics,
    };
    return agentApi(this.#services, sinks, agent);
  }

  /** The calls of a connection that is not yet the agent's. `leave` ends its time as a log writer. */
  #callsBefore(served: AgentConnection, admitted: NotYetAgent, leave: () => void): AgentCalls {
    const { agent } = served;
    const api = this.#agentCalls(agent);
    const logs = logWriterCalls(this.#services, agent, api);
    if (admitted.is === 'log writer') return logs;
    const enter = async () => {
      const number = await admitted.admit();
      leave();
      this.#enter(served, number);
    };
    return callsAfter(enter, api, logs);
  }

  #answer({ session, agent }: AgentConnection, calls: AgentCalls): void {
    const { log } = this.#services;
    serveDrpc(
      session,
      [
        implement(Agent, patient(calls, log)),
        implement(Tailnet, tailnetApi(this.#tailnet, this.#tailnetAgents, agent)),
      ],
      {
        maxHeldBytes: MAX_HELD_BYTES,
        bounds: AGENT_BOUNDS,
        describeError: describeCallError(log),
        onError: (err, method) => log.debug('agent call failed', { method, agent_id: agent.id, err: errorText(err) }),
      },
    );
  }

  /** Ends a connection whose agent has a newer one. */
  #replace(older: AgentConnection): void {
    // while tunnels keep it open, it is not what the row of the agent is about
    if (older.isMoving) void this.#liveness.gone(older, false);
    older.supersede();
  }

  /** Makes an agent connect to another server. Its tunnels stay open until they or this server end. */
  #move(moving: AgentConnection): void {
    const { number, offers, session } = moving;
    if (number === 0 || !offers.has('tunnel/1')) {
      moving.close();
      return;
    }
    moving.isMoving = true;
    requestTunnel(session, { service: 'move' }, { timeoutMs: TUNNEL_TIMEOUT_MS }).then(
      (stream) => stream.on('error', () => {}).destroy(),
      // an earlier version, which connects again when its connection ends
      () => moving.close(),
    );
  }

  async #left(left: AgentConnection): Promise<void> {
    const { agent, number } = left;
    if (number === 0) return;
    this.#services.log.info('agent disconnected', { agent_id: agent.id, workspace_id: agent.workspace_id });
    const isNewest = this.#live.get(agent.id) === left;
    if (isNewest) {
      this.#live.delete(agent.id);
      this.#secrets.left(agent.id);
    }
    await this.#liveness.gone(left, isNewest);
  }

  async open(agentId: string, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex> {
    const here = this.#live.get(agentId);
    if (!here) throw new AppError('unavailable', 'The agent is not connected.');
    if (!here.offers.has('tunnel/1')) return this.#tailnetServices.open(agentId, request, signal);
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
  }

  connected(agentId: string): boolean {
    return this.#live.has(agentId);
  }

  offers(agentId: string, capability: Capability): boolean {
    return this.#live.get(agentId)?.offers.has(capability) ?? false;
  }

  forget(holders: RevokedHolders, agentId?: string): void {
    if (holders.users.length + holders.keys.length === 0) return;
    const { log } = this.#services;
    for (const [id, { session, offers }] of this.#live) {
      if (!offers.has('resume/1') || (agentId !== undefined && id !== agentId)) continue;
      requestTunnel(session, { service: 'forget', ...holders }, { timeoutMs: TUNNEL_TIMEOUT_MS }).then(
        (stream) => stream.destroy(),
        // an agent that is gone keeps a session for 100 s, but nobody without permission can resume it
        (err) => log.debug('could not send a revocation to an agent', { agent_id: id, err: errorText(err) }),
      );
    }
  }

  async close(): Promise<void> {
    this.#watching.close();
    this.#invitations.close();
    this.#tailnetAgents.close();
    await this.#tailnetServices.close();
    for (const stop of this.#off) stop();
    this.#secrets.close();
    this.#logWriters.close();
    for (const { session } of this.#all) session.close();
    await Promise.all([...this.#all].map(({ session }) => session.closed));
    await Promise.all([this.writes.close(), this.#liveness.close(), this.#reports.close()]);
  }

  /** The newest connection wins, on whichever server it is. */
  #supersedeOlder({ agent_id, number }: EventMap['agent_connected']): void {
    const here = this.#live.get(agent_id);
    if (!here || here.number >= number) return;
    // what comes now goes to the agent's new server
    if (here.isMoving) this.#live.delete(agent_id);
    this.#replace(here);
  }

  #forgetRevoked(event: EventMap['revoked']): void {
    const { sql, log } = this.#services;
    revokedHolders(sql, event).then(
      (holders) => this.forget(holders),
      (err) => log.warn('could not read who was revoked', { err: errorText(err) }),
    );
  }

  /** Upstream's agents receive this over the stream of GET /workspaceagents/me/reinit. */
  #askToReinitialize({ workspace_id: id, reason }: EventMap['agent_reinit']): void {
    this.#announce({ service: 'reinit', reason }, ({ workspaceId }) => workspaceId === id);
  }

  /** Upstream's agents have no message for this: they get new secrets when they connect again. */
  /** Sends a request to each of these agents that has tunnels. Its answer has no content. */
  #announce(request: TunnelRequest, isFor: (agent: AgentConnection) => boolean): void {
    const { log } = this.#services;
    for (const [agentId, agent] of this.#live) {
      if (!agent.offers.has('tunnel/1') || !isFor(agent)) continue;
      this.open(agentId, request).then(
        (stream) => stream.on('error', () => {}).destroy(),
        (err) =>
          log.debug('could not reach an agent', { service: request.service, agent_id: agentId, err: errorText(err) }),
      );
    }
  }
}
