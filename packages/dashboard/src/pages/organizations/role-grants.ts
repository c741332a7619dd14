import type { AssignableRoles, Permission } from '@ropewalk/contract';
import { ORGANIZATION_RESOURCES, PERMISSIONS, type PermissionResource } from '@ropewalk/contract/permissions';

/** `resource:action` */
export type Grant = string;

export const grantOf = (resource: string, action: string): Grant => `${resource}:${action}`;

/** What a role grants. The entries of one type of resource replace those for all types. */
export function grantsOf(list: readonly Permission[]): Set<Grant> {
  const given = list.filter(({ negate }) => !negate);
  const own = new Set(given.map(({ resource_type }) => resource_type));
  return new Set(
    given.flatMap(({ resource_type: type, action }) => {
      const types =
        type === '*' ? (Object.keys(PERMISSIONS) as PermissionResource[]).filter((one) => !own.has(one)) : [type];
      return types
        .filter((one) => (PERMISSIONS[one] as readonly string[]).includes(action))
        .map((one) => grantOf(one, action));
    }),
  );
}

export const permissionsOf = (grants: ReadonlySet<Grant>): Permission[] =>
  [...grants].map((grant) => {
    const [resource_type, action] = grant.split(':');
    return { resource_type, action, negate: false } as Permission;
  });

/** The rows of the matrix: resources of organizations, and whatever else the role already grants. */
export function rowsOf(grants: ReadonlySet<Grant>): PermissionResource[] {
  const others = [...grants].map((grant) => grant.split(':')[0] as PermissionResource);
  return [...new Set([...ORGANIZATION_RESOURCES, ...others])];
}

/** What a list shows of a role. */
export function summaryOf(role: AssignableRoles): string {
  const grants = grantsOf(role.organization_permissions);
  const denied = role.organization_permissions.filter(({ negate }) => negate).length;
  if (denied > 0) return `Denies ${denied === 1 ? '1 permission' : `${denied} permissions`}`;
  const shown = [...grants].filter((grant) =>
    (ORGANIZATION_RESOURCES as readonly string[]).includes(grant.split(':')[0]!),
  );
  const count = (permissions: number) => (permissions === 1 ? '1 permission' : `${permissions} permissions`);
  const own = role.organization_member_permissions.length;
  return shown.length === 0 && own > 0 ? `${count(own)} for own resources` : count(shown.length);
}
