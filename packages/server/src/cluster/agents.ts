import type { Duplex } from 'node:stream';
import { AppError, errorText } from '@ropewalk/kit';
import { errorFromText, errorToText } from '@ropewalk/kit/error-text';
import type { Capability } from '@ropewalk/wire/capabilities';
import { linkSession } from '@ropewalk/wire/link-session';
import { splice } from '@ropewalk/wire/splice';
import { type AcceptedTunnel, acceptTunnel, TunnelError, type TunnelRequest } from '@ropewalk/wire/tunnel';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import type { Services } from '../app/context/context.ts';
import type { RevokedHolders } from '../app/context/revoked.ts';
import type { AgentIdentity } from '../db/rows.ts';
import type { AgentConnections } from '../rpc/agent/connections.ts';
import type { Peers } from './peers.ts';
import { NOT_HERE, otherPlace } from './place.ts';
import type { ClusterTailnet, TailnetRequest } from './tailnet/cluster-tailnet.ts';

/** The agents of the deployment, on whichever server each is connected. Everything that reaches an agent goes through this. */
export interface AgentReach {
  /**
   * Opens a tunnel to a service of an agent.
   * @throws AppError `unavailable` if the agent is not connected, has no tunnels, or rejects the request
   */
  open(agentId: string, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex>;
  /** Whether an agent is connected and offers this capability. For an agent of another server, by its row. */
  offers(agent: AgentIdentity, capability: Capability): boolean;
  /** Makes an agent end the sessions of these people and API keys. */
  forget(holders: RevokedHolders, agentId: string): void;
}

/** What servers ask each other for. */
type PeerRequest =
  | { service: 'agent'; agent: string; request: TunnelRequest }
  | { service: 'forget'; agent: string; holders: RevokedHolders }
  /** Accepted by a server to which agents and daemons may move. */
  | { service: 'ready' }
  | TailnetRequest;

export class ClusterAgents implements AgentReach {
  readonly #services: Services;
  readonly #local: AgentConnections;
  readonly #peers: Peers;
  readonly #isReady: () => boolean;
  readonly #tailnet: ClusterTailnet;
  /** The sessions that other servers have opened. */
  readonly #accepted = new Set<YamuxSession>();

  /** `isReady`: whether this server has started and does not end soon. */
  constructor(
    services: Services,
    {
      local,
      peers,
      tailnet,
      isReady,
    }: { local: AgentConnections; peers: Peers; tailnet: ClusterTailnet; isReady: () => boolean },
  ) {
    this.#services = services;
    this.#local = local;
    this.#peers = peers;
    this.#isReady = isReady;
    this.#tailnet = tailnet;
  }

  async open(agentId: string, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex> {
    let asked: string | undefined;
    for (;;) {
      if (this.#local.connected(agentId)) return this.#local.open(agentId, request, signal);
      const { place, isRecent } = await this.#otherPlace(agentId);
      // the same answer twice: the row is as old as before
      if (place === undefined || place === asked)
        throw new AppError('unavailable', 'The agent is not connected.', isRecent ? { retryAfter: 1 } : {});
      asked = place;
      try {
        return await this.#peers.request(place, { service: 'agent', agent: agentId, request }, signal);
      } catch (err) {
        if (!(err instanceof TunnelError)) throw err;
        if (err.message !== NOT_HERE) throw errorFromText(err.message);
      }
    }
  }

  offers(agent: AgentIdentity, capability: Capability): boolean {
    if (this.#local.connected(agent.id)) return this.#local.offers(agent.id, capability);
    const { replica_id: place, last_connected_at: seen, disconnected_at: gone } = agent;
    return (
      place !== null &&
      place !== this.#services.replicaId &&
      seen !== null &&
      (gone === null || gone < seen) &&
      agent.capabilities.includes(capability)
    );
  }

  forget(holders: RevokedHolders, agentId: string): void {
    this.#local.forget(holders, agentId);
    if (this.#local.connected(agentId)) return;
    this.#otherPlace(agentId)
      .then(async ({ place }) => {
        if (place) (await this.#peers.request(place, { service: 'forget', agent: agentId, holders })).destroy();
      })
      .catch((err) =>
        this.#services.log.debug('could not send a revocation to an agent', { agent_id: agentId, err: errorText(err) }),
      );
  }

  #otherPlace(agentId: string): Promise<{ place?: string; isRecent: boolean }> {
    return otherPlace(this.#services, this.#peers, agentId);
  }

  /** Serves the streams of another server until its connection ends. */
  async serve(connection: WebSocketConnection, from: string): Promise<void> {
    const { log } = this.#services;
    const session = linkSession(connection, {
      role: 'server',
      onStream: (stream) => void this.#serveStream(stream, from),
    });
    this.#accepted.add(session);
    log.debug('another server connected', { replica: from });
    // one that has just started needs to know which nodes are at this server's relay
    if (!this.#peers.has(from)) this.#peers.refresh().catch(() => {});
    await session.closed;
    this.#accepted.delete(session);
    log.debug('another server disconnected', { replica: from });
  }

  /** Ends the sessions that other servers have opened. */
  async close(): Promise<void> {
    const sessions = [...this.#accepted];
    for (const session of sessions) session.close();
    await Promise.all(sessions.map(({ closed }) => closed));
  }

  /** Never rejects. */
  async #serveStream(stream: Duplex, from: string): Promise<void> {
    // its end is handled, and between two steps nothing else listens
    stream.on('error', () => {});
    try {
      const tunnel = await acceptTunnel(stream);
      const wanted = tunnel.request as PeerRequest;
      if (wanted.service === 'agent') await this.#serveAgent(tunnel, stream, wanted.agent, wanted.request);
      else if (wanted.service === 'forget') {
        this.#local.forget(wanted.holders, wanted.agent);
        tunnel.accept().end();
      } else if (wanted.service === 'ready') {
        if (this.#isReady()) tunnel.accept().end();
        else tunnel.refuse('This server is not ready.');
      } else if (isTailnetRequest(wanted)) await this.#tailnet.serve(tunnel, stream, wanted, from);
      else tunnel.refuse('This server does not have this service.');
    } catch (err) {
      this.#services.log.debug('a stream of another server ended', { err: errorText(err) });
    }
  }

  async #serveAgent(tunnel: AcceptedTunnel, stream: Duplex, agentId: string, request: TunnelRequest): Promise<void> {
    // never passed on to a third server: rows that contradict each other must not make circles
    if (!this.#local.connected(agentId)) return tunnel.refuse(NOT_HERE);
    const gone = new AbortController();
    const onGone = () => gone.abort(new AppError('canceled', 'The other server has closed the stream.'));
    stream.once('close', onGone);
    let inside: Duplex;
    try {
      inside = await this.#local.open(agentId, request, gone.signal);
    } catch (err) {
      return tunnel.refuse(errorToText(err, 'The agent of this workspace does not answer.'));
    } finally {
      stream.off('close', onGone);
    }
    await splice(tunnel.accept(), inside);
  }
}

const isTailnetRequest = (request: PeerRequest): request is TailnetRequest => request.service.startsWith('tailnet ');
