/**
 * Changes how a person signs in. People turn their own password account into one of a provider: they prove that they
 * know the password, and get a conversion, which the sign-in at the provider completes. Administrators change the login
 * type of others immediately.
 */
import type { ConvertLoginRequest, OAuthConversionResponse } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { authorize } from '../../authz/authorize.ts';
import { deleteOtherApiKeys } from '../../db/queries/apikeys.ts';
import { deleteLinks } from '../../db/queries/user-links.ts';
import { setLoginType } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { loginTypes, type ProviderType } from '../context/login-types.ts';
import type { AppTokens } from '../context/sealed-tokens.ts';
import { findUser, requirePerson } from '../find/user.ts';
import { changeUser } from '../user/change.ts';
import { checkPassword, hashPassword, verifyPassword } from '../user/password.ts';
import { time } from '../values/time.ts';
import { randomText } from '../values/token.ts';
import type { SignInLimit } from './sign-in-limit.ts';

const CONVERSION_MS = 5 * 60_000;
const PURPOSE = 'convert login';

interface Conversion {
  user: string;
  to: string;
  state: string;
  expires: number;
}

export interface Converted {
  answer: OAuthConversionResponse;
  /** For a cookie of the browser that continues at the provider. */
  sealed?: string;
}

export async function convertLogin(
  ctx: Ctx,
  { limit, tokens }: { limit: SignInLimit; tokens: Pick<AppTokens, 'seal'> },
  name: string,
  input: ConvertLoginRequest,
): Promise<Converted> {
  const types = loginTypes(ctx.config);
  const to = types.find((type) => type === input.to_type);
  if (to === undefined) {
    throw new AppError('invalid', `Login type "${input.to_type}" is not configured on this server.`, {
      validations: [{ field: 'to_type', detail: `must be one of ${types.join(', ')}` }],
    });
  }
  const user = await findUser(ctx, 'read', name);
  requirePerson(user);
  if (ctx.actor.kind !== 'user' || ctx.actor.id !== user.id) return changeLoginType(ctx, user.id, to, input.password);
  authorize(ctx, 'update_personal', { type: 'user', ownerId: user.id });
  if (to !== 'oidc' && to !== 'github') {
    throw new AppError('invalid', 'Only an administrator can change your account to this login type.', {
      validations: [{ field: 'to_type', detail: 'must be a provider' }],
    });
  }
  if (user.login_type !== 'password') {
    throw new AppError('invalid', 'Only an account with a password can be converted.', {
      detail: `Your login type is "${user.login_type}". Ask an administrator to change it.`,
    });
  }
  const check = () => verifyPassword(user.hashed_password, input.password);
  const right = await limit.attempt({ address: ctx.ip, account: user.email.toLowerCase(), device: undefined }, check);
  if (!right) {
    throw new AppError('invalid', 'Incorrect password.', {
      validations: [{ field: 'password', detail: 'is not the current password' }],
    });
  }
  const state = randomText(32);
  const expires = ctx.clock.now().getTime() + CONVERSION_MS;
  const conversion: Conversion = { user: user.id, to, state, expires };
  await audit(ctx, ctx.sql, {
    resourceType: 'convert_login',
    resourceId: user.id,
    target: to,
    action: 'create',
    status: 201,
    after: {
      created_at: ctx.clock.now(),
      expires_at: new Date(expires),
      from_login_type: user.login_type,
      to_login_type: to,
      user_id: user.id,
    },
  });
  return {
    answer: { state_string: state, expires_at: time(new Date(expires)), to_type: to, user_id: user.id },
    sealed: tokens.seal(PURPOSE, conversion),
  };
}

/** Sets the login type of another person. Their sessions end, and links to providers are removed. */
async function changeLoginType(
  ctx: Ctx,
  id: string,
  to: 'password' | 'none' | ProviderType,
  password: string,
): Promise<Converted> {
  const user = await findUser(ctx, 'update', id);
  if (to === user.login_type) {
    throw new AppError('invalid', `The login type of ${user.username} is "${to}" already.`, {
      validations: [{ field: 'to_type', detail: 'is the current login type' }],
    });
  }
  if (user.is_service_account) {
    throw new AppError('invalid', `${user.username} is a service account: nobody signs in to it.`, {
      validations: [{ field: 'to_type', detail: 'not for a service account' }],
    });
  }
  if (to === 'password') checkPassword('password', password);
  const hashed = to === 'password' ? await hashPassword(password) : '';
  await changeUser(ctx, {
    user,
    action: 'write',
    // an account without a way to sign in does not count as an owner
    losesOwner: to === 'none',
    fields: { login_type: to },
    async write(tx, person) {
      await setLoginType(tx, person, to, hashed);
      await deleteLinks(tx, person);
      await deleteOtherApiKeys(tx, person, '');
    },
  });
  const now = time(ctx.clock.now());
  return { answer: { state_string: '', expires_at: now, to_type: to, user_id: user.id } };
}

/** The person whose conversion to this provider a browser continues. @throws AppError `unauthenticated` otherwise */
export function personOfConversion(
  ctx: Ctx,
  tokens: Pick<AppTokens, 'unseal'>,
  provider: ProviderType,
  { state, sealed }: { state: string; sealed: string | undefined },
): string {
  const found = sealed === undefined ? undefined : tokens.unseal<Conversion>(PURPOSE, sealed);
  if (found?.state === state && found.to === provider && found.expires > ctx.clock.now().getTime()) return found.user;
  throw new AppError('unauthenticated', 'The account could not be converted.', {
    detail: 'It took too long, or it was started in another browser. Start again in Settings, Security.',
  });
}
