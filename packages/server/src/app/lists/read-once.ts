import { rightsOf } from '../../authz/actor.ts';
import type { Sql } from '../../db/connect.ts';
import { shareReads } from '../../db/share.ts';
import type { Ctx } from '../context/context.ts';
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
  return share(`${rightsOf(actor)} ${JSON.stringify(what)}`, async () => sharedAnswer(await read())) as Promise<T>;
}
