import { taskLockKey } from '@ropewalk/server/db/queries/task-locks';
import type { TestServer } from './server.ts';
import { eventually } from './wait.ts';

/**
 * Keeps a background task that needs the leader's lock from running, for tests that it would disturb. Returns the
 * function that lets it run again. Unlike a server, a test keeps the lock even if the machine stops it for a while.
 */
export async function holdTask({ services: { sql } }: TestServer, name: string): Promise<() => Promise<void>> {
  const ended = Promise.withResolvers<void>();
  const held = await eventually(`the task ${name} is held`, async () => {
    const locked = Promise.withResolvers<boolean>();
    const holding = sql.begin(async (tx) => {
      const [row] = await tx<
        { locked: boolean }[]
      >`SELECT pg_try_advisory_xact_lock(${taskLockKey(tx, name)}) AS locked`;
      locked.resolve(row!.locked);
      if (row!.locked) await ended.promise;
    });
    return (await locked.promise) && { holding };
  });
  return async () => {
    ended.resolve();
    await held.holding;
  };
}
