// A node's connections to relays: one to its home, which is kept, and others to the homes of its peers, which end when
// they are idle. Sets no timers: its owner calls `tick` at `dueAt`.
import { backoff, type Clock, errorText, type Logger } from '@ropewalk/kit';
import { DerpClient, PING_MS } from '../derp/client.ts';
import { type DialRegion, RelayDialError } from '../derp/dial.ts';
import type { Restart } from '../derp/frames.ts';
import type { RelayMap, RelayRegion } from '../derp/map.ts';
import type { KeyPair } from '../keys.ts';

export interface RelaysOptions {
  keys: KeyPair;
  clock: Pick<Clock, 'monotonic'>;
  /** A number from 0 to 1. */
  random: () => number;
  log: Logger;
  /** Never tries an upgrade to DERP. */
  forceWebSockets: boolean;
  dial: DialRegion;
  onPacket: (region: number, source: Buffer, packet: Buffer) => void;
  onPeerGone: (region: number, key: Buffer) => void;
  /** A connection was opened or ended, or needs a WebSocket. */
  onChange: () => void;
  /** A connection to this region was opened. */
  onOpen: (region: number) => void;
  /** `dueAt` may be earlier than before. */
  onDue: () => void;
}

/** How a connection to a region is. */
export interface RelayStatus {
  region: number;
  name: string;
  isHome: boolean;
  isConnected: boolean;
  /** Why it uses a WebSocket. Undefined if it does not. */
  webSocketReason?: string;
  /** What is wrong with it. */
  problem?: string;
}

/** A connection that is not a home ends after this time without a packet to send. */
const IDLE_MS = 60_000;
const RETRY = { baseMs: 250, capMs: 5_000, factor: 1.6, jitter: 0.5 };
/** A connection that lasted this long was a success, so that the next attempt waits only shortly. */
const STABLE_MS = 10_000;
/** How long a connection may take to answer after this machine's network changed. */
const MOVED_PING_MS = 3_000;
/** A relay cannot keep its clients away for longer. */
const MAX_RESTART_MS = 10_000;
/** Maximum number of packets that wait for a connection that is being opened. The oldest are dropped. */
const MAX_WAITING = 64;
const NEVER = Number.POSITIVE_INFINITY;

export class Relays {
  readonly #options: RelaysOptions;
  readonly #regions = new Map<number, RegionConnection>();
  #map: RelayMap = new Map();
  #home: number | undefined;
  #isClosed = false;

  constructor(options: RelaysOptions) {
    this.#options = options;
  }

  get home(): number | undefined {
    return this.#home;
  }

