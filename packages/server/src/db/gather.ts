import { writeInHalves } from './halves.ts';

/** The shortest time from one run to the next, in ms. A caller waits longer only for a run that takes longer. */
const EVERY_MS = 20;
/** The maximum number of items of one run. */
const MAX_ITEMS = 500;
/** How long `close` waits for the last runs, in ms: an unreachable database must not hold up a server that stops. */
const LAST_RUN_MS = 2_000;

export interface Gathered<T, R> {
  /**
   * Resolves with the item's result when a run that began after the call has ended. Items with the same key are in
   * different runs, in the order of the calls.
   * @throws what the database answered about this item, or why the whole run failed
   */
  add(key: string, item: T): Promise<R>;
  /** Resolves when the items so far have their results, or after two seconds. */
  close(): Promise<void>;
}

export interface GatherOptions<T, R> {
  /** Runs one transaction for all items. Returns their results in the same order. */
  run(items: readonly T[]): Promise<readonly R[]>;
  everyMs?: number;
  maxItems?: number;
}

interface Waiting<T, R> {
  key: string;
  item: T;
  resolve(result: R): void;
  reject(err: unknown): void;
}

/**
 * Lets the calls of many agents share statements and commits: those that come while a run is under way, or within
 * `everyMs` of its start, share the next one. After a pause, a call runs immediately.
 */
export function gather<T, R>(options: GatherOptions<T, R>): Gathered<T, R> {
  return new Gatherer(options);
}

class Gatherer<T, R> implements Gathered<T, R> {
  readonly #run: GatherOptions<T, R>['run'];
  readonly #everyMs: number;
  readonly #maxItems: number;
  #waiting: Waiting<T, R>[] = [];
  /** The runs, until nothing waits. */
  #running: Promise<void> | undefined;
  #lastStart = Number.NEGATIVE_INFINITY;
  #closing = false;
  #hurry: (() => void) | undefined;

  constructor({ run, everyMs = EVERY_MS, maxItems = MAX_ITEMS }: GatherOptions<T, R>) {
    this.#run = run;
    this.#everyMs = everyMs;
    this.#maxItems = maxItems;
  }

  add(key: string, item: T): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, item, resolve, reject });
      this.#running ??= this.#runAll();
    });
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#hurry?.();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, LAST_RUN_MS);
    });
    await Promise.race([this.#running, late]);
    clearTimeout(timer);
  }

  async #runAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#turn();
      this.#lastStart = performance.now();
      await this.#runSome(this.#take());
    }
    // in the same moment as the check above, so that no later call relies on these runs
    this.#running = undefined;
  }

  /** Waits for the next run's time: at least for the end of this turn of the event loop, in which others may join. */
  #turn(): Promise<void> {
    const ms = this.#closing ? 0 : this.#lastStart + this.#everyMs - performance.now();
    return new Promise((resolve) => {
      if (ms <= 0) {
        setImmediate(resolve);
        return;
      }
      const timer = setTimeout(resolve, ms);
      this.#hurry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Takes the first items with different keys. */
  #take(): Waiting<T, R>[] {
    const taken = new Map<string, Waiting<T, R>>();
    const left: Waiting<T, R>[] = [];
    for (const waiting of this.#waiting) {
      if (taken.size < this.#maxItems && !taken.has(waiting.key)) taken.set(waiting.key, waiting);
      else left.push(waiting);
    }
    this.#waiting = left;
    return [...taken.values()];
  }

  async #runSome(taken: readonly Waiting<T, R>[]): Promise<void> {
    try {
      await writeInHalves(taken, {
        write: (part) => this.#run(part.map(({ item }) => item)),
        written: (part, results) => {
          for (const [i, { resolve }] of part.entries()) resolve(results[i]!);
        },
        rejected: ({ reject }, err) => reject(err),
      });
    } catch (err) {
      // those that were written before the failure have resolved
      for (const { reject } of taken) reject(err);
    }
  }
}
