// A queue of keys to reconcile. A key waits at most once. While a key is being worked on it may be added again, and is
// then worked on once more afterwards, never twice at the same time. A failed key waits longer after each failure.
import { backoff, errorText, type Logger } from '@ropewalk/kit';

export interface QueueOptions {
  /** How many keys are worked on at the same time. */
  concurrency: number;
  /** Returns the ms after which the key is due again, if it is. */
  work(key: string): Promise<number | undefined>;
  log: Logger;
  /** The first wait after a failure. */
  retryBaseMs?: number;
  retryCapMs?: number;
}

export interface WorkQueue {
  add(key: string): void;
  /** Adds the key later. The earliest of several times counts. */
  addAfter(key: string, ms: number): void;
  /** The keys that wait or are being worked on. */
  readonly size: number;
  /** Takes no more keys and resolves when the current ones are done. */
  stop(): Promise<void>;
}

export function createQueue(options: QueueOptions): WorkQueue {
  const { concurrency, work, log, retryBaseMs = 100, retryCapMs = 60_000 } = options;
  const waiting = new Set<string>();
  const active = new Map<string, Promise<void>>();
  const failures = new Map<string, ReturnType<typeof backoff>>();
  const timers = new Map<string, { at: number; timer: NodeJS.Timeout }>();
  let stopped = false;

  const cancelTimer = (key: string) => {
    clearTimeout(timers.get(key)?.timer);
    timers.delete(key);
  };
  const addAfter = (key: string, ms: number) => {
    if (stopped) return;
    const at = performance.now() + ms;
    const planned = timers.get(key);
    if (planned && planned.at <= at) return;
    cancelTimer(key);
    timers.set(key, { at, timer: setTimeout(() => add(key), ms) });
  };
  const add = (key: string) => {
    if (stopped) return;
    cancelTimer(key);
    waiting.add(key);
    next();
  };
  const run = async (key: string) => {
    try {
      const again = await work(key);
      failures.delete(key);
      if (again !== undefined) addAfter(key, again);
    } catch (err) {
      const waits = failures.get(key) ?? backoff({ baseMs: retryBaseMs, capMs: retryCapMs, factor: 2, jitter: 0.3 });
      failures.set(key, waits);
      const waitMs = waits.next();
      log.warn('reconcile failed', { key, err: errorText(err), retryInMs: Math.round(waitMs) });
      addAfter(key, waitMs);
    }
  };
  const next = () => {
    for (const key of waiting) {
      if (stopped || active.size >= concurrency) return;
      if (active.has(key)) continue;
      waiting.delete(key);
      const done = run(key).finally(() => {
        active.delete(key);
        next();
      });
      active.set(key, done);
    }
  };
  return {
    add,
    addAfter,
    get size() {
      return waiting.size + active.size;
    },
    async stop() {
      stopped = true;
      waiting.clear();
      for (const key of [...timers.keys()]) cancelTimer(key);
      await Promise.all(active.values());
    },
  };
}
