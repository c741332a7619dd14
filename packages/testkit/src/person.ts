import { systemContext } from '@ropewalk/server/app/context/context';
import { issueToken } from '@ropewalk/server/app/context/session';
import { authorize } from '@ropewalk/server/authz/authorize';
import type { TokenScope } from '@ropewalk/server/authz/scope';
import { insertUser } from '@ropewalk/server/db/queries/users';
import type { TestServer } from './server.ts';

/** Inserts a user with these site roles and a session directly into the database: for tests that do not test users. */
export async function insertPerson(
  { services }: TestServer,
  name: string,
  roles: string[] = [],
  { member = true } = {},
): Promise<{ id: string; token: string }> {
  const { sql } = services;
  const ctx = systemContext(services, 'test');
  const user = await insertUser(sql, authorize(ctx, 'create', { type: 'user' }), {
    username: name,
    email: `${name}@example.com`,
    name: '',
    hashed_password: '',
    login_type: 'none',
    status: 'active',
    rbac_roles: roles,
  });
  if (member) {
    await sql`INSERT INTO organization_members (organization_id, user_id)
      SELECT id, ${user.id} FROM organizations WHERE is_default`;
  }
  const { text: token } = await issueToken(ctx, authorize(ctx, 'create', { type: 'api_key', ownerId: user.id }), {
    loginType: 'password',
    lifetimeMs: 3_600_000,
  });
  return { id: user.id, token };
}

/** Creates a token of a person with these limits. */
export async function limitedToken({ services }: TestServer, ownerId: string, scope: TokenScope): Promise<string> {
  const ctx = systemContext(services, 'test');
  const session = { loginType: 'token', lifetimeMs: 3_600_000, tokenName: crypto.randomUUID(), scope } as const;
  return (await issueToken(ctx, authorize(ctx, 'create', { type: 'api_key', ownerId }), session)).text;
}
