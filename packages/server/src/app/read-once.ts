import type { UserActor } from '../authz/actor.ts';
import type { Sql } from '../db/connect.ts';
import { shareReads } from '../db/share.ts';
import type { Ctx } from './context.ts';
import { sharedAnswer } from './shared-answer.ts';
import { sha256 } from './token.ts';

const shares = new WeakMap<Sql, ReturnType<typeof shareReads<object>>>();

const known = new WeakMap<UserActor, string>();

/** Everything that decides which rows a person sees, as a text. Requests of one session share the actor. */
function accessOf(actor: UserActor): string {
  let text = known.get(actor);
  if (text === undefined) {
    const { id, scope, groups, held } = actor;
    text = sha256(JSON.stringify([id, scope, [...groups], held.site, [...held.org]])).toString('base64');
    known.set(actor, text);
  }
  return text;
}

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
  return share(`${accessOf(actor)} ${JSON.stringify(what)}`, async () => sharedAnswer(await read())) as Promise<T>;
}
