const EVERY_MS = 5;

/** Time of the processor that this thread had, in milliseconds. */
const busy = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/**
 * Runs something, and says for how long at most it held up the event loop of this process, in which the server of a test
 * runs: in time of the processor, since on a busy machine nothing is on time.
 */
export async function heldUp<T>(run: () => Promise<T>): Promise<{ value: T; longestMs: number }> {
  let last = busy();
  let longestMs = 0;
  // Node's own monitor misses what holds up the loop only once
  const beat = () => {
    const now = busy();
    longestMs = Math.max(longestMs, now - last);
    last = now;
  };
  const timer = setInterval(beat, EVERY_MS);
  try {
    const value = await run();
    beat();
    return { value, longestMs };
  } finally {
    clearInterval(timer);
  }
}
