import { setTimeout as delay } from 'node:timers/promises';

/** The clock that rules use. Tests pass a fake. Nothing else calls Date.now() for a decision. */
export interface Clock {
  now(): Date;
  /** Milliseconds that never decrease: for measuring, leases and timeouts. */
  monotonic(): number;
  /** Resolves after `ms`. Rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    await delay(ms, undefined, signal ? { signal } : {});
  },
};
