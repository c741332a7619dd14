import { AppError } from '@ropewalk/kit';
import { type Allowed, allow, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import { userById, userByName } from '../../db/queries/users.ts';
import type { UserWithAccess } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';

/** Finds the user that a path segment names: `me`, an id or a name. Authorizes nothing. */
export async function locateUser(ctx: Ctx, text: string): Promise<UserWithAccess> {
  const id = text === 'me' && ctx.actor.kind === 'user' ? ctx.actor.id : text;
  const row = isUuid(id) ? await userById(ctx.sql, id) : await userByName(ctx.sql, id);
  if (!row) throw notFound();
  return row;
}

/** Rejects the accounts of the server itself, which nobody may change or use. */
export function requirePerson({ is_system: isSystem, username }: Pick<UserWithAccess, 'is_system' | 'username'>): void {
  if (isSystem)
    throw new AppError('forbidden', `The account "${username}" belongs to the server. Nobody can change or use it.`);
}

/**
 * Finds the user that a path segment names, for this action.
 * @throws AppError `not_found` if the actor cannot read the account, `forbidden` if it may not perform the action on it
 */
export async function findUser<A extends Action>(
  ctx: Ctx,
  action: A,
  text: string,
): Promise<Allowed<A, UserWithAccess>> {
  const row = await locateUser(ctx, text);
  const object = { type: 'user', ownerId: row.id } as const;
  authorize(ctx, 'read', object);
  if (action !== 'read') requirePerson(row);
  return allow(ctx, action, row, object);
}
