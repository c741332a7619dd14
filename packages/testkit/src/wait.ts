/** Polls until `look` returns something, every few ms. Fails with `what` after the deadline. */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined | false | null> | T | undefined | false | null,
  timeoutMs = 60_000,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false && found !== null) return found;
    if (performance.now() > deadline) throw new Error(`after ${timeoutMs} ms still not: ${what}`);
    await new Promise((done) => setTimeout(done, 15));
  }
}
