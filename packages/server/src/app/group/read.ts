import type { Group, GroupMembersResponse } from '@ropewalk/contract';
import { may, type ReadScope, readScope } from '../../authz/authorize.ts';
import type { Db } from '../../db/connect.ts';
import {
  findGroupMembers,
  type GroupMemberRow,
  type GroupRow,
  listGroupRows,
  membersOfGroups,
} from '../../db/queries/groups.ts';
import { organizationById, organizationByName } from '../../db/queries/organizations.ts';
import { userById, userByName } from '../../db/queries/users.ts';
import type { UserRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { findGroup, findGroupByName } from '../find/group.ts';
import { findOrganization } from '../find/organization.ts';
import { badQuery } from '../lists/search.ts';
import { toReducedUser } from '../user/convert.ts';
import { peopleQuery, type UserListQuery } from '../user/list.ts';
import { isUuid } from '../values/ids.ts';

export function toGroup(row: GroupRow, members: readonly UserRow[]): Group {
  return {
    id: row.id,
    name: row.name,
    display_name: row.display_name,
    organization_id: row.organization_id,
    organization_name: row.organization_name,
    organization_display_name: row.organization_display_name,
    avatar_url: row.avatar_url,
    quota_allowance: row.quota_allowance,
    source: row.source,
    members: members.map(toReducedUser),
    total_member_count: row.total_member_count,
  };
}

const mayReadMembers = ({ actor }: Pick<Ctx, 'actor'>, { organization_id }: GroupRow) =>
  may(actor, 'read', { type: 'group_member', organizationId: organization_id });

/** Groups with those of their members that the actor may read: all, or only the actor. */
export async function toGroups(ctx: Ctx, db: Db, rows: readonly GroupRow[]): Promise<Group[]> {
  const { actor } = ctx;
  const [open, closed] = [true, false].map((all) => rows.filter((row) => mayReadMembers(ctx, row) === all));
  const idsOf = (list: readonly GroupRow[]) => list.map(({ id }) => id);
  const members: GroupMemberRow[] = [];
  if (open!.length > 0) members.push(...(await membersOfGroups(db, idsOf(open!))));
  if (closed!.length > 0 && actor.kind === 'user') {
    members.push(...(await membersOfGroups(db, idsOf(closed!), actor.id)));
  }
  const byGroup = Map.groupBy(members, ({ group_id }) => group_id);
  return rows.map((row) => toGroup(row, byGroup.get(row.id) ?? []));
}

interface MembersOption {
  exclude_members?: boolean;
}

async function oneGroup(ctx: Ctx, row: GroupRow, { exclude_members }: MembersOption): Promise<Group> {
  return exclude_members ? toGroup(row, []) : (await toGroups(ctx, ctx.sql, [row]))[0]!;
}

export async function getGroup(ctx: Ctx, id: string, option: MembersOption): Promise<Group> {
  return oneGroup(ctx, await findGroup(ctx, 'read', id), option);
}

export async function getGroupByName(
  ctx: Ctx,
  organization: string,
  name: string,
  option: MembersOption,
): Promise<Group> {
  return oneGroup(ctx, await findGroupByName(ctx, organization, name), option);
}

/** The members of a group that the actor may read, by user name: all, or only the actor. */
async function pageOfMembers(ctx: Ctx, group: GroupRow, query: UserListQuery): Promise<GroupMembersResponse> {
  const { actor } = ctx;
  const only = mayReadMembers(ctx, group) ? undefined : actor.kind === 'user' ? [actor.id] : [];
  const { users, count } = await findGroupMembers(ctx.lists, group.id, { ...peopleQuery(query), only });
  return { users: users.map(toReducedUser), count };
}

export async function listGroupMembers(ctx: Ctx, id: string, query: UserListQuery): Promise<GroupMembersResponse> {
  return pageOfMembers(ctx, await findGroup(ctx, 'read', id), query);
}

export async function listMembersByName(
  ctx: Ctx,
  organization: string,
  name: string,
  query: UserListQuery,
): Promise<GroupMembersResponse> {
  return pageOfMembers(ctx, await findGroupByName(ctx, organization, name), query);
}

/** The ids of the groups that an actor may read because of being a member. A token without this scope may read none. */
function ownGroups({ actor }: Pick<Ctx, 'actor'>, { ownerId }: ReadScope): string[] {
  if (actor.kind !== 'user' || ownerId === '') return [];
  return [...actor.groups, ...actor.organizations.keys()];
}

interface GroupQuery {
  organization?: string;
  has_member?: string;
  group_ids?: string;
}

/** Lists the groups that the actor may read, with their readable members. */
export async function listGroups(ctx: Ctx, query: GroupQuery): Promise<Group[]> {
  const { lists: db, actor } = ctx;
  const { organization, has_member: member } = query;
  const ids = query.group_ids?.split(',').filter((id) => id !== '');
  const wrong = ids?.find((id) => !isUuid(id));
  if (wrong !== undefined) throw badQuery('group_ids', `${JSON.stringify(wrong)} is not a valid UUID`);
  const place = organization
    ? await (isUuid(organization) ? organizationById(db, organization) : organizationByName(db, organization))
    : undefined;
  const id = member === 'me' && actor.kind === 'user' ? actor.id : member;
  const person = id ? await (isUuid(id) ? userById(db, id) : userByName(db, id)) : undefined;
  if ((organization && !place) || (id && !person)) return [];
  const scope = readScope(actor, 'group');
  const rows = await listGroupRows(db, {
    scope,
    own: ownGroups(ctx, scope),
    organizationId: place?.id,
    ids,
    userId: person?.id,
  });
  const self = !person || (actor.kind === 'user' && actor.id === person.id);
  return toGroups(ctx, db, self ? rows : rows.filter((row) => mayReadMembers(ctx, row)));
}

export async function groupsOfOrganization(ctx: Ctx, organization: string): Promise<Group[]> {
  const { id } = await findOrganization(ctx, 'read', organization);
  return listGroups(ctx, { organization: id });
}
