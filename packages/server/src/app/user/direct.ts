/** Changes of accounts by a person who has the database, when nobody can sign in any more. */
import { AppError } from '@ropewalk/kit';
import { checkUsername } from '@ropewalk/rules';
import { allow, authorize } from '../../authz/authorize.ts';
import { systemTask } from '../../authz/proofs.ts';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { deleteOtherApiKeys } from '../../db/queries/apikeys.ts';
import { insertMembers, setMemberRoles } from '../../db/queries/members.ts';
import { allOrganizations, insertDefaultOrganization } from '../../db/queries/organizations.ts';
import { deleteLinks } from '../../db/queries/user-links.ts';
import { insertUser, setLoginType, userByName } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { changeUser } from './change.ts';
import { checkPassword, hashPassword } from './password.ts';
import { checkEmail } from './validate.ts';

/**
 * Sets a person's password and signs them out everywhere. An account of another login type signs in with the password
 * from now on. Returns the previous login type.
 */
export async function resetPassword(ctx: Ctx, username: string, password: string): Promise<string> {
  const row = await userByName(ctx.sql, username);
  if (!row || row.is_system) throw new AppError('not_found', `User "${username}" not found in this database.`);
  checkPassword('password', password);
  const user = allow(ctx, 'update', row, { type: 'user', ownerId: row.id });
  const hashed = await hashPassword(password);
  await changeUser(ctx, {
    user,
    action: 'write',
    fields: { login_type: 'password' },
    async write(tx, person) {
      await setLoginType(tx, person, 'password', hashed);
      await deleteLinks(tx, person);
      await deleteOtherApiKeys(tx, person, '');
    },
  });
  return row.login_type;
}

/** Creates an owner, who is also an administrator of every organization. Returns the user's id. */
export async function createAdminUser(
  ctx: Ctx,
  { username, email, password }: { username: string; email: string; password: string },
): Promise<string> {
  checkUsername('username', username);
  checkEmail(email);
  checkPassword('password', password);
  const hashed = await hashPassword(password);
  // a database that no server has used yet has none
  await insertDefaultOrganization(ctx.sql, systemTask(ctx));
  try {
    return await ctx.sql.begin(async (tx) => {
      const user = await insertUser(tx, authorize(ctx, 'create', { type: 'user' }), {
        username,
        email,
        name: '',
        hashed_password: hashed,
        login_type: 'password',
        status: 'active',
        rbac_roles: ['owner'],
      });
      for (const { id: organizationId } of await allOrganizations(tx)) {
        const place = authorize(ctx, 'create', { type: 'organization_member', organizationId });
        await insertMembers(tx, [place], user.id);
        const roles = authorize(ctx, 'assign', { type: 'assign_org_role', organizationId });
        await setMemberRoles(tx, roles, user.id, ['organization-admin']);
      }
      await audit(ctx, tx, {
        resourceType: 'user',
        resourceId: user.id,
        target: username,
        action: 'create',
        status: 201,
        after: user,
      });
      return user.id;
    });
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', 'A user with this username or email address already exists.');
  }
}
