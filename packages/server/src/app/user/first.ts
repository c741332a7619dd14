import type { CreateFirstUserRequest, CreateFirstUserResponse, Response } from '@platform/contract';
import { AppError, checkName } from '@platform/kit';
import { countUsers, insertUser } from '../../db/queries/users.ts';
import type { Ctx } from '../context.ts';
import { defaultOrganizationId } from '../organization/default.ts';
import { checkPassword, hashPassword } from '../password.ts';
import { ensureGitSshKey } from './gitsshkey.ts';
import { checkEmail } from './validate.ts';

/** Whether the first user exists: the published client asks this to know that it talks to such a server. */
export async function firstUserExists(ctx: Ctx): Promise<Response> {
  if ((await countUsers(ctx.sql)) === 0) throw new AppError('not_found', 'The initial user has not been created!');
  return { message: 'The initial user has already been created!' };
}

const alreadyMade = () => new AppError('conflict', 'The initial user has already been created.');

/** Makes the owner of a fresh installation; refused for ever after. */
export async function createFirstUser(ctx: Ctx, input: CreateFirstUserRequest): Promise<CreateFirstUserResponse> {
  // asked first: nobody may make a set-up server hash passwords and lock its users
  if ((await countUsers(ctx.sql)) > 0) throw alreadyMade();
  checkName('username', input.username);
  checkEmail(input.email);
  checkPassword('password', input.password);
  const hashed = await hashPassword(input.password);
  return ctx.sql.begin(async (tx) => {
    // two at once: the second sees the first's row
    await tx`LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`;
    if ((await countUsers(tx)) > 0) throw alreadyMade();
    const organizationId = await defaultOrganizationId(tx);
    const user = await insertUser(tx, {
      username: input.username,
      email: input.email,
      name: input.name ?? '',
      hashed_password: hashed,
      login_type: 'password',
      status: 'active',
      rbac_roles: ['owner'],
    });
    await tx`INSERT INTO organization_members (organization_id, user_id) VALUES (${organizationId}, ${user.id})`;
    await ensureGitSshKey(tx, user.id);
    return { user_id: user.id, organization_id: organizationId };
  });
}
