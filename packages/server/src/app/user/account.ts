import type {
  UpdateUserAppearanceSettingsRequest,
  UpdateUserPasswordRequest,
  UpdateUserProfileRequest,
  User,
  UserAppearanceSettings,
  UserLoginType,
} from '@platform/contract';
import { AppError, checkUsername } from '@platform/kit';
import { deleteOtherApiKeys } from '../../db/queries/apikeys.ts';
import {
  countWorkspacesOfUser,
  markUserDeleted,
  setAppearance,
  setPassword,
  setProfile,
  setUserStatus,
  type UserWithRoles,
} from '../../db/queries/users.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { notifyAccount } from '../notification/accounts.ts';
import { checkPassword, hashPassword, verifyPassword } from '../password.ts';
import { changeUser } from './change.ts';
import { takenName } from './create.ts';
import { findUser } from './find.ts';
import type { SignInLimit } from './sign-in-limit.ts';
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

/**
 * Sets a password. People who change their own password must give the old one, and cannot try one after the other. All
 * other sessions are revoked.
 */
export async function updatePassword(
  ctx: Ctx,
  name: string,
  input: UpdateUserPasswordRequest,
  limit: SignInLimit,
): Promise<undefined> {
  const user = await findUser(ctx, 'update_personal', name);
  if (user.login_type !== 'password') {
    throw new AppError('invalid', `A user of login type "${user.login_type}" has no password.`);
  }
  checkPassword('password', input.password);
  const self = isSelf(ctx, user);
  if (self) {
    const check = () => verifyPassword(user.hashed_password, input.old_password ?? '', ctx.hash);
    // a budget of its own: somebody with a stolen session cannot delay the person's sign-ins
    const budget = `password of ${user.id}`;
    const caller = { address: ctx.ip, account: user.email.toLowerCase(), device: undefined, budget };
    if (!(await limit.attempt(caller, check))) {
      throw new AppError('invalid', 'Old password is incorrect.', {
        validations: [{ field: 'old_password', detail: 'is not the current password' }],
      });
    }
    if (input.old_password === input.password) {
      throw new AppError('invalid', 'New password cannot match old password.', {
        validations: [{ field: 'password', detail: 'is the current password' }],
      });
    }
  }
  const hashed = await hashPassword(input.password);
  const mine = self && ctx.actor.kind === 'user' ? ctx.actor.apiKeyId : '';
  await changeUser(ctx, {
    user,
    action: 'write',
    async write(tx, person) {
      await setPassword(tx, person, hashed);
      await deleteOtherApiKeys(tx, person, mine);
    },
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
