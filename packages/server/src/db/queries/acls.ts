import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { OrganizationRow, TemplateRow, UserRow, WorkspaceRow } from '../rows.ts';
import { isShared } from './workspaces.ts';

/** The existing people among these, by user name. */
export async function permittedUsers(db: Db, ids: string[]): Promise<(UserRow & { organization_ids: string[] })[]> {
  return db<(UserRow & { organization_ids: string[] })[]>`SELECT u.*,
      ARRAY(SELECT m.organization_id::text FROM organization_members m JOIN organizations o ON o.id = m.organization_id
        WHERE m.user_id = u.id ORDER BY o.is_default DESC, m.created_at, o.id) AS organization_ids
    FROM users u WHERE u.id = ANY(${ids}::uuid[]) AND NOT u.deleted ORDER BY lower(u.username)`;
}

/** The people and groups among these ids that an organization has. */
export async function knownIn(
  db: Db,
  organizationId: string,
  ids: { users: string[]; groups: string[] },
): Promise<{ users: string[]; groups: string[] }> {
  const [row] = await db<{ users: string[]; groups: string[] }[]>`SELECT
    ARRAY(SELECT user_id::text FROM organization_members
      WHERE organization_id = ${organizationId} AND user_id = ANY(${ids.users}::uuid[])) AS users,
    ARRAY(SELECT id::text FROM groups
      WHERE organization_id = ${organizationId} AND id = ANY(${ids.groups}::uuid[])) AS groups`;
  return row!;
}

export interface AclChange {
  set: Record<string, string>;
  remove: string[];
}

/** Changes these entries of a template's permissions and leaves the others. */
export async function updateTemplateAcl(
  tx: Tx,
  template: Allowed<'update', TemplateRow>,
  { users, groups }: { users: AclChange; groups: AclChange },
): Promise<void> {
  await tx`UPDATE templates SET
      user_acl = (user_acl || ${tx.json(users.set)}::jsonb) - ${users.remove}::text[],
      group_acl = (group_acl || ${tx.json(groups.set)}::jsonb) - ${groups.remove}::text[],
      updated_at = now()
    WHERE id = ${template.id}`;
}

/** Whose workspaces can be shared in a workspace's organization, and whether a service account owns this one. */
export async function sharingOf(
  db: Db,
  { owner_id: ownerId, organization_id: organizationId }: Pick<WorkspaceRow, 'owner_id' | 'organization_id'>,
): Promise<Pick<OrganizationRow, 'shareable_workspace_owners'> & { of_service_account: boolean }> {
  const [row] = await db<(Pick<OrganizationRow, 'shareable_workspace_owners'> & { of_service_account: boolean })[]>`
    SELECT shareable_workspace_owners,
      EXISTS (SELECT FROM users u WHERE u.id = ${ownerId} AND NOT u.deleted AND u.is_service_account) AS of_service_account
    FROM organizations WHERE id = ${organizationId}`;
  return row!;
}

/** Whose workspaces can be shared in a workspace's organization. A change of the setting waits for the transaction. */
export async function lockShareableOwners(
  tx: Tx,
  workspace: Allowed<'share', WorkspaceRow>,
): Promise<Pick<OrganizationRow, 'shareable_workspace_owners'>> {
  const [row] = await tx<Pick<OrganizationRow, 'shareable_workspace_owners'>[]>`
    SELECT shareable_workspace_owners FROM organizations WHERE id = ${workspace.organization_id} FOR SHARE`;
  return row!;
}

/** Changes these entries of a workspace's lists and leaves the others. Returns the number of entries. */
export async function updateWorkspaceAcl(
  tx: Tx,
  workspace: Allowed<'share', WorkspaceRow>,
  { users, groups }: { users: AclChange; groups: AclChange },
): Promise<number> {
  const [row] = await tx<Pick<WorkspaceRow, 'user_acl' | 'group_acl'>[]>`UPDATE workspaces SET
      user_acl = (user_acl || ${tx.json(users.set)}::jsonb) - ${users.remove}::text[],
      group_acl = (group_acl || ${tx.json(groups.set)}::jsonb) - ${groups.remove}::text[],
      updated_at = now()
    WHERE id = ${workspace.id} RETURNING user_acl, group_acl`;
  return Object.keys(row!.user_acl).length + Object.keys(row!.group_acl).length;
}

/** Empties a workspace's lists. */
export async function clearWorkspaceAcl(tx: Tx, workspace: Allowed<'share', WorkspaceRow>): Promise<void> {
  await tx`UPDATE workspaces SET user_acl = '{}', group_acl = '{}', updated_at = now() WHERE id = ${workspace.id}`;
}

/** Whose lists were emptied, as they were before. */
export type ClearedWorkspace = Pick<WorkspaceRow, 'id' | 'owner_id' | 'user_acl' | 'group_acl'>;

/** Stores whose workspaces can be shared. The people that others are shared with lose them. */
export async function setShareableOwners(
  tx: Tx,
  organization: Allowed<'update', OrganizationRow>,
  owners: OrganizationRow['shareable_workspace_owners'],
): Promise<{ row: OrganizationRow; cleared: ClearedWorkspace[] }> {
  const [row] = await tx<OrganizationRow[]>`UPDATE organizations SET shareable_workspace_owners = ${owners},
    updated_at = now() WHERE id = ${organization.id} RETURNING *`;
  const cleared =
    owners === 'everyone'
      ? []
      : await tx<ClearedWorkspace[]>`WITH before AS (
          SELECT w.id, w.owner_id, w.user_acl, w.group_acl FROM workspaces w
          WHERE w.organization_id = ${organization.id} AND ${isShared(tx)}
            AND NOT (${owners === 'service_accounts'} AND w.owner_id IN (SELECT id FROM users WHERE is_service_account))
          ORDER BY w.id FOR UPDATE
        ), cleared AS (
          UPDATE workspaces w SET user_acl = '{}', group_acl = '{}' FROM before WHERE w.id = before.id
        ) SELECT * FROM before`;
  return { row: row!, cleared: [...cleared] };
}

/** The people and groups of an organization among these ids, as a list of an object shows them. */
export async function namesInAcls(db: Db, ids: { users: string[]; groups: string[] }): Promise<ListedName[]> {
  return db<ListedName[]>`
    SELECT m.organization_id, u.id, 'user' AS type, coalesce(nullif(u.name, ''), u.username) AS name, u.avatar_url
    FROM users u JOIN organization_members m ON m.user_id = u.id
    WHERE u.id = ANY(${ids.users}::text[]::uuid[]) AND NOT u.deleted
    UNION ALL
    SELECT organization_id, id, 'group', name, avatar_url FROM groups WHERE id = ANY(${ids.groups}::text[]::uuid[])
    ORDER BY type DESC, name`;
}

export interface ListedName {
  organization_id: string;
  id: string;
  type: 'user' | 'group';
  name: string;
  avatar_url: string;
}

/** Members of an organization by user name, filtered by a LIKE pattern. */
export async function membersToPermit(
  db: Db,
  organizationId: string,
  { text, limit, offset }: { text: string | undefined; limit: number; offset: number },
): Promise<UserRow[]> {
  return db<UserRow[]>`SELECT u.* FROM organization_members m JOIN users u ON u.id = m.user_id
    WHERE m.organization_id = ${organizationId} AND NOT u.deleted AND NOT u.is_system
      ${text ? db`AND (u.username ILIKE ${text} OR u.email ILIKE ${text} OR u.name ILIKE ${text})` : db``}
    ORDER BY lower(u.username) LIMIT ${limit} OFFSET ${offset}`;
}
