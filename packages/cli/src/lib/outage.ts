import { setTimeout as delay } from 'node:timers/promises';
import { ApiError, UnreachableError } from '@ropewalk/client';

/** How long a command that waits for something tries to reach the server, in ms. As long as lost SSH sessions. */
export const MAX_OUTAGE_MS = 100_000;
const STEP_MS = 250;
const MAX_PAUSE_MS = 2_000;

/** Whether the same request may succeed later: the server, or the proxy in front of it, cannot answer now. */
export const isTemporary = (err: unknown): boolean =>
  err instanceof UnreachableError || (err instanceof ApiError && (err.status >= 502 || err.status === 429));

/** The pause before the next attempt after `lost` lost ones, in ms. */
export const pauseMs = (lost: number): number => Math.min(STEP_MS * lost, MAX_PAUSE_MS);

/** Resolves after `ms`. @throws the reason of the signal when it is aborted */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, signal ? { signal } : {}).catch(() => {});
  signal?.throwIfAborted();
}

/**
 * Repeats a call that changes nothing until the server answers: it may restart while a command waits.
 * @throws the last error if it does not answer for 100 s, the reason of the signal, or the first other error
 */
export async function throughOutage<T>(
  call: () => Promise<T>,
  { signal, onAway = () => {} }: { signal?: AbortSignal; onAway?: () => void } = {},
): Promise<T> {
  const since = performance.now();
  for (let lost = 1; ; lost += 1) {
    try {
      return await call();
    } catch (err) {
      if (!isTemporary(err) || performance.now() - since > MAX_OUTAGE_MS) throw err;
      onAway();
    }
    await pause(pauseMs(lost), signal);
  }
}
