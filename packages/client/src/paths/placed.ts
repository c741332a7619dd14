import type { Duplex } from 'node:stream';
import type { ResumableSession } from '@ropewalk/wire/resume/client';
import { type Candidate, DEAD_MS } from './candidate.ts';

/**
 * A session that carries more bytes than this per second needs a path for bulk, and for this long after that, in ms. The
 * server carries several times as many bytes as WireGuard and TCP in JavaScript do.
 */
const BULK_BYTES = 3 * 1024 * 1024;
const BULK_MS = 10_000;

/** One session, and the path that carries it now. */
export class Placed {
  readonly session: ResumableSession;
  /** Undefined: the server. */
  on: Candidate | undefined;
  carrier: Duplex | undefined;
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

  /** Whether nothing is left to carry. */
  get isOver(): boolean {
    return this.session.stream.destroyed || this.session.stream.complete;
  }

  /** Whether nothing has arrived for as long as makes a path dead. */
  get isSilent(): boolean {
    return performance.now() - this.session.stream.heardAt > DEAD_MS;
  }

  /** As in Tunnel. */
  get path(): string {
    return this.on?.path?.name ?? '';
  }

  /** The round trip to the agent now, in ms. Infinite while it is unknown. */
  get ms(): number {
    return this.on?.ms ?? this.serverMs;
  }

  setPath(on: Candidate | undefined, carrier: Duplex | undefined): void {
    this.on = on;
    this.carrier = carrier;
    if (!on) this.serverMs = Number.POSITIVE_INFINITY;
    if (!this.session.stream.destroyed) this.#onPath(this.path);
  }

  measure(): void {
    const { attached, roundTripMs, carried } = this.session.stream;
    const now = performance.now();
    if (carried - this.#carried > (BULK_BYTES * (now - this.#measuredAt)) / 1_000) this.#bulkAt = now;
    this.#carried = carried;
    this.#measuredAt = now;
    if (!this.on && attached && roundTripMs > 0) this.serverMs = Math.min(this.serverMs, roundTripMs);
  }
}
