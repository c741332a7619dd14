import type { Sql } from '../db/connect.ts';
import { shareReads } from '../db/share.ts';
import type { Ctx } from './context.ts';
import { sharedAnswer } from './shared-answer.ts';

const shares = new WeakMap<Sql, ReturnType<typeof shareReads<object>>>();

/**
 * Reads a list for a person, once for all requests of that person that wait for it at the same time: dashboards and
 * editors poll lists. `what` names the list and everything that the request asks for. The answer must not be changed.
 */
export function readOnce<T extends object>(ctx: Ctx, what: readonly unknown[], read: () => Promise<T>): Promise<T> {
  const { sql, actor } = ctx;
  if (actor.kind !== 'user') return read();
  let share = shares.get(sql);
  if (!share) {
    share = shareReads();
    shares.set(sql, share);
  }
  // with all that decides which rows the person sees
  const { id, scope, roles, organizations, groups } = actor;
  const key = JSON.stringify([what, id, scope, roles, [...organizations], groups]);
  return share(key, async () => sharedAnswer(await read())) as Promise<T>;
}
