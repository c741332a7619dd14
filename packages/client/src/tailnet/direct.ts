// Moves sessions of tunnels from the server to the direct path to their agent while that is better, and back.
//
// - All sessions of this program with one agent share one membership in the tailnet, which begins with the first of them that
//   lasts. It ends when it brings nothing: without a direct path, or if the server is as fast.
// - Each second a ping measures the direct path. The server's round trip is that of the session, from the time when it went
//   through the server. A relay is never used: the server does the same with less work.
// - Nothing here fails a session. It continues where it is.
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { DIRECT_PORT } from '@ropewalk/wire/direct-port';
import type { ResumableSession } from '@ropewalk/wire/resume/client';
import type { Client } from '../client.ts';
import { joinTailnet, type TailnetMember } from './member.ts';

const PROBE_MS = 1_000;
/** A ping without an answer for this long is lost, in ms. */
const PROBE_TIMEOUT_MS = 1_500;
/** The round trip of the direct path is the median of the last ones. */
const MAX_SAMPLES = 5;
const MIN_SAMPLES = 3;
/** A session moves to the direct path if its round trip is shorter by this share, and by this much in ms … */
const BETTER_SHARE = 0.75;
const BETTER_MS = 3;
/** … and back if it is not shorter than the server's, or if no ping has gone directly for this long, in ms. */
const DEAD_MS = 2_500;
/**
 * A session that carries more bytes than this per second goes through the server, and for this long after that, in ms: its
 * tunnels carry several times as many as WireGuard and TCP in JavaScript do.
 */
const BULK_BYTES = 3 * 1024 * 1024;
const BULK_MS = 10_000;
const CONNECT_MS = 3_000;
const DIAL_MS = 5_000;
/** After a session had to leave the direct path, sessions stay with the server for this long, in ms, and twice as long each time. */
const FIRST_REST_MS = 20_000;
const MAX_REST_MS = 5 * 60_000;
/** A direct path that was used for this long is good: the next rest is short again. */
const GOOD_MS = 2 * 60_000;
/** How long a membership lasts that no session uses, in ms, and the time until the next attempt, which doubles. */
const USELESS_MS = 45_000;
const FIRST_RETRY_MS = 5 * 60_000;
const MAX_RETRY_MS = 60 * 60_000;
/** How long the membership lasts after the last session, in ms: a browser opens connections one after the other. */
const IDLE_MS = 5_000;

/** One session, and the direct connection that carries it now. */
class Placed {
  readonly session: ResumableSession;
  carrier: Duplex | undefined;
  endpoint = '';
  /** The shortest round trip through the server since the session is there, in ms. */
  serverMs = Number.POSITIVE_INFINITY;
  isMoving = false;
  #measuredAt = performance.now();
  #carried: number;
  #bulkAt = Number.NEGATIVE_INFINITY;

  readonly #onPath: (path: string) => void;

  constructor(session: ResumableSession, onPath: (path: string) => void = () => {}) {
    this.session = session;
    this.#onPath = onPath;
    this.#carried = session.stream.carried;
  }

  /** Whether it carries much, or did a moment ago. */
  get isBulk(): boolean {
    return performance.now() - this.#bulkAt < BULK_MS;
  }

  get path(): string {
    return this.carrier ? `direct ${this.endpoint}` : '';
  }

  setCarrier(carrier: Duplex | undefined, endpoint = ''): void {
    this.carrier = carrier;
    this.endpoint = endpoint;
    this.serverMs = carrier ? this.serverMs : Number.POSITIVE_INFINITY;
    if (!this.session.stream.destroyed) this.#onPath(this.path);
  }

  measure(): void {
    const { attached, roundTripMs, carried } = this.session.stream;
    const now = performance.now();
    if (carried - this.#carried > (BULK_BYTES * (now - this.#measuredAt)) / 1_000) this.#bulkAt = now;
    this.#carried = carried;
    this.#measuredAt = now;
    if (this.carrier === undefined && attached && roundTripMs > 0) this.serverMs = Math.min(this.serverMs, roundTripMs);
  }
}

/** The direct path, as pings found it. */
class Quality {
  readonly #samples: number[] = [];
  endpoint = '';
  aliveAt = performance.now();

  /** The median round trip in ms. Undefined if too little is known, or there is no direct path now. */
  get ms(): number | undefined {
    if (this.#samples.length < MIN_SAMPLES) return undefined;
    return this.#samples.toSorted((a, b) => a - b)[Math.floor(this.#samples.length / 2)];
  }

  add(ms: number, endpoint: string): void {
    this.#samples.push(ms);
    if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
    this.endpoint = endpoint;
    this.aliveAt = performance.now();
  }

  /** Begins again after a time without a direct path. */
  lost(): void {
    this.#samples.length = 0;
  }
}

class DirectReach {
  readonly #client: Client;
  readonly #agentId: string;
  readonly #onUnused: () => void;
  readonly #placed = new Set<Placed>();
  readonly #end = new AbortController();
  #idle: NodeJS.Timeout | undefined;
  #restMs = FIRST_REST_MS;
  #restUntil = 0;
  #goodSince = 0;

  constructor(client: Client, agentId: string, onUnused: () => void) {
    this.#client = client;
    this.#agentId = agentId;
    this.#onUnused = onUnused;
    void this.#run();
  }

