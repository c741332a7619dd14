import type { GetUsersResponse } from '@ropewalk/contract';
import { readScope } from '../../authz/authorize.ts';
import { findUsers, type PeoplePage, type PeopleSearch } from '../../db/queries/users.ts';
import type { Ctx } from '../context/context.ts';
import { anywhere, badQuery, pageOf, parseSearch, searchBool, searchList, searchTime } from '../lists/search.ts';
import { isUuid } from '../values/ids.ts';
import { toUserWithRoles } from './convert.ts';

const TIMES = ['last_seen_before', 'last_seen_after', 'created_before', 'created_after'];
const KEYS = ['search', 'name', 'status', 'role', 'login_type', 'github_com_user_id', 'service_account', ...TIMES];

export interface UserListQuery {
  q?: string;
  after_id?: string;
  limit?: number;
  offset?: number;
}

/**
 * What the query of a list of people asks for: of users, of members of an organization or of a group.
 * @throws AppError `invalid`
 */
export function peopleQuery(query: UserListQuery): PeopleSearch & PeoplePage {
  const search = parseSearch(query.q, KEYS);
  const roles = searchList(search, 'role');
  const text = [search.terms.get('search'), ...search.words].filter(Boolean).join(' ');
  const name = search.terms.get('name');
  const after = query.after_id;
  if (after !== undefined && !isUuid(after)) throw badQuery('after_id', 'must be a valid UUID');
  return {
    ...pageOf(query),
    afterId: after,
    githubId: search.terms.get('github_com_user_id'),
    text: text ? anywhere(text) : undefined,
    name: name ? anywhere(name) : undefined,
    statuses: searchList(search, 'status', ['active', 'dormant', 'suspended']),
    logins: searchList(search, 'login_type', ['password', 'github', 'oidc', 'token', 'none']),
    // everyone is a member
    roles: roles.includes('member') ? [] : roles,
    serviceAccount: searchBool(search, 'service_account'),
    times: {
      lastSeenBefore: searchTime(search, 'last_seen_before'),
      lastSeenAfter: searchTime(search, 'last_seen_after'),
      createdBefore: searchTime(search, 'created_before'),
      createdAfter: searchTime(search, 'created_after'),
    },
  };
}

/** The users that the actor may read, by name, with the total number of matches. */
export async function listUsers(ctx: Ctx, query: UserListQuery): Promise<GetUsersResponse> {
  const scope = readScope(ctx.actor, 'user');
  const own = scope.all ? undefined : [scope.ownerId].filter((id) => id !== '');
  const only = scope.ids === null ? own : scope.ids.filter((id) => !own || own.includes(id));
  const { users, count } = await findUsers(ctx.lists, { ...peopleQuery(query), only });
  return { users: users.map((user) => toUserWithRoles(ctx, user)), count };
}
