/** A measurement is good for this long. */
const FRESH_MS = 10_000;
/** How fast a way that has become longer is believed: what waits behind bulk data measures the queue, not the way. */
const DRIFT = 1.1;

/** The round trip to a peer: the shortest that was measured, drifting up as longer ones come. */
export class RoundTrip {
  /** In ms; 0 while nothing is known. */
  ms = 0;
  #askedAt = -Infinity;

  /** Whether it is time to measure; says so once per interval. */
  due(): boolean {
    const now = performance.now();
    if (now - this.#askedAt < FRESH_MS) return false;
    this.#askedAt = now;
    return true;
  }

  measured(ms: number): void {
    this.ms = this.ms === 0 ? ms : Math.min(ms, this.ms * DRIFT);
  }
}

/** Finds out when a receive window, not the reader, is what holds the sender up: it is used up within a round trip. */
export class WindowGauge {
  #markedAt = performance.now();
  #marked = 0;

  /** Call as bytes were read, `read` counting all so far; true once where the window should grow. */
  isShort(read: number, window: number, roundTrip: RoundTrip): boolean {
    if (read - this.#marked < window / 2) return false;
    const now = performance.now();
    const quick = now - this.#markedAt < roundTrip.ms;
    this.#marked = read;
    this.#markedAt = now;
    return quick;
  }
}
