import type { User } from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { toUserWithRoles } from './convert.ts';

export async function getUser(ctx: Ctx, user: string): Promise<User> {
  const { actor } = ctx;
  if (user === 'me' && actor.kind === 'user' && actor.account) {
    // The hottest read: the authentication of the request has just looked up this user.
    authorize(ctx, 'read', { type: 'user', ownerId: actor.id });
    return toUserWithRoles(ctx, actor.account);
  }
  return toUserWithRoles(ctx, await findUser(ctx, 'read', user));
}
