import { link, rm, writeFile } from 'node:fs/promises';
import type { Clock } from '@platform/kit';
import { isAlive, processRef, readRef } from '../runner/process-ref.ts';

const POLL_MS = 100;

/**
 * Takes a lock among processes of this machine and returns the function that releases it. Takes over a lock whose owner
 * died. @throws the signal's reason if the signal fires while this waits.
 */
export async function lockFile(path: string, clock: Clock, signal?: AbortSignal): Promise<() => Promise<void>> {
  const own = `${path}.${process.pid}.${crypto.randomUUID()}`;
  await writeFile(own, JSON.stringify(processRef(process.pid)), { mode: 0o600 });
  try {
    for (;;) {
      signal?.throwIfAborted();
      try {
        // A link appears together with its content, so nobody reads an empty lock.
        await link(own, path);
        return () => rm(path, { force: true });
      } catch (err) {
        if ((err as NodeJS.ErrnoException).code !== 'EEXIST') throw err;
      }
      const owner = readRef(path);
      if (owner && !isAlive(owner)) await rm(path, { force: true });
      else await clock.sleep(POLL_MS, signal);
    }
  } finally {
    await rm(own, { force: true });
  }
}
