/**
 * Lets reads that wait at the same time be answered by one. A read is only ever answered by one that began
 * after it was asked, so whoever has just written something sees it; nothing is kept once it was given out.
 */

/** How long the readers after a slow one wait for its end before they start their own. */
const PATIENCE_MS = 1_000;
/** Keys that are kept without a read before those are forgotten. */
const MOST_IDLE = 1_000;

async function settled(running: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, PATIENCE_MS);
  });
  const over = running.then(
    () => {},
    () => {},
  );
  await Promise.race([over, patience]);
  clearTimeout(timer);
}

/** Runs one after the other; `join` gives the result of the next that begins. */
class Turns<V> {
  #running: Promise<V> | undefined;
  #next: Promise<V> | undefined;

  get idle(): boolean {
    return !this.#running && !this.#next;
  }

  /** `read` is used where it begins a turn: it must be equal to those of who joins it. */
  join(read: () => Promise<V>): Promise<V> {
    // even the first waits for the end of this turn of the event loop: others may come in it
    this.#next ??= (this.#running ? settled(this.#running) : new Promise<void>((done) => setImmediate(done))).then(
      () => {
        this.#next = undefined;
        const mine = read();
        this.#running = mine;
        const over = () => {
          if (this.#running === mine) this.#running = undefined;
        };
        mine.then(over, over);
        return mine;
      },
    );
    return this.#next;
  }
}

/**
 * Runs at most one of equal reads at a time: those that are asked for meanwhile share the next. What is given out is
 * shared: nobody may change it.
 */
export function shareReads<V>(): (key: string, read: () => Promise<V>) => Promise<V> {
  // Keys stay for a while: where each comes and goes with its reads, V8 keeps what was read (docs/decisions/0013).
  const all = new Map<string, Turns<V>>();
  return (key, read) => {
    let turns = all.get(key);
    if (!turns) {
      if (all.size >= MOST_IDLE) {
        for (const [other, { idle }] of all) if (idle) all.delete(other);
      }
      turns = new Turns();
      all.set(key, turns);
    }
    return turns.join(read);
  };
}
