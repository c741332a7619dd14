import type { Allowed } from '../../authz/authorize.ts';
import type { Role } from '../../authz/policy.ts';
import type { Db, Tx } from '../connect.ts';
import type { OrganizationRow } from '../rows.ts';

/** A role `r` of the table as the policy has it, in JSON. */
export const CUSTOM_ROLE = (db: Db) =>
  db`jsonb_build_object('name', r.name, 'displayName', r.display_name, 'org', r.permissions)`;

export interface CustomRoleRow {
  id: string;
  organization_id: string;
  name: string;
  display_name: string;
  permissions: NonNullable<Role['org']>;
}

const COLUMNS = (db: Db) => db`id, organization_id, name, display_name, permissions`;

/** An organization's roles, by name. */
export async function customRolesOf(db: Db, organizationId: string): Promise<CustomRoleRow[]> {
  return db<CustomRoleRow[]>`SELECT ${COLUMNS(db)} FROM custom_roles
    WHERE organization_id = ${organizationId} ORDER BY lower(name)`;
}

/** Reads a role and prevents other changes of it until the transaction ends. */
export async function lockCustomRole(tx: Tx, organizationId: string, name: string): Promise<CustomRoleRow | undefined> {
  const [row] = await tx<CustomRoleRow[]>`SELECT ${COLUMNS(tx)} FROM custom_roles
    WHERE organization_id = ${organizationId} AND lower(name) = lower(${name}) FOR UPDATE`;
  return row;
}

/** Prevents the deletion of these roles until the transaction ends. Returns the names of those that exist. */
export async function holdCustomRoles(tx: Tx, organizationId: string, names: string[]): Promise<string[]> {
  const rows = await tx<{ name: string }[]>`SELECT name FROM custom_roles
    WHERE organization_id = ${organizationId} AND name = ANY(${names}) FOR SHARE`;
  return rows.map(({ name }) => name);
}

export type CustomRoleFields = Pick<CustomRoleRow, 'name' | 'display_name' | 'permissions'>;

/** Proof that the actor may do this to custom roles of an organization. */
export type RolePlace<A extends 'create' | 'update' | 'delete'> = Allowed<
  A,
  { type: 'assign_org_role'; organizationId: string }
>;

/** Creates a role, which nobody has yet. */
export async function insertCustomRole(
  tx: Tx,
  { organizationId }: RolePlace<'create'>,
  { name, display_name, permissions }: CustomRoleFields,
): Promise<CustomRoleRow> {
  const [row] = await tx<CustomRoleRow[]>`INSERT INTO custom_roles (organization_id, name, display_name, permissions)
    VALUES (${organizationId}, ${name}, ${display_name}, ${tx.json(permissions)}) RETURNING ${COLUMNS(tx)}`;
  await takeRole(tx, organizationId, name);
  return row!;
}

export async function updateCustomRole(
  tx: Tx,
  _by: RolePlace<'update'>,
  id: string,
  { display_name, permissions }: Omit<CustomRoleFields, 'name'>,
): Promise<CustomRoleRow | undefined> {
  const [row] = await tx<CustomRoleRow[]>`UPDATE custom_roles SET display_name = ${display_name},
    permissions = ${tx.json(permissions)}, updated_at = now() WHERE id = ${id} RETURNING ${COLUMNS(tx)}`;
  return row;
}

/** Deletes a role and takes it from its members. Returns their user ids. */
export async function deleteCustomRole(
  tx: Tx,
  { organizationId }: RolePlace<'delete'>,
  role: CustomRoleRow,
): Promise<string[]> {
  await tx`DELETE FROM custom_roles WHERE id = ${role.id}`;
  return takeRole(tx, organizationId, role.name);
}

async function takeRole(tx: Tx, organizationId: string, name: string): Promise<string[]> {
  const rows = await tx<{ user_id: string }[]>`UPDATE organization_members SET roles = array_remove(roles, ${name})
    WHERE organization_id = ${organizationId} AND ${name} = ANY(roles) RETURNING user_id`;
  return rows.map(({ user_id }) => user_id);
}

/** The ids of the members who have a role. */
export async function holdersOf(db: Db, organizationId: string, name: string): Promise<string[]> {
  const rows = await db<{ user_id: string }[]>`SELECT user_id FROM organization_members
    WHERE organization_id = ${organizationId} AND ${name} = ANY(roles)`;
  return rows.map(({ user_id }) => user_id);
}

/** Deletes all custom roles of an organization that is being deleted. */
export async function deleteCustomRolesOf(tx: Tx, organization: Allowed<'delete', OrganizationRow>): Promise<void> {
  await tx`DELETE FROM custom_roles WHERE organization_id = ${organization.id}`;
}
