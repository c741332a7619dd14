/**
 * Lets concurrent readers share one read. A reader only ever gets a read that began after its request, so it sees
 * everything written before. A result is not kept after it was returned.
 */

/** How long the readers after a slow read wait for its end before they start their own, in ms. */
const PATIENCE_MS = 1_000;
/** The maximum number of idle keys. Beyond them, the idle keys are forgotten. */
const MAX_IDLE = 1_000;

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

/** Runs reads one after the other. `join` returns the result of the next read that begins. */
class Turns<V> {
  #running: Promise<V> | undefined;
  #next: Promise<V> | undefined;

  get idle(): boolean {
    return !this.#running && !this.#next;
  }

  /** `read` is called if it begins a turn, so it must be equal to the `read` of those who join. */
  join(read: () => Promise<V>): Promise<V> {
    // even the first waits for the end of this turn of the event loop: others may join in it
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
 * Runs at most one of equal reads at a time: readers that arrive meanwhile share the next one. Callers share the result
 * and must not change it.
 */
export function shareReads<V>(): (key: string, read: () => Promise<V>) => Promise<V> {
  // Keys stay for a while: if each were added and removed with its reads, V8 would keep the results
  // (docs/decisions/0013).
  const all = new Map<string, Turns<V>>();
  return (key, read) => {
    let turns = all.get(key);
    if (!turns) {
      if (all.size >= MAX_IDLE) {
        for (const [other, { idle }] of all) if (idle) all.delete(other);
      }
      turns = new Turns();
      all.set(key, turns);
    }
    return turns.join(read);
  };
}
