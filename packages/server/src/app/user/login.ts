import type { LoginWithPasswordRequest, LoginWithPasswordResponse } from '@platform/contract';
import { AppError } from '@platform/kit';
import { verifiedSignIn, verifiedToken } from '../../authz/proofs.ts';
import { touchUser, userByEmail } from '../../db/queries/users.ts';
import type { Ctx } from '../context.ts';
import { verifyPassword } from '../password.ts';
import { issueToken, revokeToken } from '../session.ts';
import type { KnownDevices, SignInLimit } from './sign-in-limit.ts';

const WRONG = 'Incorrect email or password.';

export interface SignIn {
  limit: SignInLimit;
  devices: KnownDevices;
  /** The proof of an earlier sign-in, from the request. */
  proof: string | undefined;
}

/** Creates a session for an email address and its password, and a new proof that this device has signed in. */
export async function loginWithPassword(
  ctx: Ctx,
  input: LoginWithPasswordRequest,
  { limit, devices, proof }: SignIn,
): Promise<LoginWithPasswordResponse & { proof: string }> {
  const user = await userByEmail(ctx.sql, input.email);
  const check = () => verifyPassword(user?.hashed_password ?? '', input.password);
  const device = user && devices.verify(user.id, proof);
  const right = ctx.config.dangerousDisableRateLimits
    ? await check()
    : await limit.attempt({ address: ctx.ip, account: input.email.toLowerCase(), device }, check);
  if (!user || !right) throw new AppError('unauthenticated', WRONG);
  if (user.login_type !== 'password') {
    throw new AppError(
      'forbidden',
      `Incorrect login type, attempting to use "password" but user is of login type "${user.login_type}"`,
    );
  }
  if (ctx.config.disablePasswordAuth && !user.rbac_roles.includes('owner')) {
    throw new AppError('forbidden', 'Password authentication is disabled on this server.');
  }
  if (user.status === 'suspended') {
    throw new AppError('unauthenticated', 'Your account is suspended. Contact an admin to reactivate your account.');
  }
  // a sign-in activates a dormant account
  const signIn = verifiedSignIn({ userId: user.id });
  await touchUser(ctx.sql, signIn, ctx.clock.now());
  return {
    session_token: await issueToken(ctx, signIn, {
      loginType: 'password',
      lifetimeMs: ctx.config.sessionDuration,
    }),
    proof: devices.issue(user.id, device),
  };
}

/** Revokes the session that the request uses. */
export async function logout(ctx: Ctx): Promise<{ message: string }> {
  if (ctx.actor.kind === 'user') await revokeToken(ctx, verifiedToken(ctx.actor));
  return { message: 'Logged out!' };
}
