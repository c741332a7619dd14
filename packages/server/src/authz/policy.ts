/**
 * Who may do what, in one table. A role grants actions on resource types at one of three levels: `site` (anywhere),
 * `org` (on things of the organization the role was given in) and `user` (on things one owns). Names are those of the
 * published API.
 */

export const ACTIONS = [
  'application_connect',
  'assign',
  'create',
  'create_agent',
  'delete',
  'delete_agent',
  'read',
  'read_personal',
  'ssh',
  'start',
  'stop',
  'unassign',
  'update',
  'update_personal',
  'use',
  'view_insights',
] as const;
export type Action = (typeof ACTIONS)[number];

export type Resource =
  | 'api_key'
  | 'assign_org_role'
  | 'assign_role'
  | 'audit_log'
  | 'debug_info'
  | 'deployment_config'
  | 'deployment_stats'
  | 'file'
  | 'group'
  | 'group_member'
  | 'organization'
  | 'organization_member'
  | 'provisioner_daemon'
  | 'provisioner_jobs'
  | 'template'
  | 'user'
  | 'workspace'
  | 'workspace_dormant'
  | 'workspace_proxy';

export type Grants = Partial<Record<Resource | '*', readonly Action[] | '*'>>;

export interface Role {
  name: string;
  displayName: string;
  site?: Grants;
  org?: Grants;
  user?: Grants;
  /** Taken away even where another role grants it. */
  deny?: Grants;
}

const READ = ['read'] as const;
const CRUD = ['create', 'read', 'update', 'delete'] as const;
const WORKSPACE = [...CRUD, 'start', 'stop', 'ssh', 'application_connect', 'create_agent', 'delete_agent'] as const;

export const siteRoles: Readonly<Record<string, Role>> = {
  owner: { name: 'owner', displayName: 'Owner', site: { '*': '*' } },
  'user-admin': {
    name: 'user-admin',
    displayName: 'User Admin',
    site: {
      user: [...CRUD, 'read_personal', 'update_personal'],
      organization: READ,
      organization_member: CRUD,
      group: CRUD,
      group_member: CRUD,
      assign_role: ['assign', 'unassign', 'read'],
      assign_org_role: ['assign', 'unassign', 'read'],
    },
  },
  'template-admin': {
    name: 'template-admin',
    displayName: 'Template Admin',
    site: {
      template: [...CRUD, 'use', 'view_insights'],
      file: ['create', 'read'],
      workspace: READ,
      provisioner_daemon: CRUD,
      provisioner_jobs: [...READ, 'update', 'create'],
      organization: READ,
      user: READ,
      group: READ,
      group_member: READ,
      organization_member: READ,
    },
  },
  auditor: {
    name: 'auditor',
    displayName: 'Auditor',
    site: {
      audit_log: READ,
      template: ['read', 'view_insights'],
      user: READ,
      group: READ,
      group_member: READ,
      organization: READ,
      organization_member: READ,
      deployment_stats: READ,
      deployment_config: READ,
    },
  },
  member: {
    name: 'member',
    displayName: 'Member',
    site: { assign_role: READ, workspace_proxy: READ },
    user: {
      user: ['read', 'read_personal', 'update_personal'],
      api_key: CRUD,
      file: ['create', 'read'],
      organization_member: READ,
      group_member: READ,
      provisioner_daemon: ['create', 'read', 'update'],
    },
  },
};

export const organizationRoles: Readonly<Record<string, Role>> = {
  'organization-admin': { name: 'organization-admin', displayName: 'Organization Admin', org: { '*': '*' } },
  'organization-member': {
    name: 'organization-member',
    displayName: '',
    org: { organization: READ, assign_org_role: READ, provisioner_daemon: READ },
    user: { workspace: WORKSPACE, workspace_dormant: CRUD, group: READ },
  },
  'organization-auditor': {
    name: 'organization-auditor',
    displayName: 'Organization Auditor',
    org: { audit_log: READ, template: READ, organization_member: READ, group: READ, group_member: READ },
  },
  'organization-user-admin': {
    name: 'organization-user-admin',
    displayName: 'Organization User Admin',
    org: {
      organization_member: CRUD,
      group: CRUD,
      group_member: CRUD,
      assign_org_role: ['assign', 'unassign', 'read'],
    },
  },
  'organization-template-admin': {
    name: 'organization-template-admin',
    displayName: 'Organization Template Admin',
    org: {
      template: [...CRUD, 'use', 'view_insights'],
      file: ['create', 'read'],
      workspace: READ,
      provisioner_daemon: CRUD,
      provisioner_jobs: [...READ, 'update', 'create'],
      organization_member: READ,
      group: READ,
      group_member: READ,
    },
  },
  'organization-workspace-creation-ban': {
    name: 'organization-workspace-creation-ban',
    displayName: 'Organization Workspace Creation Ban',
    deny: { workspace: ['create', 'delete'] },
  },
};

/** What a token made for app access alone may do, whoever owns it. */
export const applicationConnectScope: Grants = { workspace: ['application_connect'] };

const everywhere = (table: Grants | undefined, type: Resource | '*', action: Action): boolean => {
  for (const key of [type, '*'] as const) {
    const given = table?.[key];
    if (given === '*' || given?.includes(action)) return true;
  }
  return false;
};

/**
 * Whether what a role grants is all granted by others already, so that handing it out lifts nobody above its giver.
 * What a role grants on one's own things counts as covered by the same grant at the same or a wider level.
 */
export function covers(holder: readonly Role[], role: Role): boolean {
  const levels = { site: ['site'], org: ['org', 'site'], user: ['user', 'org', 'site'] } as const;
  return (['site', 'org', 'user'] as const).every((level) =>
    Object.entries(role[level] ?? {}).every(([type, actions]) => {
      const held = (action: Action) =>
        holder.some((own) => levels[level].some((wider) => everywhere(own[wider], type as Resource, action)));
      // a grant of everything is held only by who was given everything
      return actions === '*'
        ? holder.some((own) =>
            levels[level].some((wider) => (own[wider]?.[type as Resource] ?? own[wider]?.['*']) === '*'),
          )
        : (actions as readonly Action[]).every(held);
    }),
  );
}
