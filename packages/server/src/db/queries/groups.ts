import type { Allowed, ReadScope } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { OrganizationRow, UserRow } from '../rows.ts';
import { pageOfPeople, type UserFilter } from './users.ts';
import { isShared } from './workspaces.ts';

export interface GroupRow {
  id: string;
  organization_id: string;
  name: string;
  display_name: string;
  avatar_url: string;
  quota_allowance: number;
  source: 'user' | 'oidc';
  created_at: Date;
  updated_at: Date;
  organization_name: string;
  organization_display_name: string;
  total_member_count: number;
}

/** Columns and tables of a `GroupRow`, up to WHERE. */
const GROUPS = (db: Db) => db`SELECT g.*, o.name AS organization_name, o.display_name AS organization_display_name,
    (SELECT count(*) FROM all_group_members m JOIN users u ON u.id = m.user_id AND NOT u.is_system
      WHERE m.group_id = g.id) AS total_member_count
  FROM groups g JOIN organizations o ON o.id = g.organization_id AND NOT o.deleted`;

export async function groupById(db: Db, id: string): Promise<GroupRow | undefined> {
  const [row] = await db<GroupRow[]>`${GROUPS(db)} WHERE g.id = ${id}`;
  return row;
}

export async function groupByName(db: Db, organizationId: string, name: string): Promise<GroupRow | undefined> {
  const [row] = await db<GroupRow[]>`${GROUPS(db)}
    WHERE g.organization_id = ${organizationId} AND lower(g.name) = lower(${name})`;
  return row;
}

export interface GroupFilter {
  scope: ReadScope;
  /** The groups that the actor may read as a member. */
  own: string[];
  organizationId?: string | undefined;
  ids?: string[] | undefined;
  /** Only groups of this person. */
  userId?: string | undefined;
}

/** Everyone first, the others by name, for each organization. */
export async function listGroupRows(db: Db, filter: GroupFilter): Promise<GroupRow[]> {
  const { scope, own, organizationId, ids, userId } = filter;
  return db<GroupRow[]>`${GROUPS(db)}
    WHERE (${scope.all} OR g.organization_id = ANY(${scope.organizationIds}) OR g.id = ANY(${own}))
      ${scope.ids === null ? db`` : db`AND g.id = ANY(${scope.ids}::uuid[])`}
      ${organizationId ? db`AND g.organization_id = ${organizationId}` : db``}
      ${ids ? db`AND g.id = ANY(${ids}::uuid[])` : db``}
      ${userId ? db`AND g.id IN (SELECT group_id FROM all_group_members WHERE user_id = ${userId})` : db``}
    ORDER BY lower(o.name), g.id <> g.organization_id, lower(coalesce(nullif(g.display_name, ''), g.name)), g.id`;
}

export type GroupMemberRow = UserRow & { group_id: string };

/** The members of groups by user name. With `only`, at most this person. */
export async function membersOfGroups(db: Db, ids: string[], only?: string): Promise<GroupMemberRow[]> {
  return db<GroupMemberRow[]>`SELECT m.group_id, u.*
    FROM all_group_members m JOIN users u ON u.id = m.user_id AND NOT u.deleted AND NOT u.is_system
    WHERE m.group_id = ANY(${ids}::uuid[]) ${only === undefined ? db`` : db`AND u.id = ${only}`}
    ORDER BY lower(u.username)`;
}

/** A page of a group's members by user name, and the total number of matches. */
export async function findGroupMembers(
  db: Db,
  groupId: string,
  filter: UserFilter,
): Promise<{ users: UserRow[]; count: number }> {
  const from = db`FROM all_group_members m JOIN users u ON u.id = m.user_id WHERE m.group_id = ${groupId}`;
  const { rows: users, count } = await pageOfPeople<UserRow>(db, { columns: db`u.*`, from }, filter);
  return { users, count };
}

/** The ids of a group's members. */
export async function memberIds(db: Db, groupId: string): Promise<string[]> {
  const rows = await db<{ user_id: string }[]>`SELECT user_id FROM all_group_members WHERE group_id = ${groupId}`;
  return rows.map(({ user_id }) => user_id);
}

export type GroupFields = Pick<GroupRow, 'name' | 'display_name' | 'avatar_url' | 'quota_allowance'>;

export async function insertGroup(
  tx: Tx,
  { organizationId }: Allowed<'create', { type: 'group'; organizationId: string }>,
  group: GroupFields & { source: GroupRow['source'] },
): Promise<string> {
  const [row] = await tx<{ id: string }[]>`INSERT INTO groups
    ${tx({ ...group, organization_id: organizationId } as never)} RETURNING id`;
  return row!.id;
}

export async function updateGroupRow(
  tx: Tx,
  group: Allowed<'update', GroupRow>,
  { name, display_name, avatar_url, quota_allowance }: GroupFields,
): Promise<void> {
  await tx`UPDATE groups SET name = ${name}, display_name = ${display_name}, avatar_url = ${avatar_url},
    quota_allowance = ${quota_allowance}, updated_at = now() WHERE id = ${group.id}`;
}

/**
 * Adds these people to a group other than Everyone. Returns those who were added: not those who are members already, nor
 * those who are not in the organization.
 */
export async function addGroupMembers(
  tx: Tx,
  group: Allowed<'update', GroupRow>,
  userIds: readonly string[],
): Promise<string[]> {
  const rows = await tx<{ user_id: string }[]>`INSERT INTO group_members (group_id, organization_id, user_id)
    SELECT ${group.id}, m.organization_id, m.user_id FROM organization_members m
    WHERE m.organization_id = ${group.organization_id} AND m.user_id = ANY(${[...userIds]}::uuid[])
    ON CONFLICT DO NOTHING RETURNING user_id`;
  return rows.map(({ user_id }) => user_id);
}

/** Removes these people from a group. Returns those who were its members. */
export async function removeGroupMembers(
  tx: Tx,
  group: Allowed<'update', GroupRow>,
  userIds: readonly string[],
): Promise<string[]> {
  const rows = await tx<{ user_id: string }[]>`DELETE FROM group_members
    WHERE group_id = ${group.id} AND user_id = ANY(${[...userIds]}::uuid[]) RETURNING user_id`;
  return rows.map(({ user_id }) => user_id);
}

/** Deletes a group, and its permissions on templates and workspaces. */
export async function deleteGroupRow(tx: Tx, group: Allowed<'delete', GroupRow>): Promise<void> {
  await tx`DELETE FROM groups WHERE id = ${group.id}`;
  await tx`UPDATE templates SET group_acl = group_acl - ${group.id}::text
    WHERE organization_id = ${group.organization_id} AND group_acl ? ${group.id}`;
  await tx`UPDATE workspaces w SET group_acl = w.group_acl - ${group.id}::text
    WHERE w.organization_id = ${group.organization_id} AND NOT w.deleted AND ${isShared(tx)} AND w.group_acl ? ${group.id}`;
}

/** Deletes all groups of an organization that is being deleted. */
export async function deleteGroupsOf(tx: Tx, organization: Allowed<'delete', OrganizationRow>): Promise<void> {
  await tx`DELETE FROM groups WHERE organization_id = ${organization.id}`;
}
