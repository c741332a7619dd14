import type { Sql } from '../db/connect.ts';
import { shareReads } from '../db/share.ts';
import type { Ctx } from './context.ts';
import { sharedAnswer } from './shared-answer.ts';

const shares = new WeakMap<Sql, ReturnType<typeof shareReads<object>>>();

/**
 * Reads a list for a user, once for all concurrent requests of that user: dashboards and editors poll lists. `what`
 * names the list and all parameters of the request. The caller must not change the answer.
 */
export function readOnce<T extends object>(ctx: Ctx, what: readonly unknown[], read: () => Promise<T>): Promise<T> {
  const { sql, actor } = ctx;
  if (actor.kind !== 'user') return read();
  let share = shares.get(sql);
  if (!share) {
    share = shareReads();
    shares.set(sql, share);
  }
  // with everything that decides which rows the user sees
  const { id, scope, roles, organizations, groups } = actor;
  const key = JSON.stringify([what, id, scope, roles, [...organizations], [...groups]]);
  return share(key, async () => sharedAnswer(await read())) as Promise<T>;
}
