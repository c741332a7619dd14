// This server's part of the tailnet: the coordinator, which introduces clients to agents, and the relay, which forwards
// their packets. Both are loaded when the first client or agent asks for them.
import type { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit';
import type { CoordinatedPeer, Coordinator } from '@ropewalk/tailnet/coordinator/coordinator';
import type { AcceptOptions, DerpRelay, RelayClosed, RelayMesh, RelayPolicy } from '@ropewalk/tailnet/derp/relay';
import type { CoordinateRequest, CoordinateResponse } from '@ropewalk/wire/proto/tailnet';
import { uuidBytes } from '@ropewalk/wire/uuid';
import type { Services } from '../../app/context/context.ts';
import { derpMapMessage, derpMaps } from '../../app/tailnet/derp-map.ts';
import { RELAY_RESTART } from '../../app/tailnet/relay-restart.ts';
import { REFRESH_S, type ResumeTokens } from '../../app/tailnet/resume-tokens.ts';
import type { AgentNetwork } from '../../db/rows.ts';
import { agentNetwork } from './agent-network.ts';

/** Maximum number of lost peers that each owner may come back to. The oldest are forgotten. */
const MAX_LOST_PER_OWNER = 64;

export interface TailnetParts {
  coordinator: Coordinator;
  relay: DerpRelay;
  /** What this coordinator and those of other servers know of keys. */
  knowledge: KeyKnowledge;
  /** The rules of the package, loaded with it. */
  rules: typeof import('@ropewalk/tailnet/coordinator/rules');
}

/** Whose keys are known, and which may exchange packets. */
export interface KeyKnowledge extends Required<Pick<RelayPolicy, 'introduced' | 'owned' | 'permits'>> {
  /** The keys for which `permits` is true with this key, some of them several times. */
  partnersOf(key: string): Iterable<string>;
}

/** The tailnet's parts on other servers. Keys are 64 hexadecimal digits. */
export interface TailnetMesh extends RelayMesh {
  /** Whether another server knows whose key this is. */
  introduced(key: string): boolean;
  /** Whether another server permits nodes with these keys to exchange packets. */
  permits(source: string, destination: string): boolean;
  /** As in KeyKnowledge. */
  partnersOf(key: string): Iterable<string>;
  /** Whether no other server knows the key as that of another owner. */
  mayPublish(key: string, owner: string): boolean;
  /** The number of nodes at other relays. */
  readonly remote: number;
  /**
   * This server has loaded its parts. Called once, before they are used. The mesh calls `keysChanged` when other servers know
   * something else about keys.
   */
  loaded(parts: TailnetParts, keysChanged: (keys: readonly string[]) => void): void;
  /** The peers of this server's coordinator with these names have changed. */
  changed(names: readonly string[]): void;
}

export class TailnetHub {
  readonly services: Services;
  readonly resumeTokens: ResumeTokens;
  readonly #closed = new AbortController();
  #loading: Promise<TailnetParts> | undefined;
  #parts: TailnetParts | undefined;
  /** Lost peers by owner, oldest first. */
  readonly #lost = new Map<string, Set<CoordinatedPeer>>();
  readonly #onWanted = new Set<(agentId: string) => void>();
  readonly #onKeys = new Set<(keys: readonly string[]) => void>();
  #isAnnouncing = false;
  #mesh: TailnetMesh | undefined;

  constructor(services: Services, resumeTokens: ResumeTokens) {
    this.services = services;
    this.resumeTokens = resumeTokens;
  }

  /** Aborts when the server ends. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** The parts, if something has used them. */
  get parts(): TailnetParts | undefined {
    return this.#parts;
  }

  /** What the parts have to do now, for metrics. */
  figures() {
    const parts = this.#parts;
    return (
      parts && {
        relay: { ...parts.relay.stats(), remoteClients: this.#mesh?.remote ?? 0 },
        coordinator: parts.coordinator.size,
      }
    );
  }

  /** What is known of the network of an agent that is connected to this server. */
  networkOf(agentId: string, roundTripMs: number | undefined): AgentNetwork | undefined {
    const { derpServerEnable: hasRelay, derpServerRegionId: region } = this.services.config;
    return agentNetwork(
      this.#parts?.coordinator.nodeOf(uuidBytes(agentId)),
      hasRelay && roundTripMs !== undefined ? { region, ms: roundTripMs } : undefined,
    );
  }

  /** Connects the parts with those of other servers. Only before they are loaded. */
  join(mesh: TailnetMesh): void {
    this.#mesh = mesh;
  }

  /** @throws AppError `unavailable` when the server ends */
  load(): Promise<TailnetParts> {
    this.#closed.signal.throwIfAborted();
    this.#loading ??= this.#load();
    return this.#loading;
  }

  async #load(): Promise<TailnetParts> {
    const [{ Coordinator }, { DerpRelay }, rules] = await Promise.all([
      import('@ropewalk/tailnet/coordinator/coordinator'),
      import('@ropewalk/tailnet/derp/relay'),
      import('@ropewalk/tailnet/coordinator/rules'),
    ]);
    this.#closed.signal.throwIfAborted();
    const { clock } = this.services;
    const mesh = this.#mesh;
    const coordinator = new Coordinator({
      clock,
      ...(mesh && { mayPublish: (key, owner) => mesh.mayPublish(key, owner) }),
      onChange: () => this.#announceSoon(),
    });
    const knowledge = mesh ? withMesh(coordinator, mesh) : coordinator;
    const relay = new DerpRelay({ policy: knowledge, clock, ...(mesh && { mesh }) });
    this.#parts = { coordinator, relay, knowledge, rules };
    mesh?.loaded(this.#parts, (keys) => this.#keysChanged(keys));
    return this.#parts;
  }

  /** Announces all changes of one turn of the event loop together: one request changes a peer several times. */
  #announceSoon(): void {
    if (this.#isAnnouncing) return;
    this.#isAnnouncing = true;
    queueMicrotask(() => {
      this.#isAnnouncing = false;
      const { coordinator } = this.#parts!;
      const names = coordinator.takeChanged();
      this.#mesh?.changed(names);
      this.#keysChanged(names.flatMap((name) => coordinator.recordOf(name)?.keys ?? []));
    });
  }

  #keysChanged(keys: readonly string[]): void {
    for (const key of keys) this.#parts!.relay.classify(key);
    for (const listener of this.#onKeys) listener(keys);
  }

  /** Calls back when something about keys has changed, or about the pairs of keys with them. Returns a function that ends that. */
  onKeys(listener: (keys: readonly string[]) => void): () => void {
    this.#onKeys.add(listener);
    return () => void this.#onKeys.delete(listener);
  }

  /** Calls back when a client may and wants to reach an agent. Returns a function that ends that. */
  onWanted(listener: (agentId: string) => void): () => void {
    this.#onWanted.add(listener);
    return () => void this.#onWanted.delete(listener);
  }

  /** A client wants to reach this agent, and may. */
  want(agentId: string): void {
    for (const listener of this.#onWanted) listener(agentId);
  }

  /** Serves one connection to the relay. Resolves when it ended. */
  async relay(stream: Duplex, options?: AcceptOptions): Promise<RelayClosed> {
    return (await this.load()).relay.accept(stream, options);
  }

  /** The map, and again when it changes. The stream stays open until the signal aborts. */
  async *maps(signal: AbortSignal) {
    for await (const map of derpMaps(this.services, signal)) yield derpMapMessage(map);
  }

  /** The answer to RefreshResumeToken. */
  resumeToken(peer: { id: string; owner: string }) {
    const { token, expiresAt } = this.resumeTokens.issue(peer);
    return {
      token,
      refreshIn: { seconds: BigInt(REFRESH_S), nanos: 0 },
      expiresAt: { seconds: BigInt(expiresAt), nanos: 0 },
    };
  }

  /**
   * Passes a peer's requests to the coordinator, and its responses back. When the call ends otherwise than by a request to
   * disconnect, the peer is lost.
   */
  async *coordinate(
    peer: CoordinatedPeer,
    owner: string,
    requests: AsyncIterable<CoordinateRequest>,
    signal: AbortSignal,
  ): AsyncGenerator<CoordinateResponse, void, undefined> {
    const lose = () => {
      peer.close();
      this.#rememberLost(peer, owner);
    };
    let failure: unknown;
    const read = async () => {
      try {
        for await (const request of requests) await peer.request(request);
      } catch (err) {
        failure = err;
      }
      lose();
    };
    if (signal.aborted) lose();
    else signal.addEventListener('abort', lose, { once: true });
    void read();
    try {
      yield* peer.responses;
      if (failure !== undefined && !signal.aborted) throw failure;
    } finally {
      signal.removeEventListener('abort', lose);
      lose();
    }
  }

  /** A client with ever new connections makes the coordinator forget only its own. */
  #rememberLost(peer: CoordinatedPeer, owner: string): void {
    const lost = this.#lost.get(owner) ?? new Set();
    if (lost.has(peer)) return;
    this.#lost.set(owner, lost.add(peer));
    void peer.forgotten.then(() => {
      lost.delete(peer);
      if (lost.size === 0) this.#lost.delete(owner);
    });
    if (lost.size > MAX_LOST_PER_OWNER) lost.values().next().value!.close('disconnected');
  }

  /** Ends the coordination. Sessions between nodes go on over the relay until it ends. */
  endCoordination(): void {
    this.#closed.abort(new AppError('unavailable', 'The server is shutting down.'));
    this.#parts?.coordinator.close();
  }

  /** Ends the relay. Its clients learn when to come back. */
  endRelay(): void {
    this.#parts?.relay.close(RELAY_RESTART);
  }
}

/** What this server's coordinator permits, and what others do. */
function withMesh(coordinator: Coordinator, mesh: TailnetMesh): KeyKnowledge {
  return {
    introduced: (key) => coordinator.introduced(key) || mesh.introduced(key),
    owned: (key) => coordinator.owned(key) || mesh.introduced(key),
    permits: (source, destination) => coordinator.permits(source, destination) || mesh.permits(source, destination),
    partnersOf: (key) => [...coordinator.partnersOf(key), ...mesh.partnersOf(key)],
  };
}
