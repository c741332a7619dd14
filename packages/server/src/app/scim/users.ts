/**
 * Accounts as a SCIM client manages them: it creates, suspends and reactivates people, who sign in with the identity
 * provider. The client authenticates with one secret of the deployment, so the server acts for itself.
 */

import { AppError } from '@ropewalk/kit';
import { type Allowed, allow } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { systemTask } from '../../authz/proofs.ts';
import type { Tx } from '../../db/connect.ts';
import {
  type ScimFilter,
  type ScimStanding,
  type ScimUserRow,
  saveScimName,
  scimStanding,
  scimUsers,
} from '../../db/queries/scim.ts';
import { setProvisionedProfile, setUserStatus, userByEmail, userById, userByName } from '../../db/queries/users.ts';
import type { UserWithAccess } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { enabledProviders } from '../context/login-types.ts';
import { notifyAccount, notifyEmailChanged } from '../notification/accounts.ts';
import { loginName } from '../sign-in/account.ts';
import { fullName, otherUsername, usernameFrom } from '../sign-in/claims.ts';
import { changeUser } from '../user/change.ts';
import { createUser, takenName } from '../user/create.ts';
import { checkEmail } from '../user/validate.ts';
import { isUuid } from '../values/ids.ts';
import { time } from '../values/time.ts';
import type { ScimChange } from './input.ts';

export const USER_SCHEMA = 'urn:ietf:params:scim:schemas:core:2.0:User';

export interface ScimUser {
  schemas: string[];
  id: string;
  externalId?: string;
  userName: string;
  displayName: string;
  name: { formatted: string; givenName: string; familyName: string };
  emails: { value: string; type: string; primary: boolean }[];
  active: boolean;
  groups: [];
  meta: { resourceType: 'User'; created: string; lastModified: string; location: string };
}

function toScimUser(ctx: Ctx, row: ScimUserRow): ScimUser {
  const [givenName = '', ...rest] = row.name.split(' ');
  return {
    schemas: [USER_SCHEMA],
    id: row.id,
    ...(row.scim_external_id ? { externalId: row.scim_external_id } : {}),
    userName: row.scim_user_name,
    displayName: row.name || row.username,
    name: { formatted: row.name, givenName, familyName: rest.join(' ') },
    emails: [{ value: row.email, type: 'work', primary: true }],
    active: row.status !== 'suspended',
    groups: [],
    meta: {
      resourceType: 'User',
      created: time(row.created_at),
      lastModified: time(row.updated_at),
      location: `${ctx.accessUrl}/scim/v2/Users/${row.id}`,
    },
  };
}

export async function listScimUsers(
  ctx: Ctx,
  page: { filter: ScimFilter | undefined; limit: number; offset: number },
): Promise<{ users: ScimUser[]; count: number }> {
  const { users, count } = await scimUsers(ctx.lists, page);
  return { users: users.map((row) => toScimUser(ctx, row)), count };
}

export async function getScimUser(ctx: Ctx, id: string): Promise<ScimUser> {
  if (!isUuid(id)) throw notFound();
  const { users } = await scimUsers(ctx.sql, { filter: { field: 'id', value: id }, limit: 1, offset: 0 });
  if (!users[0]) throw notFound();
  return toScimUser(ctx, users[0]);
}

async function find(ctx: Ctx, id: string): Promise<Allowed<'update', UserWithAccess>> {
  const row = isUuid(id) ? await userById(ctx.sql, id) : undefined;
  if (!row || row.is_system) throw notFound();
  return allow(ctx, 'update', row, { type: 'user', ownerId: row.id });
}

/** Whether a client may change an account: it created the account, or the person signs in with the provider. */
const isManaged = ({ created, login_type: type }: ScimStanding): boolean => created || type === 'oidc';

/**
 * Rejects changes of accounts that the client does not manage, and addresses that would give the account to
 * another person: to the one who can read the mail with a code for a new password, or who has the address at the
 * provider when the account is not linked to anybody yet.
 * @throws AppError `forbidden`
 */
