import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { OrganizationRow } from '../rows.ts';

/** The default organization. The first start of a server creates it. */
export async function defaultOrganization(db: Db): Promise<OrganizationRow> {
  const [row] = await db<OrganizationRow[]>`SELECT * FROM organizations WHERE is_default`;
  return row!;
}

export async function defaultOrganizationId(db: Db): Promise<string> {
  const [row] = await db<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  return row!.id;
}

export async function organizationById(db: Db, id: string): Promise<OrganizationRow | undefined> {
  const [row] = await db<OrganizationRow[]>`SELECT * FROM organizations WHERE id = ${id} AND NOT deleted`;
  return row;
}

export async function organizationByName(db: Db, name: string): Promise<OrganizationRow | undefined> {
  const [row] = await db<
    OrganizationRow[]
  >`SELECT * FROM organizations WHERE lower(name) = lower(${name}) AND NOT deleted`;
  return row;
}

/** The default one first, the others by name. */
export async function allOrganizations(db: Db): Promise<OrganizationRow[]> {
  return db<OrganizationRow[]>`SELECT * FROM organizations WHERE NOT deleted ORDER BY is_default DESC, lower(name)`;
}

/** Organizations by id, also deleted ones: records name them for ever. */
export async function organizationsOfRecords(db: Db, ids: string[]): Promise<Map<string, OrganizationRow>> {
  const rows = await db<OrganizationRow[]>`SELECT * FROM organizations WHERE id = ANY (${ids}::text[]::uuid[])`;
  return new Map(rows.map((row) => [row.id, row]));
}

/** Creates the default organization if it does not exist. Several servers may try at the same time. */
export async function insertDefaultOrganization(db: Db, _by: SystemTask): Promise<void> {
  await db`INSERT INTO organizations (name, display_name, is_default) VALUES ('coder', 'Coder', true)
    ON CONFLICT DO NOTHING`;
}

export type OrganizationFields = Pick<OrganizationRow, 'name' | 'display_name' | 'description' | 'icon'>;
type ChangedFields = OrganizationFields & Pick<OrganizationRow, 'default_org_member_roles'>;

export async function insertOrganization(
  tx: Tx,
  _by: Allowed<'create', { type: 'organization' }>,
  { name, display_name, description, icon }: OrganizationFields,
): Promise<OrganizationRow> {
  const [row] = await tx<OrganizationRow[]>`INSERT INTO organizations (name, display_name, description, icon)
    VALUES (${name}, ${display_name}, ${description}, ${icon}) RETURNING *`;
  return row!;
}

/** The default roles of organizations, which do not change until the transaction ends. */
export async function holdDefaultRoles(tx: Tx, ids: string[]): Promise<{ id: string; roles: string[] }[]> {
  return tx<{ id: string; roles: string[] }[]>`SELECT id, default_org_member_roles AS roles FROM organizations
    WHERE id = ANY(${ids}::uuid[]) FOR SHARE`;
}

/** The default roles of an organization, which do not change until the transaction ends. */
export async function lockDefaultRoles(tx: Tx, id: string): Promise<string[]> {
  const [row] = await tx<{ roles: string[] }[]>`SELECT default_org_member_roles AS roles FROM organizations
    WHERE id = ${id} FOR UPDATE`;
  return row!.roles;
}

export async function updateOrganizationRow(
  tx: Tx,
  organization: Allowed<'update', OrganizationRow>,
  { name, display_name, description, icon, default_org_member_roles }: ChangedFields,
): Promise<OrganizationRow> {
  const [row] = await tx<OrganizationRow[]>`UPDATE organizations SET name = ${name}, display_name = ${display_name},
    description = ${description}, icon = ${icon}, default_org_member_roles = ${default_org_member_roles}, updated_at = now()
    WHERE id = ${organization.id} RETURNING *`;
  return row!;
}

/** The number of workspaces and templates that an organization still has. */
export async function contentsOf(db: Db, id: string): Promise<{ workspaces: number; templates: number }> {
  const [row] = await db<{ workspaces: number; templates: number }[]>`SELECT
    (SELECT count(*) FROM workspaces WHERE organization_id = ${id} AND NOT deleted) AS workspaces,
    (SELECT count(*) FROM templates WHERE organization_id = ${id} AND NOT deleted) AS templates`;
  return row!;
}

export async function markOrganizationDeleted(tx: Tx, organization: Allowed<'delete', OrganizationRow>): Promise<void> {
  await tx`UPDATE organizations SET deleted = true, updated_at = now() WHERE id = ${organization.id}`;
}
