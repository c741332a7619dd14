/** What a ShortLived keeps knows its own place. */
export interface Kept {
  /** Set by the collection. */
  at: number;
}

/**
 * A collection for what comes and goes thousands of times a second. A `Set` makes a new table every few dozen of them,
 * and each old table refers to the next: V8's young collections then keep whatever was in one of them, so that most of
 * what a request had made was carried over into the old half of the heap.
 */
export class ShortLived<T extends Kept> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    item.at = this.#items.push(item) - 1;
  }

  /** Does nothing where it is not in it, any more or yet. */
  delete(item: T): void {
    if (this.#items[item.at] !== item) return;
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#items[item.at] = last;
    last.at = item.at;
  }

  /** As they are now: what comes or goes meanwhile changes nothing of it. */
  all(): T[] {
    return this.#items.slice();
  }
}
