import type { CreateUserRequestWithOrgs, User } from '@ropewalk/contract';
import { AppError, type Validation } from '@ropewalk/kit';
import { checkUsername } from '@ropewalk/rules';
import { authorize } from '../../authz/authorize.ts';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { insertMembers } from '../../db/queries/members.ts';
import { defaultOrganizationId } from '../../db/queries/organizations.ts';
import { insertUser, userById } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { newLoginTypes } from '../context/login-types.ts';
import { locateOrganization } from '../find/organization.ts';
import { notifyAccount } from '../notification/accounts.ts';
import { toUserWithRoles } from './convert.ts';
import { ensureGitSshKey } from './gitsshkey.ts';
import { checkPassword, hashPassword } from './password.ts';
import { requireDefaultRoles, rolesOfNew } from './roles.ts';
import { checkEmail, checkFullName } from './validate.ts';

/** The error for people when a unique index of users rejects a row. */
export function takenName(err: unknown): unknown {
  if (!isPgError(err, UNIQUE_VIOLATION)) return err;
  const field = err.constraint_name === 'users_email' ? 'email' : 'username';
  return new AppError('conflict', `A user with this ${field} already exists.`, {
    validations: [{ field, detail: 'This value is already in use and should be unique.' }],
  });
}

/** The login type of a service account. @throws AppError `invalid` for an address, a password or another login type */
function checkServiceAccount({ email, password, login_type: type }: CreateUserRequestWithOrgs): 'none' {
  const wrong: Validation[] = [];
  const detail = 'not for a service account, to which nobody signs in';
  if (email) wrong.push({ field: 'email', detail });
  if (password) wrong.push({ field: 'password', detail });
  if (type && type !== 'none') wrong.push({ field: 'login_type', detail: 'must be none for a service account' });
  if (wrong.length > 0) throw new AppError('invalid', 'Invalid service account.', { validations: wrong });
  return 'none';
}

/** The login type of a person's account. @throws AppError `invalid` */
function checkPerson({ config }: Ctx, { email = '', password = '', login_type: asked }: CreateUserRequestWithOrgs) {
  checkEmail(email);
  const loginType = asked || 'password';
  const types = newLoginTypes(config);
  const known = types.find((type) => type === loginType);
  if (known === undefined) {
    throw new AppError('invalid', `Login type "${loginType}" is not configured on this server.`, {
      validations: [{ field: 'login_type', detail: `must be one of ${types.join(', ')}` }],
    });
  }
  if (loginType === 'password') checkPassword('password', password);
  else if (password) {
    throw new AppError('invalid', 'Password cannot be set for non-password authentication.', {
      validations: [{ field: 'password', detail: `not for login type "${loginType}"` }],
    });
  }
  return known;
}

/** Creates a user, a member of the named organizations or of the default one. The account starts dormant. */
export async function createUser(ctx: Ctx, input: CreateUserRequestWithOrgs): Promise<User> {
  const allowed = authorize(ctx, 'create', { type: 'user' });
  checkUsername('username', input.username);
  checkFullName(input.name ?? '');
  const loginType = input.service_account ? checkServiceAccount(input) : checkPerson(ctx, input);
  // a new account has the right to no role yet, so this also checks that the actor may assign each
  const roles = (input.roles ?? []).length === 0 ? [] : rolesOfNew(ctx, input.roles!);
  const organizationIds = new Set<string>();
  for (const id of [...(input.organization_ids ?? []), ...(input.organization_id ? [input.organization_id] : [])])
    organizationIds.add((await locateOrganization(ctx, id)).organizationId);
  if (organizationIds.size === 0) organizationIds.add(await defaultOrganizationId(ctx.sql));
  const places = [...organizationIds].map((organizationId) =>
    authorize(ctx, 'create', { type: 'organization_member', organizationId }),
  );
  const hashed = loginType === 'password' ? await hashPassword(input.password ?? '') : '';
  try {
    return await ctx.sql.begin(async (tx) => {
      await requireDefaultRoles(ctx, tx, [...organizationIds]);
      const { id } = await insertUser(tx, allowed, {
        username: input.username,
        email: input.email ?? '',
        is_service_account: input.service_account ?? false,
        name: input.name ?? '',
        hashed_password: hashed,
        login_type: loginType,
        status: input.user_status ?? 'dormant',
        rbac_roles: roles,
      });
      await insertMembers(tx, places, id);
      await ensureGitSshKey(ctx, tx, id);
      const made = (await userById(tx, id))!;
      await audit(ctx, tx, {
        resourceType: 'user',
        resourceId: id,
        target: input.username,
        action: 'create',
        status: 201,
        after: made,
      });
      await notifyAccount(ctx, tx, 'created', made);
      return toUserWithRoles(ctx, made);
    });
  } catch (err) {
    throw takenName(err);
  }
}
