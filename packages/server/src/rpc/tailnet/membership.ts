// This server as a node of the tailnet, for agents that have no tunnels of this server, such as upstream's. Coordinator and
// relay are parts of the same process, so that the node reaches them through memory.
import { type Duplex, duplexPair } from 'node:stream';
import { AppError, errorText } from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import { addressOf, TAILNET_PREFIX } from '@ropewalk/tailnet/address';
import { type ControlConnection, CoordinatorClient } from '@ropewalk/tailnet/coordinator/client';
import { type DialRegion, type MeasureRegion, regionDialer, regionMeasurer } from '@ropewalk/tailnet/derp/dial';
import { nodeWithStack } from '@ropewalk/tailnet/node/node-with-stack';
import type { TailnetNode } from '@ropewalk/tailnet/node/tailnet-node';
import type { Stack } from '@ropewalk/tailnet/stack/stack';
import { implement, serveDrpc } from '@ropewalk/wire/drpc';
import { type CoordinateRequest, Tailnet } from '@ropewalk/wire/proto/tailnet';
import { uuidBytes, uuidText } from '@ropewalk/wire/uuid';
import type { TailnetHub } from './hub.ts';

/** The owner of this server's peers, as people and agents are of theirs. */
const OWNER = 'server';
/** How long an agent may take to become a peer, and then to accept a connection, in ms. */
const JOIN_MS = 10_000;
const CONNECT_MS = 10_000;
/** How long an agent stays a peer after its last connection, in ms: a dashboard asks again and again. */
const IDLE_MS = 60_000;
/** The latency of the relay in this process, in ms. */
const HERE_MS = 0.1;

interface KnownAgent {
  joined: PromiseWithResolvers<void>;
  /** Connections, and attempts. */
  uses: number;
  idle: NodeJS.Timeout | undefined;
}

/** This server's node. It exists while an agent is its peer. */
export class ServerMembership {
  readonly #hub: TailnetHub;
  readonly #idleMs: number;
  readonly #agents = new Map<string, KnownAgent>();
  readonly #joinMs: number;
  readonly #closed = new AbortController();
  #member: Member | undefined;

  constructor(hub: TailnetHub, { idleMs = IDLE_MS, joinMs = JOIN_MS }: { idleMs?: number; joinMs?: number } = {}) {
    this.#hub = hub;
    this.#idleMs = idleMs;
    this.#joinMs = joinMs;
  }

  /** How many agents are peers, or are about to be. */
  get size(): number {
    return this.#agents.size;
  }

