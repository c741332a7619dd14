// The protocol has no proof that a node has the private part of a key that it publishes. The proof would be a handshake,
// which nodes do with each other. Without a check, a node could publish a key that it has seen, that of a peer, and its
// tunnels would then let packets for that key pass the relay. So a key belongs to the owner that published it first,
// while one of the owner's nodes has it and for 15 minutes after that. Nobody else may publish it.
//
// What remains possible: an attacker that was introduced to a node publishes the node's key after the node has been away
// for 15 minutes.
// - It gains no packet and no identity. The relay requires the private key to sign in, and so does each handshake of
//   WireGuard. What its peers send to the key, only the real node can receive and open.
// - It can make its peers send into the void: those that share a tunnel with it, and no others.
// - It can keep the real node out while it stays connected: the coordinator then rejects the real node's key, until the
//   program there starts again and has a new key.
import { addTo, deleteFrom, LINGER_MS } from './lingering.ts';

/** Maximum number of keys in memory that no connected node has. The oldest are forgotten. */
export const MAX_KEPT_KEYS = 50_000;
/** … of one owner, so that an owner with ever new keys makes the coordinator forget only its own. */
export const MAX_KEPT_KEYS_PER_OWNER = 1_024;

interface Ownership {
  readonly owner: string;
  /** The number of connected peers that hold the key. */
  holders: number;
  /** When the ownership ends, once there is no holder. */
  end: number;
}

export class KeyOwners {
  readonly #now: () => number;
  readonly #keys = new Map<string, Ownership>();
  /** Keys without a holder, oldest first. */
  readonly #kept = new Set<string>();
  /** The same by owner. */
  readonly #keptOf = new Map<string, Set<string>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The number of keys in memory. */
  get size(): number {
    return this.#keys.size;
  }

  /** Whether the key belongs to an owner now. */
  has(key: string): boolean {
    const ownership = this.#keys.get(key);
    return ownership !== undefined && (ownership.holders > 0 || ownership.end > this.#now());
  }

  /** Whether this owner may publish the key. */
  allows(key: string, owner: string): boolean {
    const ownership = this.#keys.get(key);
    return !ownership || ownership.owner === owner || (ownership.holders === 0 && ownership.end <= this.#now());
  }

  /** Adds a holder. Only if `allows` returns true. */
  hold(key: string, owner: string): void {
    const ownership = this.#keys.get(key);
    if (ownership?.holders === 0) this.#forget(key, ownership);
    if (ownership && ownership.holders > 0) ownership.holders++;
    else this.#keys.set(key, { owner, holders: 1, end: 0 });
  }

  /** Removes a holder. */
  release(key: string): void {
    const ownership = this.#keys.get(key);
    if (!ownership || --ownership.holders > 0) return;
    ownership.end = this.#now() + LINGER_MS;
    this.#kept.add(key);
    addTo(this.#keptOf, ownership.owner, key);
    const own = this.#keptOf.get(ownership.owner)!;
    if (own.size > MAX_KEPT_KEYS_PER_OWNER) this.#forgetKey(own.values().next().value!);
    this.#expire();
  }

  #expire(): void {
    for (const key of this.#kept) {
      if (this.#keys.get(key)!.end > this.#now() && this.#kept.size <= MAX_KEPT_KEYS) break;
      this.#forgetKey(key);
    }
  }

  #forgetKey(key: string): void {
    this.#forget(key, this.#keys.get(key)!);
  }

  #forget(key: string, { owner }: Ownership): void {
    this.#keys.delete(key);
    this.#kept.delete(key);
    deleteFrom(this.#keptOf, owner, key);
  }
}
