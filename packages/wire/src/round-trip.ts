/** How long a measurement is valid, in ms. */
const FRESH_MS = 10_000;
/**
 * How fast the estimate follows longer round trips. Samples taken behind bulk data measure the queue, not the network.
 */
const DRIFT = 1.1;

/** Estimates the round trip to a peer: the shortest measurement, drifting up as longer ones come. */
export class RoundTrip {
  /** The estimate in ms. 0 while it is unknown. */
  ms = 0;
  #askedAt = -Infinity;

  /** Whether it is time to measure. Returns true once per interval. */
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

/** Detects that the receive window, not the reader, limits the sender: the window is used up within a round trip. */
export class WindowGauge {
  #markedAt = performance.now();
  #marked = 0;

  /** Call it after reading, with `read` as the total so far. Returns true once if the window should grow. */
  isShort(read: number, window: number, roundTrip: RoundTrip): boolean {
    if (read - this.#marked < window / 2) return false;
    const now = performance.now();
    const quick = now - this.#markedAt < roundTrip.ms;
    this.#marked = read;
    this.#markedAt = now;
    return quick;
  }
}
