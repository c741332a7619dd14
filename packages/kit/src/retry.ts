import { type Clock, systemClock } from './clock.ts';

/**
 * Of whatever keeps a connection to a server: once the server is back, each returns within 2 s, and thousands of them
 * are spread over that time.
 */
export const RECONNECT = { capMs: 2_000, jitter: 0.5 } as const;

export interface BackoffOptions {
  /** First wait, in milliseconds. */
  baseMs: number;
  /** Longest wait, in milliseconds. */
  capMs: number;
  factor?: number;
  /** Share of each wait that is random, 0 to 1; keeps many clients from returning in step. */
  jitter?: number;
}

/** A growing wait. `next()` gives the milliseconds to wait now; `reset()` after a success. */
export function backoff({ baseMs, capMs, factor = 1.618, jitter = 0.2 }: BackoffOptions) {
  let wait = baseMs;
  return {
    next(): number {
      const now = wait;
      wait = Math.min(capMs, wait * factor);
      return now * (1 - jitter + Math.random() * jitter);
    },
    reset(): void {
      wait = baseMs;
    },
  };
}

export interface RetryOptions extends BackoffOptions {
  signal?: AbortSignal;
  clock?: Clock;
  /** Whether this failure is worth another try; default: always. */
  retryable?: (err: unknown) => boolean;
  onRetry?: (err: unknown, waitMs: number) => void;
}

/** Runs until it succeeds, the failure is final or the signal aborts. */
export async function retry<T>(run: () => Promise<T>, options: RetryOptions): Promise<T> {
  const waits = backoff(options);
  const clock = options.clock ?? systemClock;
  for (;;) {
    options.signal?.throwIfAborted();
    try {
      return await run();
    } catch (err) {
      if (options.signal?.aborted || !(options.retryable?.(err) ?? true)) throw err;
      const waitMs = waits.next();
      options.onRetry?.(err, waitMs);
      await clock.sleep(waitMs, options.signal);
    }
  }
}
