import type { User } from '@platform/contract';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { type UserWithRoles, userById, userByName } from '../../db/queries/users.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { toUserWithRoles } from './convert.ts';

/** The person of a path segment: `me`, an id or a name. Says not found, too, of people whom the actor may not read. */
export async function resolveUser(ctx: Ctx, user: string): Promise<UserWithRoles> {
  const id = user === 'me' && ctx.actor.kind === 'user' ? ctx.actor.id : user;
  const row = isUuid(id) ? await userById(ctx.sql, id) : await userByName(ctx.sql, id);
  if (!row) throw notFound();
  authorize(ctx, 'read', { type: 'user', ownerId: row.id });
  return row;
}

export async function getUser(ctx: Ctx, user: string): Promise<User> {
  const { actor } = ctx;
  if (user === 'me' && actor.kind === 'user' && actor.account) {
    // the hottest read of all: who asks was looked up to let him in
    authorize(ctx, 'read', { type: 'user', ownerId: actor.id });
    return toUserWithRoles(actor.account);
  }
  return toUserWithRoles(await resolveUser(ctx, user));
}
