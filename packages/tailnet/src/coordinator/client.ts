// A node's side of the coordinator: publishes the node, and gives it its peers.
//
// - The owner opens connections. The client repeats that for as long as it runs. Tunnels live on without a connection.
// - A client opens tunnels to agents. It uses an agent's node when the agent is ready for its handshake, or after 5
//   seconds. An agent uses the nodes of clients immediately, and reports that it is ready.
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { backoff, type Clock, errorText, type Logger, silentLogger, systemClock } from '@ropewalk/kit';
import { createDrpcClient, type DrpcCall, type DrpcClient, DrpcError } from '@ropewalk/wire/drpc';
import {
  type CoordinateRequestSchema,
  type CoordinateResponse,
  type CoordinateResponse_PeerUpdate,
  type CoordinateResponseSchema,
  type DERPMap,
  CoordinateResponse_PeerUpdate_Kind as Kind,
  type Node,
  Tailnet,
} from '@ropewalk/wire/proto/tailnet';
import { readRelayMap } from '../derp/map.ts';
import { decodeNodeKey } from '../keys.ts';
import { hexOf } from '../names.ts';
import type { TailnetNode } from '../node/tailnet-node.ts';

/** A connection to the coordinator's services, such as a yamux session. */
export interface ControlConnection {
  openStream(): Duplex | Promise<Duplex>;
  close(): void;
}

export interface CoordinatorClientOptions {
  node: TailnetNode;
  /** An agent waits for clients, and may not open tunnels. */
  role: 'client' | 'agent';
  /** The URL that this program uses for the server, whose embedded relay is there. */
  serverUrl: string | URL;
  /**
   * Opens a connection. `resumeToken` is the token of the last one, which keeps this client's id. Throw
   * ResumeTokenError if the server rejects it.
   */
  dial: (options: { resumeToken: string | undefined; signal: AbortSignal }) => Promise<ControlConnection>;
  /** Whether an error of the first `dial` is final. Default: none is. Errors of later ones never are. */
  isFinal?: (error: unknown) => boolean;
  clock?: Clock;
  log?: Logger;
  /** The connection to the coordinator was opened or lost. */
  onConnected?: (isConnected: boolean) => void;
  /** The node may send packets to the peer with this id. */
  onPeer?: (id: Uint8Array) => void;
  /** The published map of relays, for other uses, such as reports. */
  onRelayMap?: (map: DERPMap) => void;
}

/** The server does not accept the resume token. The next attempt has none, so that the client gets another id. */
export class ResumeTokenError extends Error {
  constructor(message = 'Invalid resume token', options?: ErrorOptions) {
    super(message, options);
    this.name = 'ResumeTokenError';
  }
}

type CoordinateCall = DrpcCall<typeof CoordinateRequestSchema, typeof CoordinateResponseSchema>;

/** A client uses an agent's node after this time, whether the agent is ready or not. */
export const READY_MS = 5_000;
const RETRY = { baseMs: 50, capMs: 10_000, factor: 2, jitter: 0.5 };
/** A connection that lasted this long was a success, so that the next attempt waits only shortly. */
const STABLE_MS = 10_000;
const DIAL_MS = 30_000;
/** How long the end waits for the coordinator to confirm it. */
const DISCONNECT_MS = 5_000;
const MIN_REFRESH_MS = 60_000;
const DEFAULT_REFRESH_MS = 30 * 60_000;
const MAX_REFRESH_MS = 24 * 3_600_000;
const MAX_TOKEN = 8_192;
/** Maximum number of agents that are not ready yet, or ready without a node. Further nodes are used immediately. */
const MAX_PENDING = 4_096;
const UNIMPLEMENTED = 12;
const NO_KEY = Buffer.alloc(0);

export class CoordinatorClient {
  readonly #options: CoordinatorClientOptions;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #targets = new Map<string, Uint8Array>();
  readonly #end = new AbortController();
  /** Agents that are not ready yet, by id. */
  readonly #pending = new Map<string, { update: CoordinateResponse_PeerUpdate; wait: AbortController }>();
  /** Ids of agents that were ready before their node came. */
  readonly #ready = new Set<string>();
  #call: CoordinateCall | undefined;
  #resumeToken: string | undefined;
  #running: Promise<void> | undefined;
  #isClosing = false;

