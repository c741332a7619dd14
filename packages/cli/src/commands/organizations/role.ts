import type { AssignableRoles, CustomRoleRequest, Permission, Role } from '@ropewalk/contract';
import { PERMISSIONS } from '@ropewalk/contract/permissions';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';
import type { Columns } from '../../lib/output.ts';
import { ask } from '../../lib/prompt.ts';

const count = (list: readonly unknown[]) => `${list.length} permissions`;

export const roleColumns = {
  name: (one) => one.name,
  'display name': (one) => one.display_name,
  'organization id': (one) => one.organization_id ?? '',
  'site permissions': (one) => count(one.site_permissions),
  'organization permissions': (one) => count(one.organization_permissions),
  'user permissions': (one) => count(one.user_permissions),
} satisfies Columns<Role | AssignableRoles>;

export const roleColumnNames = Object.keys(roleColumns) as (keyof typeof roleColumns)[];
export const defaultRoleColumns = roleColumnNames.filter((name) => name !== 'organization id');

/** The flags of commands that write a role. */
export const roleFlags = {
  'display-name': { type: 'string', description: 'Name to display instead of the name.' },
  permissions: {
    type: 'string[]',
    description:
      'All permissions of the role as resource:action, separated by commas, such as "template:read,workspace:stop". ' +
      'For all actions of a resource, use resource:*.',
  },
  stdin: { type: 'bool', description: 'Read the role as JSON from standard input, as "roles show -o json" prints it.' },
  'dry-run': { type: 'bool', description: 'Print the changes without making them.' },
} as const;

/** Parses `resource:action` texts. @throws AppError `invalid` */
export function parsePermissions(texts: readonly string[]): Permission[] {
  return texts.flatMap((text) => {
    const [type = '', action = '', ...rest] = text.trim().split(':');
    if (!Object.hasOwn(PERMISSIONS, type)) {
      throw new AppError(
        'invalid',
        `Unknown resource in ${JSON.stringify(text)}. Available: ${Object.keys(PERMISSIONS).join(', ')}.`,
      );
    }
    const resource_type = type as keyof typeof PERMISSIONS;
    const known: readonly string[] = PERMISSIONS[resource_type];
    if (rest.length > 0 || (action !== '*' && !known.includes(action))) {
      throw new AppError(
        'invalid',
        `Unknown action in ${JSON.stringify(text)}. Actions of ${type}: ${known.join(', ')}, *.`,
      );
    }
    const actions = action === '*' ? known : [action];
    return actions.map((each) => ({ resource_type, action: each as Permission['action'], negate: false }));
  });
}

const JSON_HELP =
  'Send one role as JSON, such as {"name": "…", "organization_permissions": [{"resource_type": "template", ' +
  '"action": "read"}]}.';

/** A request that says of each permission whether it grants. */
export type WrittenRole = CustomRoleRequest &
  Partial<
    Pick<Role, 'organization_member_permissions' | 'organization_permissions' | 'site_permissions' | 'user_permissions'>
  >;

/** Parses a role from standard input. The only entry of a list counts as the role. */
export function parseRole(text: string): WrittenRole {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (err) {
    throw new AppError('invalid', `Standard input is not valid JSON: ${(err as Error).message}. ${JSON_HELP}`);
  }
  if (Array.isArray(value) && value.length > 1) {
    throw new AppError('invalid', `Standard input has ${value.length} roles. ${JSON_HELP}`);
  }
  const role = (Array.isArray(value) ? value[0] : value) as Partial<CustomRoleRequest> | null | undefined;
  if (typeof role !== 'object' || role === null || typeof role.name !== 'string') {
    throw new AppError('invalid', `Standard input is not a role. ${JSON_HELP}`);
  }
  const permissions = (list: CustomRoleRequest['site_permissions']) =>
    (list ?? []).map(({ resource_type, action, negate = false }) => ({ resource_type, action, negate }));
  return {
    name: role.name,
    display_name: role.display_name ?? '',
    organization_member_permissions: permissions(role.organization_member_permissions),
    organization_permissions: permissions(role.organization_permissions),
    site_permissions: permissions(role.site_permissions),
    user_permissions: permissions(role.user_permissions),
  };
}

interface RoleFlags {
  'display-name': string;
  permissions: string[];
  stdin: boolean;
}

/** The role that the flags describe. Without any, asks for the permissions. `old` is the role as it is. */
export async function roleFromFlags(ctx: Context, name: string, flags: RoleFlags, old?: Role): Promise<WrittenRole> {
  if (flags.stdin) {
    let text = '';
    for await (const part of ctx.io.stdin) text += String(part);
    const role = parseRole(text);
    if (role.name.toLowerCase() === name.toLowerCase()) return role;
    throw new AppError('invalid', `The role in standard input is "${role.name}", not "${name}".`);
  }
  const display_name = ctx.isSet('display-name') ? flags['display-name'] : (old?.display_name ?? '');
  const same = old && ctx.isSet('display-name') && !ctx.isSet('permissions');
  if (same) return { name: old.name, display_name, organization_permissions: old.organization_permissions };
  const texts = ctx.isSet('permissions') ? flags.permissions : await askPermissions(ctx, old);
  return { name: old?.name ?? name, display_name, organization_permissions: parsePermissions(texts) };
}

const asText = (list: readonly Permission[]) => list.map((one) => `${one.resource_type}:${one.action}`).join(',');
const split = (text: string) => text.split(',').filter((part) => part.trim() !== '');

async function askPermissions(ctx: Context, old: Role | undefined): Promise<string[]> {
  const answer = await ask(ctx, {
    text: 'Permissions, as resource:action separated by commas',
    instead: 'set --permissions or --stdin',
    fallback: asText(old?.organization_permissions ?? []),
    check: (text) => {
      try {
        parsePermissions(split(text));
        return undefined;
      } catch (err) {
        return (err as Error).message;
      }
    },
  });
  return split(answer);
}