async function checkManaged(tx: Tx, { id, username }: UserWithAccess, movesAddress: boolean): Promise<void> {
  const standing = await scimStanding(tx, id);
  const { created, linked, has_roles: hasRoles, login_type: type } = standing;
  if (!isManaged(standing)) {
    throw new AppError(
      'forbidden',
      `The account "${username}" signs in with ${loginName(type)}, and no provisioning client created it.`,
      { detail: 'Ask an administrator to change its login type to OpenID Connect.' },
    );
  }
  if (!movesAddress) return;
  if (type === 'password') {
    throw new AppError(
      'forbidden',
      `The account "${username}" signs in with a password, so its email address cannot be changed here.`,
      { detail: 'Ask an administrator to change its login type to OpenID Connect.' },
    );
  }
  if (linked || (created && !hasRoles)) return;
  if (created) {
    throw new AppError(
      'forbidden',
      `The account "${username}" has roles, and its user has not signed in yet, so its email address cannot be changed here.`,
      { detail: 'Until the first sign-in, the address decides who gets the account and its roles.' },
    );
  }
  throw new AppError(
    'forbidden',
    `The user of the account "${username}" has not signed in yet, so its email address cannot be changed here.`,
    { detail: 'No provisioning client created the account. Until the first sign-in, the address decides who gets it.' },
  );
}

/**
 * Creates an account that signs in with the identity provider. The client takes over an account with the same address
 * that signs in with the provider: it is reactivated, if the client says so.
 */
export async function createScimUser(ctx: Ctx, input: ScimChange): Promise<{ user: ScimUser; created: boolean }> {
  const { userName } = input;
  if (userName === undefined) throw new AppError('invalid', 'The attribute "userName" is missing.');
  const email = input.email ?? (userName.includes('@') ? userName : undefined);
  if (email === undefined) throw new AppError('invalid', 'The user needs an email address in "emails".');
  checkEmail(email);
  const existing = await userByEmail(ctx.sql, email);
  if (existing) return { user: await takeOver(ctx, existing, input), created: false };
  let username = usernameFrom(userName, email);
  for (let tries = 0; (await userByName(ctx.sql, username)) && tries < 10; tries++) username = otherUsername(username);
  const made = await createUser(ctx, {
    username,
    email,
    name: fullName(input.name ?? ''),
    // without a provider nobody can sign in to it yet
    login_type: enabledProviders(ctx.config).includes('oidc') ? 'oidc' : 'none',
    user_status: input.active === false ? 'suspended' : 'dormant',
  });
  const names = { userName, externalId: input.externalId ?? '' };
  await saveScimName(ctx.sql, systemTask(ctx), made.id, { ...names, created: true });
  return { user: await getScimUser(ctx, made.id), created: true };
}

/** @throws AppError `conflict` for an account that the client may not change */
async function takeOver(ctx: Ctx, existing: UserWithAccess, input: ScimChange): Promise<ScimUser> {
  if (!isManaged(await ctx.sql.begin((tx) => scimStanding(tx, existing.id)))) {
    throw new AppError('conflict', `The account "${existing.username}" has this email address.`, {
      detail:
        `It signs in with ${loginName(existing.login_type)}, and no provisioning client created it. ` +
        'Ask an administrator to change its login type to OpenID Connect.',
    });
  }
  return changeScimUser(ctx, existing.id, input);
}

/** Changes the attributes that are present. @throws AppError `forbidden` for an account that is not the client's */
export async function changeScimUser(ctx: Ctx, id: string, input: ScimChange): Promise<ScimUser> {
  const user = await find(ctx, id);
  const before = await getScimUser(ctx, id);
  const email = input.email ?? user.email;
  // an address in another case is the same one
  const movesAddress = email.toLowerCase() !== user.email.toLowerCase();
  await ctx.sql.begin((tx) => checkManaged(tx, user, movesAddress));
  if (email !== user.email) checkEmail(email);
  const name = input.name === undefined ? user.name : fullName(input.name);
  // a person who comes back is dormant until they sign in
  const status =
    input.active === false ? 'suspended' : input.active && user.status === 'suspended' ? 'dormant' : user.status;
  if (email !== user.email || name !== user.name || status !== user.status) {
    await changeUser(ctx, {
      user,
      action: 'write',
      losesOwner: status === 'suspended' && user.status !== 'suspended',
      fields: { scim: true },
      async write(tx, person) {
        // its login type may have changed since
        await checkManaged(tx, user, movesAddress);
        await setProvisionedProfile(tx, person, { email, name });
        if (movesAddress) {
          await notifyEmailChanged(ctx, tx, user, { after: email, initiator: 'The provisioning client' });
        }
        if (status === user.status) return;
        await setUserStatus(tx, person, status);
        await notifyAccount(ctx, tx, status === 'suspended' ? 'suspended' : 'activated', user);
      },
    }).catch((err) => {
      throw takenName(err);
    });
  }
  const { userName = before.userName, externalId = before.externalId ?? '' } = input;
  if (userName !== before.userName || externalId !== (before.externalId ?? '')) {
    await saveScimName(ctx.sql, systemTask(ctx), id, { userName, externalId });
  }
  return getScimUser(ctx, id);
}
