import type { UpdateUserPasswordRequest } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { deleteOtherApiKeys } from '../../db/queries/apikeys.ts';
import { setPassword } from '../../db/queries/users.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { changeUser } from '../user/change.ts';
import { checkPassword, hashPassword, verifyPassword } from '../user/password.ts';
import type { SignInLimit } from './sign-in-limit.ts';

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
  const self = ctx.actor.kind === 'user' && ctx.actor.id === user.id ? ctx.actor : undefined;
  if (self) {
    const check = () => verifyPassword(user.hashed_password, input.old_password ?? '');
    // a separate budget: somebody with a stolen session cannot delay the person's sign-ins
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
  const mine = self?.apiKeyId ?? '';
  await changeUser(ctx, {
    user,
    action: 'write',
    async write(tx, person) {
      await setPassword(tx, person, hashed);
      await deleteOtherApiKeys(tx, person, mine);
    },
  });
}
