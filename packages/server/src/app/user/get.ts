import type { User } from '@ropewalk/contract';
import type { UserActor } from '../../authz/actor.ts';
import { authorize } from '../../authz/authorize.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { sharedAnswer } from '../lists/shared-answer.ts';
import { toUserWithRoles } from './convert.ts';

/** The answers about people to themselves. Each lives as long as its session is trusted without the database. */
const ownAnswers = new WeakMap<UserActor, User>();

export function getUser(ctx: Ctx, user: string): User | Promise<User> {
  const { actor } = ctx;
  if (user === 'me' && actor.kind === 'user' && actor.account) {
    // The hottest read: the authentication of the request has just looked up this user.
    authorize(ctx, 'read', { type: 'user', ownerId: actor.id });
    let answer = ownAnswers.get(actor);
    if (!answer) {
      answer = sharedAnswer(toUserWithRoles(ctx, actor.account));
      ownAnswers.set(actor, answer);
    }
    return answer;
  }
  return findUser(ctx, 'read', user).then((found) => toUserWithRoles(ctx, found));
}
