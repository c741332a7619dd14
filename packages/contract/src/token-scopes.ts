// The scopes that a token can have, and the objects that its allow list can name. Names and permissions are upstream's,
// without the types of objects that this server does not have. A token may do what its owner may do, what one of its
// scopes grants, and only to objects in its allow list.

import { PERMISSIONS, type PermissionAction, type PermissionResource } from './permissions.ts';

/** What a scope grants: actions by type of object. `*` stands for every type and for every action. */
export type ScopeGrants = Partial<Record<PermissionResource | '*', readonly PermissionAction[] | '*'>>;

/** The entry of an allow list that stands for every object. */
export const ALLOW_ALL = '*:*';

/** The maximum number of scopes of a token. */
export const MAX_SCOPES = 128;

/** The maximum number of entries of an allow list. */
export const MAX_ALLOW_LIST = 128;

const composite = {
  'coder:all': { '*': '*' },
  'coder:application_connect': { workspace: ['application_connect'] },
  'coder:workspaces.create': {
    template: ['read', 'use'],
    workspace: ['create', 'read', 'update', 'start', 'stop'],
    organization_member: ['read'],
  },
  'coder:workspaces.operate': {
    template: ['read'],
    workspace: ['read', 'update', 'start', 'stop'],
    organization_member: ['read'],
  },
  'coder:workspaces.delete': {
    template: ['read', 'use'],
    workspace: ['read', 'delete'],
    organization_member: ['read'],
  },
  'coder:workspaces.access': {
    template: ['read'],
    workspace: ['read', 'ssh', 'application_connect'],
    organization_member: ['read'],
  },
  'coder:templates.build': { template: ['read'], file: ['create', 'read'], provisioner_jobs: ['read'] },
  'coder:templates.author': {
    template: ['read', 'create', 'update', 'delete', 'view_insights'],
    file: ['create', 'read'],
  },
  'coder:apikeys.manage_self': { api_key: ['read', 'create', 'update', 'delete'] },
} as const satisfies Record<string, ScopeGrants>;

const single = {
  api_key: ['read', 'create', 'update', 'delete', '*'],
  file: ['read', 'create', '*'],
  organization: ['read', 'update', 'delete', '*'],
  template: ['read', 'create', 'update', 'delete', 'use', '*'],
  user: ['read', 'read_personal', 'update_personal', '*'],
  user_secret: ['read', 'create', 'update', 'delete', '*'],
  workspace: ['read', 'create', 'update', 'delete', 'ssh', 'start', 'stop', 'application_connect', '*'],
} as const satisfies Partial<Record<PermissionResource, readonly (PermissionAction | '*')[]>>;

const singles: [string, ScopeGrants][] = Object.entries(single).flatMap(([type, actions]) =>
  actions.map((action): [string, ScopeGrants] => [
    `${type}:${action}`,
    { [type]: action === '*' ? '*' : [action as PermissionAction] },
  ]),
);

/** What each scope grants, by name, in the order of the names. */
export const TOKEN_SCOPES: ReadonlyMap<string, ScopeGrants> = new Map<string, ScopeGrants>(
  [...Object.entries(composite), ...singles].sort(([a], [b]) => (a < b ? -1 : 1)),
);

/** The stored name of a scope. Older clients send `all` and `application_connect`. */
export const canonicalScope = (name: string): string =>
  name === 'all' || name === 'application_connect' ? `coder:${name}` : name;

/** What several scopes grant together. Unknown names grant nothing. */
export function grantsOfScopes(names: readonly string[]): ScopeGrants {
  const union: ScopeGrants = {};
  for (const name of names) {
    for (const [type, actions] of Object.entries(TOKEN_SCOPES.get(name) ?? {})) {
      if (type === '*') return { '*': '*' };
      const key = type as PermissionResource;
      const before = union[key] ?? [];
      union[key] = before === '*' || actions === '*' ? '*' : [...new Set([...before, ...actions])];
    }
  }
  return union;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Why a text is not an entry of an allow list, such as `workspace:*` or `workspace:<uuid>`. Undefined if it is one. */
export function allowEntryProblem(entry: string): string | undefined {
  const [, type = '', id = ''] = /^([^:]+):(.+)$/.exec(entry) ?? [];
  if (!type || !id) return `invalid allow_list entry ${JSON.stringify(entry)}: want <type>:<id>`;
  if (type !== '*' && !Object.hasOwn(PERMISSIONS, type)) return `unknown resource type ${JSON.stringify(type)}`;
  if (id !== '*' && !UUID.test(id.toLowerCase())) return `invalid ${type} ID (must be UUID): ${JSON.stringify(id)}`;
  return undefined;
}

/** Sorts valid entries without those that another one contains. An empty list means every object. */
export function normalizeAllowList(entries: readonly string[]): string[] {
  const known = new Set(entries.map((entry) => entry.trim().toLowerCase()));
  if (known.size === 0 || known.has(ALLOW_ALL)) return [ALLOW_ALL];
  return [...known].filter((entry) => entry.endsWith(':*') || !known.has(`${entry.split(':')[0]}:*`)).sort();
}
