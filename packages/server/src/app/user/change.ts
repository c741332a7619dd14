import type { User } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { authorizeOver, type Outranked } from '../../authz/authorize.ts';
import type { Tx } from '../../db/connect.ts';
import { anotherOwner, lockUsers, userById } from '../../db/queries/users.ts';
import type { UserWithAccess } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { toUserWithRoles } from './convert.ts';

export interface UserChange<U extends UserWithAccess> {
  user: U;
  action: string;
  /** Set when the change could leave the site without an owner. */
  losesOwner?: boolean;
  fields?: Record<string, unknown>;
  write(tx: Tx, user: Outranked<U>): Promise<unknown>;
}

/** Changes an account in one transaction with its audit row and the event that sessions and streams listen to. */
export async function changeUser<U extends UserWithAccess>(ctx: Ctx, change: UserChange<U>): Promise<User> {
  const user = authorizeOver(ctx, change.user);
  return ctx.sql.begin(async (tx) => {
    if (change.losesOwner && user.rbac_roles.includes('owner')) {
      // two owners must not demote each other at the same time
      await lockUsers(tx);
      if (!(await anotherOwner(tx, user.id))) {
        throw new AppError('conflict', 'This is the last owner. Give another user the owner role first.');
      }
    }
    await change.write(tx, user);
    const changed = await userById(tx, user.id);
    await audit(ctx, tx, {
      resourceType: 'user',
      resourceId: user.id,
      target: user.username,
      action: change.action,
      ...(change.fields ? { fields: change.fields } : {}),
      before: user,
      after: changed,
    });
    await ctx.events.publish(tx, 'revoked', { user_ids: [user.id] });
    return toUserWithRoles(ctx, changed ?? user);
  });
}
