/**
 * Lets reads that wait at the same time be answered by one. A read is only ever answered by one that began
 * after it was asked, so whoever has just written something sees it; nothing is kept once it was given out.
 */

/** How long the readers after a slow one wait for its end before they start their own. */
const PATIENCE_MS = 1_000;

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
  readonly #run: () => Promise<V>;
  #running: Promise<V> | undefined;
  #next: Promise<V> | undefined;

  constructor(run: () => Promise<V>) {
    this.#run = run;
  }

  get idle(): boolean {
    return !this.#running && !this.#next;
  }

  join(): Promise<V> {
    // even the first waits for the end of this turn of the event loop: others may come in it
    this.#next ??= (this.#running ? settled(this.#running) : new Promise<void>((done) => setImmediate(done))).then(
      () => {
        this.#next = undefined;
        const mine = this.#run();
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
  const all = new Map<string, Turns<V>>();
  return async (key, read) => {
    let turns = all.get(key);
    if (!turns) {
      turns = new Turns(read);
      all.set(key, turns);
    }
    try {
      return await turns.join();
    } finally {
      if (turns.idle && all.get(key) === turns) all.delete(key);
    }
  };
}
