import { link, rm, writeFile } from 'node:fs/promises';
import type { Clock } from '@ropewalk/kit';
import { isAlive, isSame, processRef, readRef } from '@ropewalk/kit/process-ref';
import type { ProcessRef } from '../runner/protocol.ts';

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
      if (owner && !isAlive(owner)) await removeDead(path, owner, clock, signal);
      else await clock.sleep(POLL_MS, signal);
    }
  } finally {
    await rm(own, { force: true });
  }
}

/**
 * Removes the lock of a dead owner. Several waiters may find it, and one that is late must not remove the lock of the
 * first. So each removes it under a lock for this owner, and looks again before.
 */
async function removeDead(path: string, owner: ProcessRef, clock: Clock, signal?: AbortSignal): Promise<void> {
  const release = await lockFile(`${path}.dead-${owner.pid}`, clock, signal);
  try {
    const now = readRef(path);
    if (now && isSame(now, owner)) await rm(path, { force: true });
  } finally {
    await release();
  }
}
