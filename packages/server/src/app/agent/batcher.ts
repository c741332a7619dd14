import { errorText, type Logger } from '@ropewalk/kit';
import { writeInHalves } from '../../db/halves.ts';

export interface BatchOptions<T> {
  /** The name of the items in log lines. */
  what: string;
  everyMs: number;
  /** The maximum number of keys to keep while writes fail. Further items are dropped and logged. */
  most: number;
  /** Merges two items of the same key: `later` came after `earlier`. */
  merge(earlier: T, later: T): T;
  /**
   * Writes all items together, never concurrently. Failed items are kept for the next write. An item that the database
   * rejects is found and dropped, so that one agent's report does not block the others.
   */
  write(items: Map<string, T>): Promise<void>;
  log: Logger;
}

export interface Batcher<T> {
  add(key: string, item: T): void;
  /** Writes the current items. Never throws. */
  flush(): Promise<void>;
  /** Writes the rest, once. */
  close(): Promise<void>;
}

/**
 * Collects reports of many agents to write them with one statement. Keeps a bounded number while the database is
 * unavailable.
 */
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
  /** Removes the items from `items` that need no further attempt. */
  const writeTaken = (items: Map<string, T>): Promise<void> =>
    writeInHalves([...items], {
      write: (part) => write(new Map(part)),
      written(part) {
        for (const [key] of part) items.delete(key);
      },
      rejected([key], err) {
        log.warn(`dropped ${what} that the database rejects`, { of: key, err: errorText(err) });
        items.delete(key);
      },
    });
  const run = async () => {
    const items = waiting;
    waiting = new Map();
    try {
      await writeTaken(items);
      if (dropped > 0) log.warn(`dropped ${what} while the database was unavailable`, { count: dropped });
      dropped = 0;
    } catch (err) {
      log.warn(`could not write ${what}: kept for the next attempt`, {
        err: errorText(err),
        count: items.size,
      });
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