  /**
   * Opens a TCP connection to a port of an agent that is connected to this server.
   * @throws AppError `unavailable` if the agent does not join the tailnet or does not accept the connection in time
   */
  async connect(agentId: string, port: number, signal?: AbortSignal): Promise<Duplex> {
    this.#closed.signal.throwIfAborted();
    const until = signal ? AbortSignal.any([signal, this.#closed.signal]) : this.#closed.signal;
    const agent = this.#use(agentId);
    try {
      await this.#joined(agent, until);
      const stream = await this.#dial(agentId, port, until);
      stream.once('close', () => this.#leave(agentId, agent));
      return stream;
    } catch (err) {
      this.#leave(agentId, agent);
      throw err;
    }
  }

  async close(): Promise<void> {
    this.#closed.abort(new AppError('unavailable', 'The server is shutting down.'));
    for (const { idle } of this.#agents.values()) clearTimeout(idle);
    this.#agents.clear();
    await this.#end();
  }

  #use(agentId: string): KnownAgent {
    const known = this.#agents.get(agentId);
    if (known) {
      clearTimeout(known.idle);
      known.uses++;
      return known;
    }
    const agent: KnownAgent = { joined: Promise.withResolvers(), uses: 1, idle: undefined };
    this.#agents.set(agentId, agent);
    this.#member ??= new Member(this.#hub, {
      mayReach: (id) => this.#agents.has(id),
      onPeer: (id) => this.#agents.get(id)?.joined.resolve(),
    });
    this.#member.coordinator.addTunnel(uuidBytes(agentId));
    return agent;
  }

  #leave(agentId: string, agent: KnownAgent): void {
    agent.uses--;
    if (agent.uses > 0 || this.#closed.signal.aborted) return;
    agent.idle = setTimeout(() => {
      this.#agents.delete(agentId);
      this.#member?.coordinator.removeTunnel(uuidBytes(agentId));
      if (this.#agents.size === 0) void this.#end();
    }, this.#idleMs);
    agent.idle.unref();
  }

  async #joined({ joined }: KnownAgent, signal: AbortSignal): Promise<void> {
    try {
      await abortable(joined.promise, AbortSignal.any([signal, AbortSignal.timeout(this.#joinMs)]));
    } catch (cause) {
      signal.throwIfAborted();
      throw new AppError('unavailable', 'The agent of this workspace has not joined the tailnet.', { cause });
    }
  }

  async #dial(agentId: string, port: number, signal: AbortSignal): Promise<Duplex> {
    const to = addressOf(TAILNET_PREFIX, uuidBytes(agentId));
    const until = AbortSignal.any([signal, AbortSignal.timeout(CONNECT_MS)]);
    try {
      if (!this.#member) throw new Error('the node was closed');
      return await this.#member.stack.connect({ to, port, signal: until });
    } catch (cause) {
      signal.throwIfAborted();
      throw new AppError('unavailable', `Could not connect to port ${port} of the workspace: ${errorText(cause)}`, {
        cause,
      });
    }
  }

  async #end(): Promise<void> {
    const member = this.#member;
    this.#member = undefined;
    await member?.close();
  }
}

interface MemberOptions {
  mayReach(agentId: string): boolean;
  /** An agent has become a peer. */
  onPeer(agentId: string): void;
}

class Member {
  readonly stack: Stack;
  readonly coordinator: CoordinatorClient;
  readonly #node: TailnetNode;

  constructor(hub: TailnetHub, { mayReach, onPeer }: MemberOptions) {
    const { config, accessUrl, log } = hub.services;
    const { node, stack } = nodeWithStack({
      ...{ log, blockDirect: config.blockDirectConnections, forceWebSockets: config.derpForceWebsockets },
      dial: relayDialer(hub),
      measure: measureRelay,
    });
    this.stack = stack;
    this.#node = node;
    const id = crypto.randomUUID();
    this.coordinator = new CoordinatorClient({
      ...{ node, role: 'client', serverUrl: accessUrl, log },
      dial: async () => coordinatorHere(hub, id, mayReach),
      onPeer: (peer) => onPeer(uuidText(peer)),
    });
    void this.coordinator.run();
  }

  async close(): Promise<void> {
    this.stack.close();
    await this.coordinator.close();
    this.#node.close();
  }
}

/** The coordinator of this process, for a client that may reach some agents. */
function coordinatorHere(hub: TailnetHub, id: string, mayReach: (agentId: string) => boolean): ControlConnection {
  const streams = new Set<Duplex>();
  async function* coordinate(requests: AsyncIterable<CoordinateRequest>, signal: AbortSignal) {
    const { coordinator, rules } = await hub.load();
    const rule = rules.clientRule((agent) => mayReach(uuidText(agent)));
    yield* hub.coordinate(coordinator.connect({ id: uuidBytes(id), owner: OWNER, rule }), OWNER, requests, signal);
  }
  const service = implement(Tailnet, {
    coordinate: (requests, { signal }) => coordinate(requests, signal),
    streamDERPMaps: (_request, { signal }) => hub.maps(signal),
    refreshResumeToken: () => hub.resumeToken({ id, owner: OWNER }),
    postTelemetry: () => ({}),
  });
  return {
    openStream() {
      const [near, far] = duplexPair();
      serveDrpc(far, [service]);
      streams.add(near);
      near.once('close', () => streams.delete(near));
      return near;
    },
    close() {
      for (const stream of streams) stream.destroy();
    },
  };
}

/** Relays of other places are dialled. That of this process is not. */
function relayDialer(hub: TailnetHub): DialRegion {
  const elsewhere = regionDialer();
  return async (region, options) => {
    if (!region.isEmbedded) return elsewhere(region, options);
    const [near, far] = duplexPair();
    void hub.relay(far).catch(() => far.destroy());
    return near;
  };
}

const measureElsewhere = regionMeasurer();
const measureRelay: MeasureRegion = async (region, options) =>
  region.isEmbedded ? HERE_MS : measureElsewhere(region, options);
