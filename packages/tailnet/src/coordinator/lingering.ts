/** For this long after its loss a peer keeps its place: its keys, its permissions at the relay, and its handle. */
export const LINGER_MS: number = 15 * 60_000;
/** Maximum number of pairs. The oldest are forgotten. */
export const MAX_LINGERING = 50_000;

/** A peer's name and the key of its node, in hexadecimal. */
export interface NamedKey {
  readonly name: string;
  readonly key: string;
}

interface Pair {
  readonly id: string;
  readonly keys: string;
  readonly a: NamedKey;
  readonly b: NamedKey;
  readonly end: number;
}

/**
 * Pairs of nodes that may still exchange packets although one of them lost the coordinator: sessions between nodes
 * outlive an interruption of their control connections. The relay knows nodes by their keys, a revocation knows them by
 * the names of their peers. Two peers may have the same key, and each has separate pairs.
 */
export class LingeringPairs {
  readonly #now: () => number;
  /** Oldest first. */
  readonly #pairs = new Map<string, Pair>();
  readonly #byKeys = new Map<string, Set<Pair>>();
  readonly #byKey = new Map<string, Set<Pair>>();
  readonly #byName = new Map<string, Set<Pair>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The number of pairs in memory. */
  get size(): number {
    return this.#pairs.size;
  }

  add(first: NamedKey, second: NamedKey): void {
    const [a, b] = first.name < second.name ? [first, second] : [second, first];
    const keys = pairOf(a.key, b.key);
    const id = `${keys} ${a.name} ${b.name}`;
    const old = this.#pairs.get(id);
    if (old) this.#delete(old);
    this.#expire();
    const pair: Pair = { ...{ id, keys, a, b }, end: this.#now() + LINGER_MS };
    this.#pairs.set(id, pair);
    addTo(this.#byKeys, keys, pair);
    addTo(this.#byKey, a.key, pair);
    addTo(this.#byKey, b.key, pair);
    addTo(this.#byName, a.name, pair);
    addTo(this.#byName, b.name, pair);
  }

  /** Keeps a node's key in memory, also without a pair. */
  addKey(node: NamedKey): void {
    this.add(node, node);
  }

  /** The keys of the pairs of this peer that have not ended. */
  pairsOf(name: string): [string, string][] {
    const pairs = [...(this.#byName.get(name) ?? [])].filter(({ a, b, end }) => a.name !== b.name && end > this.#now());
    return pairs.map(({ a, b }) => [a.key, b.key]);
  }

  /** The names of the peers with which this one has pairs, itself included. */
  namesWith(name: string): string[] {
    return [...(this.#byName.get(name) ?? [])].map(({ a, b }) => (a.name === name ? b : a).name);
  }

  /** Deletes the pairs of two peers. */
  deleteBetween(name: string, other: string): void {
    for (const pair of [...(this.#byName.get(name) ?? [])])
      if ((pair.a.name === name ? pair.b : pair.a).name === other) this.#delete(pair);
  }

  /** Deletes all pairs of a peer, and its keys. */
  deletePeer(name: string): void {
    for (const pair of [...(this.#byName.get(name) ?? [])]) this.#delete(pair);
  }

  hasPair(a: string, b: string): boolean {
    for (const { end } of this.#byKeys.get(pairOf(a, b)) ?? []) if (end > this.#now()) return true;
    return false;
  }

  /** The other keys of the pairs of this key that have not ended. */
  partnersOf(key: string): string[] {
    const pairs = [...(this.#byKey.get(key) ?? [])].filter(({ a, b, end }) => a.name !== b.name && end > this.#now());
    return pairs.map(({ a, b }) => (a.key === key ? b : a).key);
  }

  /** Whether a node with this key was lost recently. */
  hasKey(key: string): boolean {
    return this.hasPair(key, key);
  }

  #expire(): void {
    for (const pair of this.#pairs.values()) {
      if (pair.end > this.#now() && this.#pairs.size < MAX_LINGERING) break;
      this.#delete(pair);
    }
  }

  #delete(pair: Pair): void {
    this.#pairs.delete(pair.id);
    deleteFrom(this.#byKeys, pair.keys, pair);
    deleteFrom(this.#byKey, pair.a.key, pair);
    deleteFrom(this.#byKey, pair.b.key, pair);
    deleteFrom(this.#byName, pair.a.name, pair);
    deleteFrom(this.#byName, pair.b.name, pair);
  }
}

const pairOf = (a: string, b: string): string => (a < b ? `${a} ${b}` : `${b} ${a}`);

export function addTo<K, V>(map: Map<K, Set<V>>, key: K, value: V): void {
  const values = map.get(key);
  if (values) values.add(value);
  else map.set(key, new Set([value]));
}

export function deleteFrom<K, V>(map: Map<K, Set<V>>, key: K, value: V): boolean {
  const values = map.get(key);
  const deleted = values?.delete(value) === true;
  if (values?.size === 0) map.delete(key);
  return deleted;
}
