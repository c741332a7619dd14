import type { CreateFirstUserRequest, CreateFirstUserResponse, Response } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkUsername } from '@ropewalk/rules';
import { authorize } from '../../authz/authorize.ts';
import { insertMembers } from '../../db/queries/members.ts';
import { defaultOrganizationId } from '../../db/queries/organizations.ts';
import { anyUserExists, countUsers, insertUser, lockUsers } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import { type Ctx, systemContext } from '../context/context.ts';
import { ensureGitSshKey } from './gitsshkey.ts';
import { checkPassword, hashPassword } from './password.ts';
import { checkEmail } from './validate.ts';

/** Whether the first user exists. Upstream's client asks this to recognize a server. */
export async function firstUserExists(ctx: Ctx): Promise<Response> {
  if (!(await anyUserExists(ctx.sql))) throw new AppError('not_found', 'The initial user has not been created!');
  return { message: 'The initial user has already been created!' };
}

const alreadyMade = () => new AppError('conflict', 'The initial user has already been created.');

/** Creates the owner of a new installation. Rejected once a user exists. */
export async function createFirstUser(ctx: Ctx, input: CreateFirstUserRequest): Promise<CreateFirstUserResponse> {
  // checked first, so that nobody can make a server in use hash passwords and lock its users table
  if ((await countUsers(ctx.sql)) > 0) throw alreadyMade();
  checkUsername('username', input.username);
  checkEmail(input.email);
  checkPassword('password', input.password);
  const hashed = await hashPassword(input.password);
  // no person has a role yet that could allow it, so the server acts for itself
  const system = systemContext(ctx, 'first user');
  return ctx.sql.begin(async (tx) => {
    // of two concurrent requests, the second sees the first one's row
    await lockUsers(tx);
    if ((await countUsers(tx)) > 0) throw alreadyMade();
    const organizationId = await defaultOrganizationId(tx);
    const user = await insertUser(tx, authorize(system, 'create', { type: 'user' }), {
      username: input.username,
      email: input.email,
      name: input.name ?? '',
      hashed_password: hashed,
      login_type: 'password',
      status: 'active',
      rbac_roles: ['owner'],
    });
    const place = authorize(system, 'create', { type: 'organization_member', organizationId });
    await insertMembers(tx, [place], user.id);
    await ensureGitSshKey(ctx, tx, user.id);
    await audit(ctx, tx, {
      resourceType: 'user',
      resourceId: user.id,
      target: user.username,
      action: 'create',
      status: 201,
      userId: user.id,
      after: user,
    });
    return { user_id: user.id, organization_id: organizationId };
  });
}
