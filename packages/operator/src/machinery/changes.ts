/** Counts changes of anything, and wakes those who wait for the next one. */
export interface Changes {
  /** How many there were. */
  readonly count: number;
  raise(): void;
  /** Resolves when there were more than `seen`, or when the signal aborts. */
  since(seen: number, signal: AbortSignal): Promise<void>;
}

export function createChanges(): Changes {
  let count = 0;
  const waiting = new Set<() => void>();
  return {
    get count() {
      return count;
    },
    raise() {
      count++;
      for (const wake of waiting) wake();
    },
    async since(seen, signal) {
      if (count !== seen || signal.aborted) return;
      await new Promise<void>((resolve) => {
        const done = () => {
          waiting.delete(done);
          signal.removeEventListener('abort', done);
          resolve();
        };
        waiting.add(done);
        signal.addEventListener('abort', done);
      });
    },
  };
}
