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
  /** The other keys of each key's pairs. */
  readonly #partners = new Map<string, Set<string>>();

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
    this.#link(a, b);
    this.#link(b, a);
    setLast(this.#keys, a, end);
    setLast(this.#keys, b, end);
  }

  delete(a: string, b: string): void {
    this.#pairs.delete(pairOf(a, b));
    this.#unlink(a, b);
    this.#unlink(b, a);
  }

  /** Deletes all pairs of a key. */
  deleteKey(key: string): void {
    for (const partner of [...(this.#partners.get(key) ?? [])]) this.delete(key, partner);
  }

  hasPair(a: string, b: string): boolean {
    return (this.#pairs.get(pairOf(a, b)) ?? 0) > this.#now();
  }

  hasKey(key: string): boolean {
    return (this.#keys.get(key) ?? 0) > this.#now();
  }

  #expire(): void {
    for (const [pair, end] of this.#pairs) {
      if (end > this.#now() && this.#pairs.size < MAX_LINGERING) break;
      const [a = '', b = ''] = pair.split(' ');
      this.delete(a, b);
    }
    for (const [key, end] of this.#keys) {
      if (end > this.#now() && this.#keys.size < MAX_LINGERING) break;
      this.#keys.delete(key);
    }
  }

  #link(key: string, partner: string): void {
    const partners = this.#partners.get(key);
    if (partners) partners.add(partner);
    else this.#partners.set(key, new Set([partner]));
  }

  #unlink(key: string, partner: string): void {
    const partners = this.#partners.get(key);
    partners?.delete(partner);
    if (partners?.size === 0) this.#partners.delete(key);
  }
}

const pairOf = (a: string, b: string): string => (a < b ? `${a} ${b}` : `${b} ${a}`);

function setLast(map: Map<string, number>, key: string, value: number): void {
  map.delete(key);
  map.set(key, value);
}
