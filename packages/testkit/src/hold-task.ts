import { withTaskLock } from '@platform/server/db/queries/task-locks';
import type { TestServer } from './server.ts';
import { eventually } from './wait.ts';

/**
 * Keeps a background task that needs the leader's lock from running, for tests that it would disturb. Returns the
 * function that lets it run again.
 */
export async function holdTask({ services: { sql } }: TestServer, name: string): Promise<() => Promise<void>> {
  const ended = Promise.withResolvers<void>();
  const held = await eventually(`the task ${name} is held`, async () => {
    const locked = Promise.withResolvers<boolean>();
    const holding = withTaskLock(sql, name, () => {
      locked.resolve(true);
      return ended.promise;
    });
    void holding.then(() => locked.resolve(false));
    return (await locked.promise) && { holding };
  });
  return async () => {
    ended.resolve();
    await held.holding;
  };
}
