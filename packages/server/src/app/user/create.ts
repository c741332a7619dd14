import type { CreateUserRequestWithOrgs, User } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkUsername } from '@ropewalk/rules';
import { authorize } from '../../authz/authorize.ts';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { insertMembers } from '../../db/queries/members.ts';
import { defaultOrganizationId } from '../../db/queries/organizations.ts';
import { insertUser, userById } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { newLoginTypes } from '../context/login-types.ts';
import { checkPassword, hashPassword } from '../context/password.ts';
import { locateOrganization } from '../find/organization.ts';
import { notifyAccount } from '../notification/accounts.ts';
import { toUserWithRoles } from './convert.ts';
import { ensureGitSshKey } from './gitsshkey.ts';
import { checkEmail, checkFullName } from './validate.ts';

/** The error for people when a unique index of users rejects a row. */
export function takenName(err: unknown): unknown {
  if (!isPgError(err, UNIQUE_VIOLATION)) return err;
  const field = err.constraint_name === 'users_email' ? 'email' : 'username';
  return new AppError('conflict', `A user with this ${field} already exists.`, {
    validations: [{ field, detail: 'This value is already in use and should be unique.' }],
  });
}

/** Creates a user, a member of the named organizations or of the default one. The account starts dormant. */
export async function createUser(ctx: Ctx, input: CreateUserRequestWithOrgs): Promise<User> {
  const allowed = authorize(ctx, 'create', { type: 'user' });
  const loginType = input.login_type || 'password';
  checkUsername('username', input.username);
  checkEmail(input.email);
  checkFullName(input.name ?? '');
  const types = newLoginTypes(ctx.config);
  const known = types.find((type) => type === loginType);
  if (known === undefined) {
    throw new AppError('invalid', `Login type "${loginType}" is not configured on this server.`, {
      validations: [{ field: 'login_type', detail: `must be one of ${types.join(', ')}` }],
    });
  }
  if (loginType === 'password') checkPassword('password', input.password ?? '');
  else if (input.password) {
    throw new AppError('invalid', 'Password cannot be set for non-password authentication.', {
      validations: [{ field: 'password', detail: `not for login type "${loginType}"` }],
    });
  }
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
      const { id } = await insertUser(tx, allowed, {
        username: input.username,
        email: input.email,
        name: input.name ?? '',
        hashed_password: hashed,
        login_type: known,
        status: input.user_status ?? 'dormant',
        rbac_roles: [],
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
