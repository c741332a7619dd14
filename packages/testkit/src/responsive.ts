import { collectGarbage } from './garbage.ts';

const EVERY_MS = 5;

/** The CPU time of this thread, in ms. */
const busy = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/**
 * Runs something and measures how long it blocked this process's event loop, in which the server of a test runs. In CPU
 * time, because on a busy machine nothing is on time.
 */
export async function heldUp<T>(run: () => Promise<T>): Promise<{ value: T; longestMs: number }> {
  collectGarbage();
  let last = busy();
  let longestMs = 0;
  // Node's own monitor misses a loop that is blocked only once.
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
