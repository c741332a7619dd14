import { setTimeout as delay } from 'node:timers/promises';

/** The maximum number of rows that one statement deletes, and the pause after it: other statements come in between. */
const MAX_ROWS = 2_000;
const PAUSE_MS = 20;

/** Repeats a purge of at most `most` rows until it finds fewer. Returns how many rows went. */
export async function inBatches(
  purge: (most: number) => Promise<number>,
  signal?: AbortSignal,
  most = MAX_ROWS,
): Promise<number> {
  let gone = 0;
  while (!signal?.aborted) {
    const count = await purge(most);
    gone += count;
    if (count < most) break;
    await delay(PAUSE_MS);
  }
  return gone;
}
