import { isRejectedData } from './connect.ts';

export interface Halves<T, R> {
  /** Writes the items together, in one transaction. */
  write(items: readonly T[]): Promise<R>;
  /** These items are written. */
  written(items: readonly T[], result: R): void;
  /** The database rejects the data of this item. */
  rejected(item: T, err: unknown): void;
}

/**
 * Writes items together. If the database rejects the data of some, finds these by halves and writes the others.
 * @throws what else made a write fail. Items that were written before have been passed to `written`.
 */
export async function writeInHalves<T, R>(items: readonly T[], halves: Halves<T, R>): Promise<void> {
  let result: R;
  try {
    result = await halves.write(items);
  } catch (err) {
    if (!isRejectedData(err)) throw err;
    if (items.length === 1) {
      halves.rejected(items[0]!, err);
      return;
    }
    const half = Math.ceil(items.length / 2);
    await writeInHalves(items.slice(0, half), halves);
    await writeInHalves(items.slice(half), halves);
    return;
  }
  halves.written(items, result);
}
