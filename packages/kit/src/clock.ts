import { setTimeout as delay } from 'node:timers/promises';

/** Time as the rules see it. Tests pass a fake; nothing else calls Date.now() for a decision. */
export interface Clock {
  now(): Date;
  /** Milliseconds that never go back: for measuring, leases and time-outs. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    await delay(ms, undefined, signal ? { signal } : {});
  },
};
