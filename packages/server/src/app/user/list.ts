import type { GetUsersResponse } from '@platform/contract';
import { readScope } from '../../authz/authorize.ts';
import { type UserWithRoles, WITH_ROLES } from '../../db/queries/users.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { anywhere, badQuery, pageOf, parseSearch, type Search, searchTime } from '../search.ts';
import { toUserWithRoles } from './convert.ts';

const TIMES = {
  last_seen_before: 'u.last_seen_at <=',
  last_seen_after: 'u.last_seen_at >=',
  created_before: 'u.created_at <=',
  created_after: 'u.created_at >=',
} as const;
const KEYS = ['search', 'name', 'status', 'role', 'login_type', 'github_com_user_id', ...Object.keys(TIMES)];

function list(search: Search, key: string, allowed?: readonly string[]): string[] {
  const values = (search.terms.get(key) ?? '').toLowerCase().split(',').filter(Boolean);
  const wrong = allowed && values.find((value) => !allowed.includes(value));
  if (wrong) throw badQuery(key, `${JSON.stringify(wrong)} is none of ${allowed.join(', ')}`);
  return values;
}

export interface UserListQuery {
  q?: string;
  after_id?: string;
  limit?: number;
  offset?: number;
}

/** The people whom the actor may read, by name, with the number of all that match. */
export async function listUsers(ctx: Ctx, query: UserListQuery): Promise<GetUsersResponse> {
  const { lists: sql } = ctx;
  const search = parseSearch(query.q, KEYS);
  const { limit, offset } = pageOf(query);
  const statuses = list(search, 'status', ['active', 'dormant', 'suspended']);
  const roles = list(search, 'role');
  const logins = list(search, 'login_type', ['password', 'github', 'oidc', 'token', 'none']);
  const text = [search.terms.get('search'), ...search.words].filter(Boolean).join(' ');
  const name = search.terms.get('name');
  const after = query.after_id;
  if (after !== undefined && !isUuid(after)) throw badQuery('after_id', 'must be a valid UUID');
  const scope = readScope(ctx.actor, 'user');
  // nobody here signs in with GitHub
  const none = search.terms.has('github_com_user_id');
  const where = sql`NOT u.deleted AND NOT u.is_system
    ${none ? sql`AND false` : sql``}
    ${scope.all ? sql`` : sql`AND u.id = ${scope.ownerId || null}`}
    ${text ? sql`AND (u.username ILIKE ${anywhere(text)} OR u.email ILIKE ${anywhere(text)} OR u.name ILIKE ${anywhere(text)})` : sql``}
    ${name ? sql`AND u.name ILIKE ${anywhere(name)}` : sql``}
    ${statuses.length > 0 ? sql`AND u.status = ANY (${statuses})` : sql``}
    ${logins.length > 0 ? sql`AND u.login_type = ANY (${logins})` : sql``}
    ${roles.length > 0 && !roles.includes('member') ? sql`AND u.rbac_roles && ${roles}` : sql``}
    ${Object.entries(TIMES).map(([key, comparison]) => {
      const at = searchTime(search, key);
      return at ? sql`AND ${sql.unsafe(comparison)} ${at}` : sql``;
    })}`;
  const [total] = await sql<{ count: number }[]>`SELECT count(*) AS count FROM users u WHERE ${where}`;
  const rows = await sql<UserWithRoles[]>`${WITH_ROLES(sql)} WHERE ${where}
    ${after ? sql`AND lower(u.username) > (SELECT lower(a.username) FROM users a WHERE a.id = ${after})` : sql``}
    ORDER BY lower(u.username) LIMIT ${limit} OFFSET ${offset}`;
  return { users: rows.map(toUserWithRoles), count: total!.count };
}