  add(session: ResumableSession, onPath?: (path: string) => void): Placed {
    clearTimeout(this.#idle);
    const placed = new Placed(session, onPath);
    this.#placed.add(placed);
    session.stream.once('close', () => {
      this.#placed.delete(placed);
      if (this.#placed.size > 0) return;
      this.#idle = setTimeout(() => {
        this.#onUnused();
        this.#end.abort(new Error('no session is left'));
      }, IDLE_MS).unref();
    });
    return placed;
  }

  /** Joins the tailnet again and again, until no session is left. Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#end;
    for (let wait = FIRST_RETRY_MS; !signal.aborted; wait = Math.min(2 * wait, MAX_RETRY_MS)) {
      if (await this.#member(signal).catch(() => false)) wait = FIRST_RETRY_MS;
      await delay(wait, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Places the sessions while that brings something. Returns whether it did. Rejects if this program cannot join. */
  async #member(signal: AbortSignal): Promise<boolean> {
    const member = await joinTailnet(this.#client, this.#agentId, { signal, isOnlyDirect: true });
    const quality = new Quality();
    let usedAt = performance.now();
    let wasUsed = false;
    try {
      while (!signal.aborted && performance.now() - usedAt < USELESS_MS) {
        await this.#probe(member, quality, signal);
        await Promise.all([...this.#placed].map((placed) => this.#place(placed, member, quality, signal)));
        const isUsed = [...this.#placed].some(({ carrier }) => carrier !== undefined);
        if (isUsed || this.#isResting) usedAt = performance.now();
        wasUsed ||= isUsed;
        await delay(PROBE_MS, undefined, { signal, ref: false }).catch(() => {});
      }
    } finally {
      await Promise.all([...this.#placed].map((placed) => this.#toServer(placed, true, signal)));
      await member.close();
    }
    return wasUsed;
  }

  get #isResting(): boolean {
    return performance.now() < this.#restUntil;
  }

  async #probe(member: TailnetMember, quality: Quality, signal: AbortSignal): Promise<void> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
    const ping = await member.ping(limit).catch(() => undefined);
    if (ping?.endpoint !== undefined) quality.add(ping.ms, ping.endpoint);
    else if (performance.now() - quality.aliveAt > DEAD_MS) quality.lost();
  }

  /** Moves a session if the other way is clearly better. Never rejects. */
  async #place(placed: Placed, member: TailnetMember, quality: Quality, signal: AbortSignal): Promise<void> {
    placed.measure();
    if (placed.isMoving) return;
    const { ms } = quality;
    if (placed.carrier) {
      placed.endpoint = quality.endpoint;
      if (ms === undefined) await this.#toServer(placed, true, signal);
      else if (ms >= placed.serverMs || placed.isBulk) await this.#toServer(placed, false, signal);
      return;
    }
    const { serverMs } = placed;
    const isBetter = ms !== undefined && ms <= BETTER_SHARE * serverMs && serverMs - ms >= BETTER_MS;
    if (isBetter && Number.isFinite(serverMs) && !placed.isBulk && !this.#isResting)
      await this.#toDirect(placed, member, quality, signal);
  }

  async #toDirect(placed: Placed, member: TailnetMember, quality: Quality, signal: AbortSignal): Promise<void> {
    placed.isMoving = true;
    try {
      const carrier = await member.connect(DIRECT_PORT, AbortSignal.any([signal, AbortSignal.timeout(CONNECT_MS)]));
      await placed.session.move(carrier);
      placed.setCarrier(carrier, quality.endpoint);
      this.#goodSince = performance.now();
      carrier.once('close', () => {
        // during a move, the agent ends it
        if (placed.carrier === carrier && !placed.isMoving) this.#left(placed);
      });
    } catch {
      this.#rest();
    } finally {
      placed.isMoving = false;
      if (placed.carrier?.destroyed) this.#left(placed);
    }
  }

  /** `isDead`: the session cannot stay where it is, also if the server does not answer now. */
  async #toServer(placed: Placed, isDead: boolean, signal: AbortSignal): Promise<void> {
    const { session, carrier } = placed;
    if (!carrier || placed.isMoving || session.stream.destroyed) return;
    placed.isMoving = true;
    try {
      const until = AbortSignal.timeout(DIAL_MS);
      await session.move(await session.dial(isDead ? until : AbortSignal.any([signal, until])));
      this.#left(placed);
    } catch {
      // as after a lost connection, the session dials until the server answers
      if (isDead) carrier.destroy();
      if (carrier.destroyed) this.#left(placed);
    } finally {
      placed.isMoving = false;
    }
  }

  #left(placed: Placed): void {
    placed.setCarrier(undefined);
    if (performance.now() - this.#goodSince >= GOOD_MS) this.#restMs = FIRST_REST_MS;
    this.#rest();
  }

  #rest(): void {
    if (this.#isResting) return;
    this.#restUntil = performance.now() + this.#restMs;
    this.#restMs = Math.min(2 * this.#restMs, MAX_REST_MS);
  }
}

const reaches = new WeakMap<Client, Map<string, DirectReach>>();

/**
 * Keeps a session on the better way to its agent. Returns a function that names the way: `direct 192.0.2.7:41641`, or empty
 * for the server.
 */
export function keepOnBetterPath(
  client: Client,
  agentId: string,
  session: ResumableSession,
  onPath?: (path: string) => void,
): () => string {
  const known = reaches.get(client) ?? new Map<string, DirectReach>();
  reaches.set(client, known);
  const reach = known.get(agentId) ?? new DirectReach(client, agentId, () => known.delete(agentId));
  known.set(agentId, reach);
  const placed = reach.add(session, onPath);
  return () => placed.path;
}
