import type { AssignableRoles, Permission, UpdateRoles, User, UserRoles } from '@ropewalk/contract';
import { PERMISSIONS } from '@ropewalk/contract/permissions';
import { AppError } from '@ropewalk/kit';
import { allow, authorize, mayAssign } from '../../authz/authorize.ts';
import { type Action, type Grants, organizationRoles, type Role, siteRoles } from '../../authz/policy.ts';
import type { Tx } from '../../db/connect.ts';
import { holdDefaultRoles } from '../../db/queries/organizations.ts';
import { setSiteRoles } from '../../db/queries/users.ts';
import type { Ctx } from '../context/context.ts';
import { findUser, requirePerson } from '../find/user.ts';
import { changeUser } from './change.ts';
import { visibleOrganizations } from './convert.ts';

/** A role's grants as upstream's list. All types of resources stay one entry. */
export function permissionsOf(table: Grants | undefined, negate = false): Permission[] {
  const entries = Object.entries(table ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.flatMap(([type, actions]) =>
    (actions === '*' ? ALL_ACTIONS : (actions as readonly Action[])).map((action) => ({
      action,
      negate,
      resource_type: type as Permission['resource_type'],
    })),
  );
}
const ALL_ACTIONS = [...new Set(Object.values(PERMISSIONS).flat())].sort();

export function assignableRole(ctx: Ctx, role: Role, organizationId?: string): AssignableRoles {
  return {
    name: role.name,
    display_name: role.displayName,
    ...(organizationId ? { organization_id: organizationId } : {}),
    built_in: Object.hasOwn(organizationId ? organizationRoles : siteRoles, role.name),
    assignable: mayAssign(ctx.actor, role, organizationId),
    site_permissions: permissionsOf(role.site),
    organization_permissions: [...permissionsOf(role.org), ...permissionsOf(role.deny, true)],
    organization_member_permissions: permissionsOf(organizationId ? role.user : undefined),
    user_permissions: permissionsOf(organizationId ? undefined : role.user),
  };
}

/** Names of the roles that everyone has. Accepted but not stored. */
export const IMPLIED = ['member', 'organization-member'];

const assignableSiteRoles = Object.values(siteRoles).filter(({ name }) => !IMPLIED.includes(name));

export function siteRolesFor(ctx: Ctx): AssignableRoles[] {
  authorize(ctx, 'read', { type: 'assign_role' });
  return assignableSiteRoles.map((role) => assignableRole(ctx, role));
}

/**
 * The roles to store out of the requested ones. Rejects unknown roles and roles that the actor may not assign or
 * remove. A role that the person had and that does not exist any more is dropped.
 */
export function checkRoles(
  ctx: Ctx,
  {
    asked,
    had,
    known,
    organizationId,
  }: { asked: string[]; had: string[]; known: readonly Role[]; organizationId?: string },
): string[] {
  const byName = new Map(known.map((role) => [role.name, role]));
  const roles = [...new Set(asked)].filter((name) => !IMPLIED.includes(name));
  const unknown = roles.find((name) => !byName.has(name));
  if (unknown !== undefined) {
    const detail = `${JSON.stringify(unknown)} is not ${organizationId ? 'an organization' : 'a site'} role`;
    throw new AppError('invalid', 'One or more roles do not exist.', {
      detail,
      validations: [{ field: 'roles', detail }],
    });
  }
  const removed = had.filter((name) => byName.has(name) && !roles.includes(name));
  const changed = [...roles.filter((name) => !had.includes(name)), ...removed];
  const above = changed.find((name) => !mayAssign(ctx.actor, byName.get(name), organizationId));
  if (above !== undefined) {
    throw new AppError('forbidden', 'Forbidden.', { detail: `You may not assign or remove the role "${above}".` });
  }
  return roles;
}

/**
 * Rejects a new member by an actor who may not assign the roles that the organizations give to all members. The role of the
 * initial setting is part of every membership.
 */
export async function requireDefaultRoles(ctx: Ctx, tx: Tx, organizationIds: string[]): Promise<void> {
  for (const { id, roles } of await holdDefaultRoles(tx, organizationIds)) {
    const above = roles.find(
      (name) => name !== 'organization-workspace-access' && !mayAssign(ctx.actor, organizationRoles[name], id),
    );
    if (above === undefined) continue;
    throw new AppError('forbidden', 'Forbidden.', {
      detail: `All members of this organization have the role "${above}", which you may not assign.`,
    });
  }
}

/** The roles of the site that a new account gets. @throws AppError `forbidden` for one that the actor may not assign */
export function rolesOfNew(ctx: Ctx, asked: string[]): string[] {
  authorize(ctx, 'assign', { type: 'assign_role' });
  return checkRoles(ctx, { asked, had: [], known: assignableSiteRoles });
}

export async function getUserRoles(ctx: Ctx, user: string): Promise<UserRoles> {
  const found = await findUser(ctx, 'read', user);
  return { roles: found.rbac_roles, organization_roles: visibleOrganizations(ctx, found) };
}

export async function updateUserRoles(ctx: Ctx, name: string, input: UpdateRoles): Promise<User> {
  const user = await findUser(ctx, 'read', name);
  requirePerson(user);
  const assignee = allow(ctx, 'assign', user, { type: 'assign_role' });
  if (ctx.actor.kind === 'user' && ctx.actor.id === user.id) {
    throw new AppError('invalid', 'You cannot change your own roles.');
  }
  const roles = checkRoles(ctx, { asked: input.roles ?? [], had: user.rbac_roles, known: assignableSiteRoles });
  return changeUser(ctx, {
    user: assignee,
    action: 'write',
    losesOwner: !roles.includes('owner'),
    fields: { roles },
    write: (tx, person) => setSiteRoles(tx, person, roles),
  });
}
