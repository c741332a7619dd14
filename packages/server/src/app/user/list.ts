import type { GetUsersResponse } from '@platform/contract';
import { readScope } from '../../authz/authorize.ts';
import { findUsers } from '../../db/queries/users.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { anywhere, badQuery, pageOf, parseSearch, searchList, searchTime } from '../search.ts';
import { toUserWithRoles } from './convert.ts';

const TIMES = ['last_seen_before', 'last_seen_after', 'created_before', 'created_after'];
const KEYS = ['search', 'name', 'status', 'role', 'login_type', 'github_com_user_id', ...TIMES];

export interface UserListQuery {
  q?: string;
  after_id?: string;
  limit?: number;
  offset?: number;
}

/** The users that the actor may read, by name, with the total number of matches. */
export async function listUsers(ctx: Ctx, query: UserListQuery): Promise<GetUsersResponse> {
  const search = parseSearch(query.q, KEYS);
  const { limit, offset } = pageOf(query);
  const statuses = searchList(search, 'status', ['active', 'dormant', 'suspended']);
  const roles = searchList(search, 'role');
  const logins = searchList(search, 'login_type', ['password', 'github', 'oidc', 'token', 'none']);
  const text = [search.terms.get('search'), ...search.words].filter(Boolean).join(' ');
  const name = search.terms.get('name');
  const after = query.after_id;
  if (after !== undefined && !isUuid(after)) throw badQuery('after_id', 'must be a valid UUID');
  const scope = readScope(ctx.actor, 'user');
  const { users, count } = await findUsers(ctx.lists, {
    only: scope.all ? undefined : scope.ownerId || null,
    githubId: search.terms.get('github_com_user_id'),
    text: text ? anywhere(text) : undefined,
    name: name ? anywhere(name) : undefined,
    statuses,
    logins,
    // everyone is a member
    roles: roles.includes('member') ? [] : roles,
    times: {
      lastSeenBefore: searchTime(search, 'last_seen_before'),
      lastSeenAfter: searchTime(search, 'last_seen_after'),
      createdBefore: searchTime(search, 'created_before'),
      createdAfter: searchTime(search, 'created_after'),
    },
    afterId: after,
    limit,
    offset,
  });
  return { users: users.map((user) => toUserWithRoles(ctx, user)), count };
}
