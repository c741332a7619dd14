import type { AssignableRoles, CustomRoleRequest, Role as RoleAnswer } from '@ropewalk/contract';
import { PERMISSIONS } from '@ropewalk/contract/permissions';
import { AppError } from '@ropewalk/kit';
import { checkDisplayName, checkName } from '@ropewalk/rules';
import { holdsAll } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import {
  type Action,
  type Grants,
  grants,
  organizationRoles,
  type Resource,
  type Role,
  siteRoles,
} from '../../authz/policy.ts';
import { type Db, isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import {
  type CustomRoleRow,
  customRolesOf,
  deleteCustomRole,
  holdersOf,
  insertCustomRole,
  lockCustomRole,
  updateCustomRole,
} from '../../db/queries/custom-roles.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requireRoleRoom } from '../context/limits.ts';
import { findInOrganization } from '../find/organization.ts';
import { assignableRole, IMPLIED, permissionsOf } from '../user/roles.ts';

/** A custom role as the policy has it. */
export const toRole = ({ name, display_name, permissions }: CustomRoleRow): Role => ({
  name,
  displayName: display_name,
  org: permissions,
});

/** The roles that a member of an organization can have: built-in and custom ones. */
export async function rolesOfOrganization(db: Db, organizationId: string): Promise<Role[]> {
  const builtIn = Object.values(organizationRoles).filter(({ name }) => !IMPLIED.includes(name));
  return [...builtIn, ...(await customRolesOf(db, organizationId)).map(toRole)];
}

export async function listOrganizationRoles(ctx: Ctx, organization: string): Promise<AssignableRoles[]> {
  const { organizationId } = await findInOrganization(ctx, 'read', { type: 'assign_org_role' }, organization);
  return (await rolesOfOrganization(ctx.sql, organizationId)).map((role) => assignableRole(ctx, role, organizationId));
}

function toAnswer(row: CustomRoleRow): RoleAnswer {
  return {
    name: row.name,
    display_name: row.display_name,
    organization_id: row.organization_id,
    organization_permissions: permissionsOf(row.permissions),
    organization_member_permissions: [],
    site_permissions: [],
    user_permissions: [],
  };
}

const invalid = (field: string, detail: string) =>
  new AppError('invalid', 'Invalid role.', { validations: [{ field, detail }] });

/** The permissions of a request by resource type. A role grants: it can neither take away nor grant what comes later. */
function grantsOf(list: NonNullable<CustomRoleRequest['organization_permissions']>): Grants {
  const field = 'organization_permissions';
  const found: Partial<Record<Resource, Action[]>> = {};
  for (const { resource_type: type, action, negate } of list) {
    if (negate) throw invalid(field, 'a custom role cannot take permissions away: leave them out instead');
    if (type === '*') throw invalid(field, 'name each type of resource instead of "*"');
    if (!(PERMISSIONS[type] as readonly Action[]).includes(action)) {
      throw invalid(field, `"${action}" is not an action of "${type}"`);
    }
    found[type] = [...new Set([...(found[type] ?? []), action])];
  }
  return found;
}

function checkRequest(input: CustomRoleRequest): Grants {
  if (Object.hasOwn(siteRoles, input.name) || Object.hasOwn(organizationRoles, input.name)) {
    throw invalid('name', `"${input.name}" is a built-in role`);
  }
  checkName('name', input.name);
  checkDisplayName('display_name', input.display_name ?? '');
  for (const field of ['site_permissions', 'user_permissions', 'organization_member_permissions'] as const) {
    if ((input[field]?.length ?? 0) > 0)
      throw invalid(field, 'a role of an organization cannot have these permissions');
  }
  return grantsOf(input.organization_permissions ?? []);
}

/** Rejects permissions that the actor does not have. */
function checkHeld(ctx: Ctx, organizationId: string, wanted: Grants, had: Grants = {}): void {
  for (const [type, actions] of Object.entries(wanted) as [Resource, Action[]][]) {
    const missing = actions.find(
      (action) => !grants(had, action, type) && !holdsAll(ctx.actor, { org: { [type]: [action] } }, organizationId),
    );
    if (missing === undefined) continue;
    throw new AppError('forbidden', 'You cannot grant permissions that you do not have.', {
      detail: `You may not ${missing.replaceAll('_', ' ')} every ${type.replaceAll('_', ' ')} of this organization.`,
    });
  }
}

const entry = (row: CustomRoleRow, action: string) => ({
  resourceType: 'custom_role',
  resourceId: row.id,
  target: row.name,
  organizationId: row.organization_id,
  action,
});

export async function createRole(ctx: Ctx, organization: string, input: CustomRoleRequest): Promise<RoleAnswer> {
  const place = await findInOrganization(ctx, 'create', { type: 'assign_org_role' }, organization);
  const permissions = checkRequest(input);
  checkHeld(ctx, place.organizationId, permissions);
  try {
    return await ctx.sql.begin(async (tx) => {
      const { name, display_name = '' } = input;
      await requireRoleRoom(tx, place.organizationId);
      const row = await insertCustomRole(tx, place, { name, display_name, permissions });
      await audit(ctx, tx, { ...entry(row, 'create'), after: row });
      return toAnswer(row);
    });
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `A role with name "${input.name}" already exists in this organization.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
}

/** Replaces the permissions and the display name of a role. Its members have the new permissions immediately. */
export async function updateRole(ctx: Ctx, organization: string, input: CustomRoleRequest): Promise<RoleAnswer> {
  const place = await findInOrganization(ctx, 'update', { type: 'assign_org_role' }, organization);
  const permissions = checkRequest(input);
  return ctx.sql.begin(async (tx) => {
    const old = await lockCustomRole(tx, place.organizationId, input.name);
    if (!old) throw notFound();
    checkHeld(ctx, place.organizationId, permissions, old.permissions);
    const row = await updateCustomRole(tx, place, old.id, { display_name: input.display_name ?? '', permissions });
    if (!row) throw notFound();
    await audit(ctx, tx, { ...entry(row, 'write'), before: old, after: row });
    const holders = await holdersOf(tx, place.organizationId, row.name);
    if (holders.length > 0) await ctx.events.publish(tx, 'revoked', { user_ids: holders });
    return toAnswer(row);
  });
}

export async function deleteRole(ctx: Ctx, organization: string, name: string): Promise<undefined> {
  const place = await findInOrganization(ctx, 'delete', { type: 'assign_org_role' }, organization);
  await ctx.sql.begin(async (tx) => {
    const role = await lockCustomRole(tx, place.organizationId, name);
    if (!role) throw notFound();
    const holders = await deleteCustomRole(tx, place, role);
    await audit(ctx, tx, { ...entry(role, 'delete'), before: role });
    if (holders.length > 0) await ctx.events.publish(tx, 'revoked', { user_ids: holders });
  });
}
