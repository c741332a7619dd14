/** An item of a ShortLived knows its own position. */
export interface Kept {
  /** Set by the collection. */
  at: number;
}

/**
 * A collection for items that come and go thousands of times a second. A `Set` allocates a new table every few dozen
 * items, and each old table refers to the next one. V8's young collections then keep the items of all these tables, so
 * most objects of a request would move to the old generation.
 */
export class ShortLived<T extends Kept> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    item.at = this.#items.push(item) - 1;
  }

  /** Does nothing for an item that is not in the collection. */
  delete(item: T): void {
    if (this.#items[item.at] !== item) return;
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#items[item.at] = last;
    last.at = item.at;
  }

  /** A snapshot: later changes do not affect it. */
  all(): T[] {
    return this.#items.slice();
  }
}