  /** The monotonic time, in ms, at which `tick` has something to do. Infinity if never. */
  get dueAt(): number {
    return Math.min(NEVER, ...[...this.#regions.values()].map((region) => region.dueAt));
  }

  /** Whether packets can be sent to this region now. */
  isConnected(region: number): boolean {
    return this.#regions.get(region)?.isOpen ?? false;
  }

  /** Ends the connections to regions that are gone or have other relays. */
  setMap(map: RelayMap): void {
    this.#map = map;
    for (const [id, connection] of this.#regions) {
      const region = map.get(id);
      if (region && JSON.stringify(region.servers) === JSON.stringify(connection.region.servers)) continue;
      connection.close();
      this.#regions.delete(id);
    }
    if (this.#home !== undefined) this.setHome(map.has(this.#home) ? this.#home : undefined);
  }

  /** Keeps a connection to this region from now on. */
  setHome(home: number | undefined): void {
    const old = this.#home;
    this.#home = home;
    if (old !== undefined && old !== home) this.#regions.get(old)?.setHome(false);
    if (home !== undefined) this.#connection(home)?.setHome(true);
  }

  /**
   * Sends a packet to the client with this key, and opens a connection to the region if there is none. Returns false if the
   * packet was dropped.
   */
  send(region: number, destination: Buffer, packet: Buffer): boolean {
    return this.#connection(region)?.send(destination, packet) ?? false;
  }

  /** Measures the round trip to a connected region, in ms. Rejects with DerpError, or if there is no connection. */
  async ping(region: number): Promise<number> {
    const connection = this.#regions.get(region);
    if (!connection) throw new Error('not connected');
    return await connection.ping();
  }

  /**
   * Ends connections that do not answer: after a sleep or a change of the network, which usually ends all of them, or when
   * the network may have changed.
   */
  probe({ hasMoved }: { hasMoved: boolean }): void {
    for (const connection of this.#regions.values()) connection.probe(hasMoved ? MOVED_PING_MS : PING_MS);
  }

  tick(): void {
    const now = this.#options.clock.monotonic();
    for (const connection of this.#regions.values()) if (now >= connection.dueAt) connection.tick(now);
  }

  /** Why regions need a WebSocket, by region. */
  get webSocketReasons(): ReadonlyMap<number, string> {
    const reasons = [...this.#regions].map(([id, { webSocketReason }]) => [id, webSocketReason] as const);
    return new Map(reasons.filter((entry): entry is [number, string] => entry[1] !== undefined));
  }

  status(): RelayStatus[] {
    return [...this.#regions.values()].map((connection) => connection.status());
  }

  close(): void {
    this.#isClosed = true;
    for (const connection of this.#regions.values()) connection.close();
    this.#regions.clear();
  }

  #connection(id: number): RegionConnection | undefined {
    const existing = this.#regions.get(id);
    if (existing || this.#isClosed) return existing;
    const region = this.#map.get(id);
    if (!region?.servers.some(({ url }) => url !== undefined)) return undefined;
    const connection = new RegionConnection(region, this.#options);
    this.#regions.set(id, connection);
    return connection;
  }
}

class RegionConnection {
  readonly region: RelayRegion;
  readonly #options: RelaysOptions;
  #isHome = false;
  #client: DerpClient | undefined;
  #isOpen = false;
  #openedAt = 0;
  #attempt: AbortController | undefined;
  #waiting: { destination: Buffer; packet: Buffer }[] = [];
  #usedAt: number;
  /** The next attempt must wait until then. */
  #retryAt = 0;
  readonly #waits: ReturnType<typeof backoff>;
  #restart: Restart | undefined;
  #problem: string | undefined;
  #isClosed = false;
  webSocketReason: string | undefined;

  constructor(region: RelayRegion, options: RelaysOptions) {
    this.region = region;
    this.#options = options;
    this.#usedAt = options.clock.monotonic();
    this.#waits = backoff({ ...RETRY, random: options.random });
    if (options.forceWebSockets) this.webSocketReason = 'WebSockets are required by configuration';
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  get dueAt(): number {
    if (this.#isHome) return this.#client || this.#attempt ? NEVER : this.#retryAt;
    return this.#client ? this.#usedAt + IDLE_MS : NEVER;
  }

  setHome(isHome: boolean): void {
    if (this.#isHome === isHome) return;
    this.#isHome = isHome;
    this.#usedAt = this.#now();
    if (this.#isOpen) this.#client?.notePreferred(isHome);
    if (isHome) this.#connect();
    this.#options.onDue();
  }

  send(destination: Buffer, packet: Buffer): boolean {
    this.#usedAt = this.#now();
    if (this.#isOpen) return this.#client!.send(destination, packet);
    this.#connect();
    if (!this.#attempt && !this.#client) return false;
    if (this.#waiting.length === MAX_WAITING) this.#waiting.shift();
    this.#waiting.push({ destination, packet });
    return true;
  }

  async ping(): Promise<number> {
    if (!this.#client || !this.#isOpen) throw new Error('not connected');
    return await this.#client.ping();
  }

  probe(timeoutMs: number): void {
    this.#retryAt = 0;
    const client = this.#client;
    client?.ping(timeoutMs).catch(() => client.close());
    this.#options.onDue();
  }

  tick(now: number): void {
    if (this.#isHome) this.#connect();
    else if (now - this.#usedAt >= IDLE_MS) this.#client?.close();
  }

  status(): RelayStatus {
    return {
      region: this.region.id,
      name: this.region.name,
      isHome: this.#isHome,
      isConnected: this.#isOpen,
      ...(this.webSocketReason !== undefined && { webSocketReason: this.webSocketReason }),
      ...(this.#problem !== undefined && { problem: this.#problem }),
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#isHome = false;
    this.#waiting = [];
    this.#attempt?.abort(new Error('The node ended'));
    this.#client?.close();
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }

  #connect(): void {
    if (this.#client || this.#attempt || this.#isClosed || this.#now() < this.#retryAt) return;
    const attempt = new AbortController();
    this.#attempt = attempt;
    void this.#dial(attempt.signal).then(
      (stream) => this.#opened(stream, attempt),
      (err) => this.#failed(err, attempt),
    );
  }

  #dial(signal: AbortSignal): ReturnType<DialRegion> {
    try {
      return this.#options.dial(this.region, { websocket: this.webSocketReason !== undefined, signal });
    } catch (err) {
      return Promise.reject(err);
    }
  }

  #opened(stream: Awaited<ReturnType<DialRegion>>, attempt: AbortController): void {
    if (attempt.signal.aborted) {
      stream.destroy();
      return;
    }
    this.#attempt = undefined;
    const { keys, clock, onPacket, onPeerGone, log } = this.#options;
    const { id } = this.region;
    const client = new DerpClient(stream, {
      keys,
      clock,
      onPacket: (source, packet) => onPacket(id, source, packet),
      onPeerGone: (key) => onPeerGone(id, key),
      onHealth: (problem) => {
        this.#problem = problem || undefined;
      },
      onRestart: (restart) => {
        this.#restart = restart;
      },
    });
    this.#client = client;
    client.ready.then(
      () => this.#ready(client),
      () => {},
    );
    void client.closed.then((error) => {
      if (error) log.debug('The connection to a relay failed', { region: id, error: error.message });
      this.#ended();
    });
  }

  #ready(client: DerpClient): void {
    this.#isOpen = true;
    this.#openedAt = this.#now();
    this.#problem = undefined;
    if (this.#isHome) client.notePreferred(true);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { destination, packet } of waiting) client.send(destination, packet);
    this.#options.onOpen(this.region.id);
    this.#options.onChange();
    this.#options.onDue();
  }

  #failed(err: unknown, attempt: AbortController): void {
    if (this.#attempt === attempt) this.#attempt = undefined;
    if (attempt.signal.aborted) return;
    this.#problem = errorText(err);
    if (err instanceof RelayDialError && err.requiresWebSocket && this.webSocketReason === undefined) {
      this.webSocketReason = err.message;
      this.#options.onChange();
      this.#connect();
      return;
    }
    this.#options.log.debug('Could not connect to a relay', { region: this.region.id, error: this.#problem });
    this.#wait();
  }

  #ended(): void {
    const wasOpen = this.#isOpen;
    this.#client = undefined;
    this.#isOpen = false;
    if (wasOpen && this.#now() - this.#openedAt >= STABLE_MS) this.#waits.reset();
    if (this.#isClosed) return;
    this.#wait();
    if (wasOpen) this.#options.onChange();
  }

  /** Sets the time of the next attempt. A relay that restarts names it. Each client adds a random part. */
  #wait(): void {
    const restart = this.#restart;
    this.#restart = undefined;
    this.#waiting = [];
    this.#retryAt = this.#now() + Math.min(restart?.reconnectInMs ?? 0, MAX_RESTART_MS) + this.#waits.next();
    this.#options.onDue();
  }
}
