import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { TemplateRow, UserRow } from '../rows.ts';

/** The existing people among these, by user name. */
export async function permittedUsers(db: Db, ids: string[]): Promise<(UserRow & { organization_ids: string[] })[]> {
  return db<(UserRow & { organization_ids: string[] })[]>`SELECT u.*,
      ARRAY(SELECT organization_id::text FROM organization_members m WHERE m.user_id = u.id) AS organization_ids
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
