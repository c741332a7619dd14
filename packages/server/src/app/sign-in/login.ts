import type { LoginWithPasswordRequest, LoginWithPasswordResponse } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { verifiedSignIn, verifiedToken } from '../../authz/proofs.ts';
import { apiKeyById } from '../../db/queries/apikeys.ts';
import { touchUser, userByEmail } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import { auditSignIn } from '../audit-entries/sign-in.ts';
import type { Ctx } from '../context/context.ts';
import { issueToken, revokeToken } from '../context/session.ts';
import { verifyPassword } from '../user/password.ts';
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
  const right = await limit.attempt({ address: ctx.ip, account: input.email.toLowerCase(), device }, check);
  const reject = async (status: number, err: AppError): Promise<never> => {
    await auditSignIn(ctx, ctx.sql, { user, name: input.email, status });
    throw err;
  };
  if (!user || !right) return reject(401, new AppError('unauthenticated', WRONG));
  if (user.login_type !== 'password') {
    const detail = `Incorrect login type, attempting to use "password" but user is of login type "${user.login_type}"`;
    return reject(403, new AppError('forbidden', detail));
  }
  if (ctx.config.disablePasswordAuth && !user.rbac_roles.includes('owner')) {
    return reject(403, new AppError('forbidden', 'Password authentication is disabled on this server.'));
  }
  if (user.status === 'suspended') {
    const text = 'Your account is suspended. Contact an admin to reactivate your account.';
    return reject(401, new AppError('unauthenticated', text));
  }
  // a sign-in activates a dormant account
  const signIn = verifiedSignIn({ userId: user.id });
  const token = await ctx.sql.begin(async (tx) => {
    const session = { loginType: 'password', lifetimeMs: ctx.config.sessionDuration } as const;
    const [{ text, key }] = await Promise.all([
      issueToken(ctx, signIn, session, tx),
      touchUser(tx, signIn, ctx.clock.now()),
    ]);
    await auditSignIn(ctx, tx, { user, status: 201, key });
    return text;
  });
  return { session_token: token, proof: devices.issue(user.id, device) };
}

/** Revokes the session that the request uses. */
export async function logout(ctx: Ctx): Promise<{ message: string }> {
  const { actor } = ctx;
  if (actor.kind === 'user') {
    const before = await apiKeyById(ctx.sql, actor.apiKeyId);
    await revokeToken(ctx, verifiedToken(actor), (tx) =>
      audit(ctx, tx, {
        resourceType: 'api_key',
        resourceId: actor.id,
        target: actor.username,
        action: 'logout',
        fields: { api_key_id: actor.apiKeyId },
        before,
      }),
    );
  }
  return { message: 'Logged out!' };
}
