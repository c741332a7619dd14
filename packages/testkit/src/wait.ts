/** The shortest and the longest time between two looks, in ms. */
const [SOON, LATER] = [15, 50];

/**
 * Polls until `look` returns something. The time between two looks grows with the wait, because a look is often a request
 * that keeps the server and its database busy. Fails with `what` after the deadline.
 */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined | false | null> | T | undefined | false | null,
  timeoutMs = 60_000,
): Promise<T> {
  const started = performance.now();
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false && found !== null) return found;
    const waited = performance.now() - started;
    if (waited > timeoutMs) throw new Error(`after ${timeoutMs} ms still not: ${what}`);
    await new Promise((done) => setTimeout(done, Math.min(Math.max(waited / 10, SOON), LATER)));
  }
}
