import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { OrganizationRow, UserRow } from '../rows.ts';
import { pageOfPeople, type UserFilter } from './users.ts';
import { isShared } from './workspaces.ts';

export interface MemberRow {
  organization_id: string;
  user_id: string;
  roles: string[];
  created_at: Date;
  updated_at: Date;
}

export type MemberWithUser = MemberRow &
  Pick<
    UserRow,
    | 'username'
    | 'name'
    | 'email'
    | 'avatar_url'
    | 'rbac_roles'
    | 'status'
    | 'login_type'
    | 'is_service_account'
    | 'last_seen_at'
  > & {
    user_created_at: Date;
    user_updated_at: Date;
  };

const MEMBER_WITH_USER = (db: Db) => db`m.*, u.username, u.name, u.email, u.avatar_url, u.rbac_roles, u.status,
  u.login_type, u.is_service_account, u.last_seen_at, u.created_at AS user_created_at, u.updated_at AS user_updated_at`;
const MEMBERS = (db: Db, organizationId: string) => db`FROM organization_members m JOIN users u ON u.id = m.user_id
  WHERE m.organization_id = ${organizationId}`;

export async function memberById(db: Db, organizationId: string, userId: string): Promise<MemberWithUser | undefined> {
  const [row] = await db<MemberWithUser[]>`SELECT ${MEMBER_WITH_USER(db)} ${MEMBERS(db, organizationId)}
    AND u.id = ${userId} AND NOT u.deleted AND NOT u.is_system`;
  return row;
}

/** Members by user name, and the total number of matches. */
export async function membersOf(
  db: Db,
  organizationId: string,
  filter: UserFilter,
): Promise<{ members: MemberWithUser[]; count: number }> {
  const [columns, from] = [MEMBER_WITH_USER(db), MEMBERS(db, organizationId)];
  const { rows: members, count } = await pageOfPeople<MemberWithUser>(db, { columns, from }, filter);
  return { members, count };
}

/** An organization in which the actor may create members. */
export type MemberPlace = Allowed<'create', { type: 'organization_member'; organizationId: string }>;

/** Makes a person a member of each of these organizations. Returns the new memberships. */
export async function insertMembers(tx: Tx, places: readonly MemberPlace[], userId: string): Promise<MemberRow[]> {
  return tx<MemberRow[]>`INSERT INTO organization_members (organization_id, user_id)
    SELECT unnest(${places.map(({ organizationId }) => organizationId)}::uuid[]), ${userId}
    ON CONFLICT DO NOTHING RETURNING *`;
}

/** Makes the person who creates an organization a member with these roles. */
export async function insertFounder(
  tx: Tx,
  organization: Allowed<'create', OrganizationRow>,
  userId: string,
  roles: string[],
): Promise<void> {
  await tx`INSERT INTO organization_members (organization_id, user_id, roles)
    VALUES (${organization.id}, ${userId}, ${roles})`;
}

/** An organization in which the actor may delete members. */
export type RemovableMembers = Allowed<'delete', { type: 'organization_member'; organizationId: string }>;

/** Deletes a membership, and what workspaces of the organization were shared with the person. */
export async function deleteMember(tx: Tx, { organizationId }: RemovableMembers, userId: string): Promise<void> {
  await tx`DELETE FROM organization_members WHERE organization_id = ${organizationId} AND user_id = ${userId}`;
  // nobody would see these entries, which would apply again if the person came back
  await tx`UPDATE workspaces w SET user_acl = w.user_acl - ${userId}::text
    WHERE w.organization_id = ${organizationId} AND NOT w.deleted AND ${isShared(tx)} AND w.user_acl ? ${userId}`;
}

/** The ids of an organization's members. */
export async function memberIdsOf(db: Db, organizationId: string): Promise<string[]> {
  const rows = await db<{ user_id: string }[]>`SELECT user_id FROM organization_members
    WHERE organization_id = ${organizationId}`;
  return rows.map(({ user_id }) => user_id);
}

/** Deletes all members of an organization that is being deleted. Returns their user ids. */
export async function deleteMembersOf(tx: Tx, organization: Allowed<'delete', OrganizationRow>): Promise<string[]> {
  const rows = await tx<{ user_id: string }[]>`DELETE FROM organization_members
    WHERE organization_id = ${organization.id} RETURNING user_id`;
  return rows.map(({ user_id }) => user_id);
}

export async function setMemberRoles(
  tx: Tx,
  { organizationId }: Allowed<'assign', { type: 'assign_org_role'; organizationId: string }>,
  userId: string,
  roles: string[],
): Promise<MemberRow | undefined> {
  const [row] = await tx<MemberRow[]>`UPDATE organization_members SET roles = ${roles}, updated_at = now()
    WHERE organization_id = ${organizationId} AND user_id = ${userId} RETURNING *`;
  return row;
}
