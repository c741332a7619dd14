/** The default length of a burst, as the time in which it comes again. Short, so that a burst does not block the event loop. */
const BURST_S = 1 / 32;

/** How many bytes, or other units, per second may be used. Bytes that have been read may exceed it: the budget owes them. */
export class RateBudget {
  #perSecond: number;
  #burst: number;
  #left: number;
  #at: number;

  constructor(perSecond: number, now: number, burst: number = perSecond * BURST_S) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#left = burst;
    this.#at = now;
  }

  /** Changes the limits, and begins with a whole burst. */
  limit(perSecond: number, now: number, burst: number = perSecond * BURST_S): void {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#left = burst;
    this.#at = now;
  }

  /** Takes an amount, even more than is left. Returns whether something is left. */
  take(amount: number, now: number): boolean {
    this.#left = this.left(now) - amount;
    this.#at = now;
    return this.#left > 0;
  }

  /** Takes an amount if all of it is left. Returns whether it was. */
  takeWhole(amount: number, now: number): boolean {
    if (this.left(now) < amount) return false;
    this.take(amount, now);
    return true;
  }

  /** What is left. Not positive: nothing. */
  left(now: number): number {
    return Math.min(this.#burst, this.#left + ((now - this.#at) / 1_000) * this.#perSecond);
  }
}
