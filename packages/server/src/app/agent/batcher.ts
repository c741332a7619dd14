import { errorText, type Logger } from '@platform/kit';
import { isRefusedData } from '../../db/connect.ts';

export interface BatchOptions<T> {
  /** In the log, where a write fails. */
  what: string;
  everyMs: number;
  /** Keys that are kept while writes fail; what is beyond is dropped, and the log says so. */
  most: number;
  /** One of two of the same key: `later` came after `earlier`. */
  merge(earlier: T, later: T): T;
  /**
   * All at once; is never called twice at a time. What fails is kept for the next time, but for what the database will
   * never take: that is looked for, and dropped, so that one agent's report holds nobody else's up.
   */
  write(items: Map<string, T>): Promise<void>;
  log: Logger;
}

export interface Batcher<T> {
  add(key: string, item: T): void;
  /** Writes what is there now; never throws. */
  flush(): Promise<void>;
  /** Writes the rest, for as long as one write takes. */
  close(): Promise<void>;
}

/** Gathers what many report, so that it is written by one statement for all. Kept, bounded, while the database is away. */
export function createBatcher<T>({ what, everyMs, most, merge, write, log }: BatchOptions<T>): Batcher<T> {
  let waiting = new Map<string, T>();
  let writing: Promise<void> | undefined;
  let dropped = 0;
  const put = (into: Map<string, T>, key: string, item: T) => {
    const before = into.get(key);
    if (before !== undefined) into.set(key, merge(before, item));
    else if (into.size < most) into.set(key, item);
    else dropped++;
  };
  /** Takes out of `items` what needs no further try. */
  const writeTaken = async (items: Map<string, T>, part: [string, T][]): Promise<void> => {
    try {
      await write(new Map(part));
    } catch (err) {
      if (!isRefusedData(err)) throw err;
      if (part.length > 1) {
        const half = Math.ceil(part.length / 2);
        await writeTaken(items, part.slice(0, half));
        await writeTaken(items, part.slice(half));
        return;
      }
      log.warn(`the database takes some ${what} never: dropped`, { of: part[0]![0], err: errorText(err) });
    }
    for (const [key] of part) items.delete(key);
  };
  const run = async () => {
    const items = waiting;
    waiting = new Map();
    try {
      await writeTaken(items, [...items]);
      if (dropped > 0) log.warn(`dropped ${what} while the database was away`, { count: dropped });
      dropped = 0;
    } catch (err) {
      log.warn(`could not write ${what}: kept for later`, { err: errorText(err), count: items.size });
      const later = waiting;
      waiting = items;
      for (const [key, item] of later) put(waiting, key, item);
    }
  };
  async function flush(): Promise<void> {
    if (writing) return writing;
    if (waiting.size === 0) return;
    writing = run();
    await writing;
    writing = undefined;
  }
  const timer = setInterval(() => void flush(), everyMs);
  timer.unref();
  return {
    add: (key, item) => put(waiting, key, item),
    flush,
    async close() {
      clearInterval(timer);
      await writing;
      await flush();
    },
  };
}
