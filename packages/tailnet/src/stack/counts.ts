/** Counts by name, such as connections of each peer. */
export class Counts {
  readonly #counts = new Map<string, number>();

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  add(name: string, difference: number): void {
    const count = this.of(name) + difference;
    if (count > 0) this.#counts.set(name, count);
    else this.#counts.delete(name);
  }
}

/** A maximum number of events in each second. */
export class SecondLimit {
  readonly #max: number;
  #since = 0;
  #count = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts an event at this monotonic time, in ms. Returns whether it may happen. */
  take(now: number): boolean {
    if (now - this.#since >= 1_000) {
      this.#since = now;
      this.#count = 0;
    }
    return this.#count++ < this.#max;
  }
}
