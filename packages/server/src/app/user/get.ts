import type { User } from '@platform/contract';
import { AppError } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import { type UserWithRoles, userById, userByName } from '../../db/queries/users.ts';
import type { Ctx } from '../context.ts';
import { toUserWithRoles } from './convert.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** Go's clients send the nil uuid where they mean none. */
export function given(id: string | undefined): string | undefined {
  return id === undefined || id === '' || id === '00000000-0000-0000-0000-000000000000' ? undefined : id;
}

/** The person of a path segment: `me`, an id or a name. Says not found, too, of people whom the actor may not read. */
export async function resolveUser(ctx: Ctx, user: string): Promise<UserWithRoles> {
  const id = user === 'me' && ctx.actor.kind === 'user' ? ctx.actor.id : user;
  const row = isUuid(id) ? await userById(ctx.sql, id) : await userByName(ctx.sql, id);
  if (!row) throw new AppError('not_found', 'Resource not found or you do not have access to this resource');
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