  constructor(options: CoordinatorClientOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#log = options.log ?? silentLogger;
  }

  /**
   * Keeps a connection until `close`. Rejects with the error of the first `dial` if that is final, otherwise never. Call it
   * once.
   */
  run(): Promise<void> {
    this.#running ??= this.#keepConnected();
    return this.#running;
  }

  /** Opens a tunnel to the agent with this id of 16 bytes, now and after each reconnection. Only for clients. */
  addTunnel(id: Uint8Array): void {
    this.#targets.set(hexOf(id), Uint8Array.from(id));
    this.#send({ addTunnel: { id } });
  }

  /** Ends a tunnel, and removes its peer from the node. */
  removeTunnel(id: Uint8Array): void {
    if (!this.#targets.delete(hexOf(id))) return;
    this.#send({ removeTunnel: { id } });
    this.#removePeer(id);
  }

  /** Ends the connection in order, so that peers forget this node immediately. Takes at most 5 seconds. Never rejects. */
  async close(): Promise<void> {
    this.#isClosing = true;
    const running = this.#running?.catch(() => {});
    if (this.#call) {
      this.#send({ disconnect: {} });
      const timer = new AbortController();
      const timeout = delay(DISCONNECT_MS, undefined, { signal: timer.signal, ref: false }).catch(() => {});
      await Promise.race([running, timeout]);
      timer.abort();
    }
    this.#end.abort(new Error('The client of the coordinator ended'));
    await running;
  }

  async #keepConnected(): Promise<void> {
    const waits = backoff(RETRY);
    const { signal } = this.#end;
    for (let isFirst = true; !this.#isClosing && !signal.aborted; ) {
      let since: number | undefined;
      try {
        const connection = await this.#dial();
        isFirst = false;
        since = this.#clock.monotonic();
        await this.#use(connection);
      } catch (err) {
        if (signal.aborted) return;
        if (err instanceof ResumeTokenError) this.#resumeToken = undefined;
        else if (isFirst && this.#options.isFinal?.(err)) throw err;
        this.#log.debug('The connection to the coordinator ended', { error: errorText(err) });
      }
      if (since !== undefined && this.#clock.monotonic() - since >= STABLE_MS) waits.reset();
      if (!this.#isClosing) await this.#clock.sleep(waits.next(), signal).catch(() => {});
    }
  }

  async #dial(): Promise<ControlConnection> {
    const attempt = new AbortController();
    const timer = setTimeout(() => attempt.abort(new Error(`No connection within ${DIAL_MS} ms`)), DIAL_MS);
    const signal = AbortSignal.any([this.#end.signal, attempt.signal]);
    try {
      return await this.#options.dial({ resumeToken: this.#resumeToken, signal });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Uses a connection until it ends. */
  async #use(connection: ControlConnection): Promise<void> {
    const { node, role, onConnected } = this.#options;
    const end = new AbortController();
    const signal = AbortSignal.any([this.#end.signal, end.signal]);
    const client = createDrpcClient(Tailnet, () => connection.openStream());
    const call = client.coordinate({ signal });
    this.#call = call;
    for (const id of this.#targets.values()) this.#send({ addTunnel: { id } });
    const ended = node.onChange((self: Node) => this.#send({ updateSelf: { node: self } }));
    onConnected?.(true);
    try {
      const parts = [this.#readResponses(call), this.#readMaps(client, signal)];
      if (role === 'client') parts.push(this.#refreshToken(client, signal));
      await Promise.race(parts);
    } finally {
      ended();
      this.#call = undefined;
      end.abort(new Error('The connection to the coordinator ended'));
      connection.close();
      this.#lose();
      onConnected?.(false);
    }
  }

  /** Sends a request, if there is a connection. Whether it arrives shows in the responses. */
  #send(request: Parameters<CoordinateCall['send']>[0]): void {
    this.#call?.send(request).catch(() => {});
  }

  async #readResponses(call: CoordinateCall): Promise<void> {
    for await (const response of call.responses) this.#receive(response);
  }

  async #readMaps(client: DrpcClient<typeof Tailnet>, signal: AbortSignal): Promise<void> {
    for await (const map of client.streamDERPMaps({}, { signal }).responses) {
      this.#options.node.setRelayMap(readRelayMap(map, this.#options.serverUrl));
      this.#options.onRelayMap?.(map);
    }
    throw new Error('The map of relays ended');
  }

  /** Keeps a token with which a new connection gets the same id. Ends only with an error. */
  async #refreshToken(client: DrpcClient<typeof Tailnet>, signal: AbortSignal): Promise<void> {
    for (;;) {
      let wait = DEFAULT_REFRESH_MS;
      try {
        const { token, refreshIn } = await client.refreshResumeToken({}, { signal });
        if (token.length <= MAX_TOKEN) this.#resumeToken = token || undefined;
        const ms = Number(refreshIn?.seconds ?? 0n) * 1_000;
        if (ms > 0) wait = Math.min(Math.max(ms, MIN_REFRESH_MS), MAX_REFRESH_MS);
      } catch (err) {
        // servers without resume tokens
        if (!(err instanceof DrpcError) || err.code !== UNIMPLEMENTED) throw err;
        wait = MAX_REFRESH_MS;
      }
      await this.#clock.sleep(wait, signal);
    }
  }

  // peers

  #receive({ peerUpdates, error }: CoordinateResponse): void {
    if (error) this.#log.warn('The coordinator reports an error', { error });
    const ready: { id: Uint8Array }[] = [];
    for (const update of peerUpdates) {
      if (update.kind === Kind.NODE && update.node) {
        this.#receiveNode(update);
        ready.push({ id: update.id });
      } else if (update.kind === Kind.READY_FOR_HANDSHAKE) this.#receiveReady(hexOf(update.id));
      else if (update.kind === Kind.LOST) this.#losePeer(update.id);
      else if (update.kind === Kind.DISCONNECTED) this.#removePeer(update.id);
    }
    if (ready.length > 0 && this.#options.role === 'agent') this.#send({ readyForHandshake: ready });
  }

  #receiveNode(update: CoordinateResponse_PeerUpdate): void {
    const name = hexOf(update.id);
    const { node, role } = this.#options;
    if (update.node!.preferredDerp === 0) {
      this.#log.debug('Ignored a peer without a home');
      return;
    }
    // an agent that restarted has another key, and must be ready for it
    const isKnown = node.keyOf(update.id)?.equals(decodeNodeKey(update.node!.key) ?? NO_KEY) ?? false;
    if (role === 'agent' || isKnown || this.#ready.has(name) || this.#pending.size >= MAX_PENDING) {
      this.#forgetPending(name);
      this.#setPeer(update);
      return;
    }
    const pending = this.#pending.get(name);
    if (pending) {
      pending.update = update;
      return;
    }
    const wait = new AbortController();
    this.#pending.set(name, { update, wait });
    const signal = AbortSignal.any([wait.signal, this.#end.signal]);
    this.#clock.sleep(READY_MS, signal).then(
      () => this.#usePending(name),
      () => {},
    );
  }

  #receiveReady(name: string): void {
    if (this.#pending.has(name)) this.#usePending(name);
    else if (this.#ready.size < MAX_PENDING) this.#ready.add(name);
  }

  /** Uses the node of an agent that is ready. */
  #usePending(name: string): void {
    const pending = this.#pending.get(name);
    if (!pending) return;
    this.#forgetPending(name);
    this.#setPeer(pending.update);
  }

  #setPeer({ id, node }: CoordinateResponse_PeerUpdate): void {
    if (this.#options.node.setPeer(id, node!, { keepAlive: this.#options.role === 'client' }))
      this.#options.onPeer?.(id);
  }

  #forgetPending(name: string): void {
    this.#pending.get(name)?.wait.abort();
    this.#pending.delete(name);
    this.#ready.delete(name);
  }

  #losePeer(id: Uint8Array): void {
    this.#forgetPending(hexOf(id));
    this.#options.node.markLost(id);
  }

  #removePeer(id: Uint8Array): void {
    this.#forgetPending(hexOf(id));
    this.#options.node.remove(id);
  }

  /** Marks all peers as lost: those that still exist are announced again after the reconnection. */
  #lose(): void {
    for (const name of [...this.#pending.keys()]) this.#forgetPending(name);
    this.#ready.clear();
    for (const id of this.#options.node.ids) this.#options.node.markLost(id);
  }
}
