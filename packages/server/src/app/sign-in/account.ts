import { AppError, isAppError } from '@ropewalk/kit';
import { authorize } from '../../authz/authorize.ts';
import { type VerifiedSignIn, verifiedSignIn } from '../../authz/proofs.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { insertMembers } from '../../db/queries/members.ts';
import { defaultOrganizationId } from '../../db/queries/organizations.ts';
import { linkBySubject, linkOfUser, saveLink } from '../../db/queries/user-links.ts';
import {
  convertToProvider,
  countUsers,
  insertUser,
  lockUsers,
  setIdentityProfile,
  touchUser,
  userByEmail,
  userById,
  userByName,
} from '../../db/queries/users.ts';
import type { UserWithRoles } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import { auditSignIn } from '../audit-entries/sign-in.ts';
import { type Ctx, systemContext } from '../context/context.ts';
import { issueToken } from '../context/session.ts';
import { notifyAccount, notifyEmailChanged } from '../notification/accounts.ts';
import { ensureGitSshKey } from '../user/gitsshkey.ts';
import { otherUsername } from './claims.ts';
import type { Identity, IdentityProvider } from './provider.ts';
import { syncIdentity } from './sync.ts';

const NAMES = { oidc: 'the identity provider', github: 'GitHub' } as const;

/**
 * Signs a person in with a verified identity. The account is the one that is linked to the identity, or else the one
 * with its email address, or a new one. Returns the session token.
 */
export async function signInWithIdentity(
  ctx: Ctx,
  provider: IdentityProvider,
  identity: Identity,
  convert?: string,
): Promise<string> {
  // nobody is signed in yet, so the server acts for itself, with the caller's address in the records
  const { ip, userAgent, requestId } = ctx;
  const system: Ctx = { ...systemContext(ctx, 'sign-in', ctx.signal), ip, userAgent, requestId };
  const fields = { login_type: identity.provider };
  const signIn = onceMore(() =>
    ctx.sql.begin(async (tx) => {
      const user = await findAccount(tx, identity, convert);
      const proof = user
        ? await updateAccount(system, tx, user, identity, convert)
        : await createAccount(system, tx, provider, identity);
      await saveLink(tx, proof, {
        login_type: identity.provider,
        linked_id: identity.subject,
        access_token: ctx.vault.seal(identity.tokens.accessToken),
        refresh_token: ctx.vault.seal(identity.tokens.refreshToken),
        expires_at: identity.tokens.expiresAt,
        claims: identity.claims,
      });
      if (identity.provider === 'oidc') await syncIdentity(system, tx, proof.userId, identity.claims);
      const session = { loginType: identity.provider, lifetimeMs: ctx.config.sessionDuration } as const;
      const { text, key } = await issueToken(ctx, proof, session, tx);
      const account = (await userById(tx, proof.userId))!;
      const action = user ? 'login' : 'register';
      await auditSignIn(system, tx, { action, user: account, status: 201, key, fields });
      return text;
    }),
  );
  return signIn.catch(async (err) => {
    if (isAppError(err, 'forbidden') || isAppError(err, 'unauthenticated')) {
      const user = await userByEmail(ctx.sql, identity.email);
      const status = err.code === 'forbidden' ? 403 : 401;
      await auditSignIn(system, ctx.sql, { user, name: identity.email, status, fields });
    }
    throw err;
  });
}

/** Repeats a transaction whose account, name or link was created by another one at the same time. */
async function onceMore<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    return run();
  }
}

