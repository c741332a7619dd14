import { type Clock, systemClock } from './clock.ts';

/**
 * The waits of everything that keeps a connection to a server: after the server is back, each reconnects within 2 s,
 * and thousands spread over that time.
 */
export const RECONNECT = { capMs: 2_000, jitter: 0.5 } as const;

export interface BackoffOptions {
  /** The first wait, in ms. */
  baseMs: number;
  /** The longest wait, in ms. */
  capMs: number;
  factor?: number;
  /** The random share of each wait, 0 to 1. Keeps many clients from returning at the same moment. */
  jitter?: number;
  /** A number from 0 to 1. Default Math.random. */
  random?: () => number;
}

/** A growing wait. `next()` returns the milliseconds to wait now. Call `reset()` after a success. */
export function backoff({ baseMs, capMs, factor = 1.618, jitter = 0.2, random = Math.random }: BackoffOptions) {
  let wait = baseMs;
  return {
    next(): number {
      const now = wait;
      wait = Math.min(capMs, wait * factor);
      return now * (1 - jitter + random() * jitter);
    },
    reset(): void {
      wait = baseMs;
    },
  };
}

export interface RetryOptions extends BackoffOptions {
  signal?: AbortSignal;
  clock?: Clock;
  /** Whether to retry after this error. Default: always. */
  retryable?: (err: unknown) => boolean;
  onRetry?: (err: unknown, waitMs: number) => void;
}

/** Runs until it succeeds, fails with a final error, or the signal aborts. */
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
