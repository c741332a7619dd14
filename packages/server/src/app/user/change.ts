import type { User } from '@platform/contract';
import { AppError } from '@platform/kit';
import { authorizeOver } from '../../authz/authorize.ts';
import type { Db } from '../../db/connect.ts';
import { anotherOwner, type UserWithRoles, userById } from '../../db/queries/users.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { toUserWithRoles } from './convert.ts';

export interface UserChange {
  user: UserWithRoles;
  action: string;
  /** Set where the change could leave nobody who administers. */
  losesOwner?: boolean;
  fields?: Record<string, unknown>;
  write(tx: Db): Promise<unknown>;
}

/** Changes an account in one transaction with what belongs to it: the audit row, and sessions that learn of it. */
export async function changeUser(ctx: Ctx, change: UserChange): Promise<User> {
  const { user } = change;
  authorizeOver(ctx, user);
  return ctx.sql.begin(async (tx) => {
    if (change.losesOwner && user.rbac_roles.includes('owner')) {
      // two owners at once must not demote each other
      await tx`LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`;
      if (!(await anotherOwner(tx, user.id))) {
        throw new AppError('conflict', 'This is the last owner: give somebody else the role first.');
      }
    }
    await change.write(tx);
    await audit(ctx, tx, {
      resourceType: 'user',
      resourceId: user.id,
      target: user.username,
      action: change.action,
      ...(change.fields ? { fields: change.fields } : {}),
    });
    await ctx.events.publish(tx, 'revoked', { user_ids: [user.id] });
    return toUserWithRoles((await userById(tx, user.id)) ?? user);
  });
}