/** @throws AppError `forbidden` if the identity must not sign in to the account that it matches */
async function findAccount(
  tx: Tx,
  { provider, subject, email }: Identity,
  convert: string | undefined,
): Promise<UserWithRoles | undefined> {
  const linked = await linkBySubject(tx, provider, subject);
  const mine = linked && (await userById(tx, linked.user_id));
  const user = mine ?? (await userByEmail(tx, email));
  if (convert !== undefined && user?.id !== convert) {
    throw new AppError('forbidden', `Your account at ${NAMES[provider]} does not match your account here.`, {
      detail: mine
        ? 'It is already linked to another account here.'
        : `Its email address "${email}" differs from the one of your account here. Change one of them, then try again.`,
    });
  }
  if (!user) return undefined;
  if (user.login_type !== provider && convert === undefined) {
    throw new AppError('forbidden', 'Incorrect login type.', {
      detail:
        `The account with the email address "${user.email}" signs in with ${loginName(user.login_type)}.` +
        (user.login_type === 'password'
          ? ` Sign in with your password, then change the sign-in method in Settings, Security.`
          : ' Ask an administrator to change its login type.'),
    });
  }
  if (!mine) {
    const other = await linkOfUser(tx, user.id, provider);
    // the address at the provider may have been given to somebody else
    if (other && other.linked_id !== subject) {
      throw new AppError('forbidden', `The account "${user.username}" belongs to another identity.`, {
        detail: `It has your email address and is linked to another account of ${NAMES[provider]}. Ask an administrator for help.`,
      });
    }
  }
  if (user.is_system) throw new AppError('forbidden', 'This account cannot sign in.');
  if (user.status === 'suspended') {
    throw new AppError('unauthenticated', 'Your account is suspended. Contact an admin to reactivate your account.');
  }
  return user;
}

/** How an account of this type signs in, as words in a sentence. */
export const loginName = (type: string): string =>
  ({ password: 'a password', oidc: 'OpenID Connect', github: 'GitHub', none: 'API tokens only' })[type] ?? type;

async function updateAccount(
  system: Ctx,
  tx: Tx,
  user: UserWithRoles,
  identity: Identity,
  convert: string | undefined,
): Promise<VerifiedSignIn> {
  const proof = verifiedSignIn({ userId: user.id });
  const holder = await userByEmail(tx, identity.email);
  const taken = holder && holder.id !== user.id;
  if (taken) {
    system.log.warn('a person signed in whose email address at the provider belongs to another account here', {
      user_id: user.id,
      holder_id: holder.id,
    });
  }
  const email = taken ? user.email : identity.email;
  await setIdentityProfile(tx, proof, {
    email,
    name: identity.name || user.name,
    avatar_url: identity.avatarUrl || user.avatar_url,
  });
  if (email.toLowerCase() !== user.email.toLowerCase()) {
    await notifyEmailChanged(system, tx, user, { after: email, initiator: 'A sign-in with your identity provider' });
  }
  await touchUser(tx, proof, system.clock.now());
  if (convert !== undefined) {
    await convertToProvider(tx, proof, identity.provider);
    await audit(system, tx, {
      resourceType: 'convert_login',
      resourceId: user.id,
      target: identity.provider,
      action: 'write',
      userId: user.id,
      fields: { from: user.login_type, to: identity.provider },
    });
  }
  await system.events.publish(tx, 'revoked', { user_ids: [user.id] });
  return proof;
}

async function createAccount(
  system: Ctx,
  tx: Tx,
  provider: IdentityProvider,
  identity: Identity,
): Promise<VerifiedSignIn> {
  const { signUps } = provider;
  // the one who sets up a new installation
  const first = (await countUsers(tx)) === 0;
  if (!signUps.allowed && !first) {
    throw new AppError('forbidden', 'Sign-ups are disabled on this server.', {
      detail: signUps.deniedText || 'Ask an administrator to create an account for you.',
    });
  }
  if (first) {
    await lockUsers(tx);
    if ((await countUsers(tx)) > 0) return createAccount(system, tx, provider, identity);
  }
  let username = identity.username;
  for (let tries = 0; (await userByName(tx, username)) && tries < 10; tries++) username = otherUsername(username);
  const user = await insertUser(tx, authorize(system, 'create', { type: 'user' }), {
    username,
    email: identity.email,
    name: identity.name,
    hashed_password: '',
    login_type: identity.provider,
    status: 'active',
    rbac_roles: first ? ['owner'] : [],
  });
  const proof = verifiedSignIn({ userId: user.id });
  await setIdentityProfile(tx, proof, {
    email: identity.email,
    name: identity.name,
    avatar_url: identity.avatarUrl,
  });
  await touchUser(tx, proof, system.clock.now());
  const organizationId = await defaultOrganizationId(tx);
  await insertMembers(tx, [authorize(system, 'create', { type: 'organization_member', organizationId })], user.id);
  await ensureGitSshKey(system, tx, user.id);
  await audit(system, tx, {
    resourceType: 'user',
    resourceId: user.id,
    target: username,
    action: 'create',
    status: 201,
    userId: user.id,
    after: user,
    fields: { login_type: identity.provider },
  });
  await notifyAccount(system, tx, 'created', user);
  return proof;
}
