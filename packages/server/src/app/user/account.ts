import type {
  UpdateUserAppearanceSettingsRequest,
  UpdateUserProfileRequest,
  User,
  UserAppearanceSettings,
  UserLoginType,
} from '@platform/contract';
import { AppError } from '@platform/kit';
import { checkUsername } from '@platform/rules';
import {
  countWorkspacesOfUser,
  markUserDeleted,
  setAppearance,
  setProfile,
  setUserStatus,
  type UserWithRoles,
} from '../../db/queries/users.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { notifyAccount } from '../notification/accounts.ts';
import { audit } from '../record/audit.ts';
import { changeUser } from './change.ts';
import { takenName } from './create.ts';
import { checkFullName } from './validate.ts';

const isSelf = (ctx: Ctx, user: UserWithRoles) => ctx.actor.kind === 'user' && ctx.actor.id === user.id;

/** Changes the user name and the full name. */
export async function updateProfile(ctx: Ctx, name: string, input: UpdateUserProfileRequest): Promise<User> {
  const user = await findUser(ctx, 'update_personal', name);
  if (input.username !== user.username) checkUsername('username', input.username);
  const fullName = input.name ?? user.name;
  checkFullName(fullName);
  return changeUser(ctx, {
    user,
    action: 'write',
    write: (tx, person) => setProfile(tx, person, { username: input.username, name: fullName }),
  }).catch((err) => {
    throw takenName(err);
  });
}

export async function setStatus(ctx: Ctx, name: string, status: 'active' | 'suspended'): Promise<User> {
  const user = await findUser(ctx, 'update', name);
  if (status === 'suspended' && isSelf(ctx, user)) throw new AppError('invalid', 'You cannot suspend yourself.');
  return changeUser(ctx, {
    user,
    action: 'write',
    losesOwner: status === 'suspended',
    fields: { status },
    async write(tx, person) {
      await setUserStatus(tx, person, status);
      if (status !== user.status) await notifyAccount(ctx, tx, status === 'active' ? 'activated' : 'suspended', user);
    },
  });
}

/** Deletes an account. Its name is free again afterwards. A person who still has workspaces cannot be deleted. */
export async function deleteUser(ctx: Ctx, name: string): Promise<undefined> {
  const user = await findUser(ctx, 'delete', name);
  if (isSelf(ctx, user)) throw new AppError('forbidden', 'You cannot delete yourself!');
  await changeUser(ctx, {
    user,
    action: 'delete',
    losesOwner: true,
    async write(tx, person) {
      const left = await countWorkspacesOfUser(tx, user.id);
      if (left > 0) {
        throw new AppError('conflict', 'This user still has workspaces. Delete them and try again.', {
          detail: `Workspaces of ${user.username}: ${left}.`,
        });
      }
      await markUserDeleted(tx, person);
      await notifyAccount(ctx, tx, 'deleted', user);
    },
  });
}

export async function getLoginType(ctx: Ctx, name: string): Promise<UserLoginType> {
  const user = await findUser(ctx, 'read_personal', name);
  return { login_type: user.login_type };
}

const toAppearance = (row: { theme_preference: string; terminal_font: string }): UserAppearanceSettings => ({
  theme_preference: row.theme_preference,
  terminal_font: row.terminal_font as UserAppearanceSettings['terminal_font'],
});

export async function getUserAppearance(ctx: Ctx, name: string): Promise<UserAppearanceSettings> {
  const user = await findUser(ctx, 'read_personal', name);
  return toAppearance(user);
}

export async function updateUserAppearance(
  ctx: Ctx,
  name: string,
  input: UpdateUserAppearanceSettingsRequest,
): Promise<UserAppearanceSettings> {
  const user = await findUser(ctx, 'update_personal', name);
  await ctx.sql.begin(async (tx) => {
    await setAppearance(tx, user, input);
    const { id: resourceId, username: target } = user;
    await audit(ctx, tx, { resourceType: 'user', resourceId, target, action: 'write', fields: toAppearance(input) });
    // sessions keep the account that they were read with, and it has the theme
    await ctx.events.publish(tx, 'revoked', { user_ids: [user.id] });
  });
  return toAppearance(input);
}
