/** What a look returns as long as there is nothing. */
type Missing = undefined | null | false | 0 | '';

/** The shortest and the longest time between two looks, in ms. */
const [SOON, LATER] = [15, 50];
const LONGEST_MS = 60_000;
/** The most that one look and the pause after it count for a deadline, in ms. */
const MAX_OF_LOOK_MS = 150;

/**
 * Calls `look` again and again until it returns a truthy value, and returns that value. The pauses grow, because `look` is
 * often a request that keeps the server and its database busy. Throws an error with `what` after `timeoutMs`. A machine
 * can stop a process for seconds at any moment. One call with its pause therefore counts for at most 150 ms, but after a
 * minute (or `timeoutMs`, if that is longer) it gives up in any case.
 */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | Missing> | T | Missing,
  timeoutMs = LONGEST_MS,
): Promise<T> {
  const started = performance.now();
  let counted = 0;
  for (let from = started; ; ) {
    const found = await look();
    if (found) return found;
    const waited = performance.now() - started;
    if (counted > timeoutMs || waited > Math.max(timeoutMs, LONGEST_MS))
      throw new Error(`after ${timeoutMs} ms still not: ${what}`);
    await new Promise((done) => setTimeout(done, Math.min(Math.max(waited / 10, SOON), LATER)));
    const now = performance.now();
    counted += Math.min(now - from, MAX_OF_LOOK_MS);
    from = now;
  }
}

/** Whether an address answers with success. */
export const answers = (url: string, signal?: AbortSignal): Promise<boolean> =>
  fetch(url, signal ? { signal } : {}).then(
    ({ ok }) => ok,
    () => false,
  );
