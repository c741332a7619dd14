const LINGER_MS = 15 * 60_000;
/** Maximum number of pairs. The oldest are forgotten. */
export const MAX_LINGERING = 50_000;

/**
 * Pairs of node keys whose peers may still exchange packets although one of them lost the coordinator: sessions between
 * nodes outlive an interruption of their control connections. Keys are hexadecimal.
 */
export class LingeringPairs {
  readonly #now: () => number;
  /** Oldest first, with the time at which each ends. */
  readonly #pairs = new Map<string, number>();
  readonly #keys = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The number of pairs in memory. */
  get size(): number {
    return this.#pairs.size;
  }

  add(a: string, b: string): void {
    this.#expire();
    const end = this.#now() + LINGER_MS;
    setLast(this.#pairs, pairOf(a, b), end);
    setLast(this.#keys, a, end);
    setLast(this.#keys, b, end);
  }

  delete(a: string, b: string): void {
    this.#pairs.delete(pairOf(a, b));
  }

  hasPair(a: string, b: string): boolean {
    return (this.#pairs.get(pairOf(a, b)) ?? 0) > this.#now();
  }

  hasKey(key: string): boolean {
    return (this.#keys.get(key) ?? 0) > this.#now();
  }

  #expire(): void {
    for (const entries of [this.#pairs, this.#keys])
      for (const [entry, end] of entries) {
        if (end > this.#now() && entries.size < MAX_LINGERING) break;
        entries.delete(entry);
      }
  }
}

const pairOf = (a: string, b: string): string => (a < b ? `${a} ${b}` : `${b} ${a}`);

function setLast(map: Map<string, number>, key: string, value: number): void {
  map.delete(key);
  map.set(key, value);
}
