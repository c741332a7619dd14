import type { AssignableRoles, Permission, UpdateRoles, User, UserRoles } from '@platform/contract';
import { AppError } from '@platform/kit';
import { allow, authorize, mayAssign } from '../../authz/authorize.ts';
import { ACTIONS, type Action, type Grants, organizationRoles, type Role, siteRoles } from '../../authz/policy.ts';
import { setSiteRoles } from '../../db/queries/users.ts';
import type { Ctx } from '../context.ts';
import { findInOrganization } from '../organization/find.ts';
import { changeUser } from './change.ts';
import { findUser } from './find.ts';

/** A role's grants as upstream's list. "Everything" stays one entry instead of one per resource. */
function permissions(table: Grants | undefined, negate = false): Permission[] {
  return Object.entries(table ?? {}).flatMap(([type, actions]) =>
    (actions === '*' ? ACTIONS : (actions as readonly Action[])).map((action) => ({
      action,
      negate,
      resource_type: type as Permission['resource_type'],
    })),
  );
}

function assignable(ctx: Ctx, role: Role, organizationId?: string): AssignableRoles {
  return {
    name: role.name,
    display_name: role.displayName,
    ...(organizationId ? { organization_id: organizationId } : {}),
    built_in: true,
    assignable: mayAssign(ctx.actor, role.name, organizationId),
    site_permissions: permissions(role.site),
    organization_permissions: [...permissions(role.org), ...permissions(role.deny, true)],
    user_permissions: permissions(role.user),
  };
}

/** Names of the roles that everyone has. Accepted but not stored. */
const IMPLIED = ['member', 'organization-member'];

export function siteRolesFor(ctx: Ctx): AssignableRoles[] {
  authorize(ctx, 'read', { type: 'assign_role' });
  return Object.values(siteRoles)
    .filter(({ name }) => !IMPLIED.includes(name))
    .map((role) => assignable(ctx, role));
}

export async function organizationRolesFor(ctx: Ctx, organization: string): Promise<AssignableRoles[]> {
  const { organizationId } = await findInOrganization(ctx, 'read', { type: 'assign_org_role' }, organization);
  return Object.values(organizationRoles)
    .filter(({ name }) => !IMPLIED.includes(name))
    .map((role) => assignable(ctx, role, organizationId));
}

/**
 * The roles to store out of the requested ones. Rejects unknown roles and roles that the actor may not assign or
 * remove.
 */
export function checkRoles(ctx: Ctx, asked: string[], had: string[], organizationId?: string): string[] {
  const known = organizationId ? organizationRoles : siteRoles;
  const roles = [...new Set(asked)].filter((name) => !IMPLIED.includes(name));
  const unknown = roles.find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) {
    const detail = `${JSON.stringify(unknown)} is not ${organizationId ? 'an organization' : 'a site'} role`;
    throw new AppError('invalid', 'One or more roles do not exist.', {
      detail,
      validations: [{ field: 'roles', detail }],
    });
  }
  const changed = [...roles.filter((name) => !had.includes(name)), ...had.filter((name) => !roles.includes(name))];
  const above = changed.find((name) => !mayAssign(ctx.actor, name, organizationId));
  if (above !== undefined) {
    throw new AppError('forbidden', 'Forbidden.', { detail: `You may not assign or remove the role "${above}".` });
  }
  return roles;
}

export async function getUserRoles(ctx: Ctx, user: string): Promise<UserRoles> {
  const { rbac_roles, organizations } = await findUser(ctx, 'read', user);
  return { roles: rbac_roles, organization_roles: organizations };
}

export async function updateUserRoles(ctx: Ctx, name: string, input: UpdateRoles): Promise<User> {
  const user = await findUser(ctx, 'read', name);
  const assignee = allow(ctx, 'assign', user, { type: 'assign_role' });
  if (ctx.actor.kind === 'user' && ctx.actor.id === user.id) {
    throw new AppError('invalid', 'You cannot change your own roles.');
  }
  const roles = checkRoles(ctx, input.roles ?? [], user.rbac_roles);
  return changeUser(ctx, {
    user: assignee,
    action: 'write',
    losesOwner: !roles.includes('owner'),
    fields: { roles },
    write: (tx, person) => setSiteRoles(tx, person, roles),
  });
}
