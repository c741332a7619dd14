/**
 * The permissions of all roles, in one table. A role grants actions on resource types at one of three levels: `site`
 * (anywhere), `org` (in the organization of the role) and `user` (on the person's own objects). Names and grants are
 * those of upstream's built-in roles, with one addition: a site-wide template admin reads provisioner jobs, to see why
 * jobs of a template wait.
 */

import type { PermissionAction, PermissionResource } from '@ropewalk/contract/permissions';

export type Action = PermissionAction;
export type Resource = PermissionResource;

export type Grants = Partial<Record<Resource | '*', readonly Action[] | '*'>>;

export interface Role {
  name: string;
  displayName: string;
  site?: Grants;
  org?: Grants;
  user?: Grants;
  /** Denied even if another role grants it. */
  deny?: Grants;
}

const READ = ['read'] as const;
const CRUD = ['create', 'read', 'update', 'delete'] as const;
/** Everything except connecting: `ssh` and `application_connect` belong to a workspace's owner and to site owners. */
const MANAGE_WORKSPACE = [...CRUD, 'start', 'stop', 'create_agent', 'delete_agent'] as const;
const WORKSPACE = [...MANAGE_WORKSPACE, 'ssh', 'application_connect'] as const;
/** A dormant workspace must be activated before anyone can start it or connect to it. */
const DORMANT_WORKSPACE = [...CRUD, 'stop', 'create_agent', 'delete_agent'] as const;

/** A custom role may have any name, such as "constructor", which must not find what all objects have. */
const byName = <T>(roles: Readonly<Record<string, T>>): Readonly<Record<string, T>> =>
  Object.assign(Object.create(null), roles);

export const siteRoles = byName<Role>({
  owner: {
    name: 'owner',
    displayName: 'Owner',
    // secrets belong to their person alone
    site: { '*': '*', workspace_dormant: DORMANT_WORKSPACE, user_secret: [] },
  },
  'user-admin': {
    name: 'user-admin',
    displayName: 'User Admin',
    site: {
      user: [...CRUD, 'read_personal', 'update_personal'],
      organization: READ,
      organization_member: CRUD,
      group: CRUD,
      group_member: READ,
      assign_role: ['assign', 'unassign', 'read'],
      assign_org_role: ['assign', 'unassign', 'read'],
      idpsync_settings: ['read', 'update'],
    },
  },
  'template-admin': {
    name: 'template-admin',
    displayName: 'Template Admin',
    site: {
      template: [...CRUD, 'use', 'view_insights'],
      file: ['create', 'read'],
      workspace: READ,
      workspace_dormant: READ,
      prebuilt_workspace: ['update', 'delete'],
      provisioner_daemon: CRUD,
      provisioner_jobs: [...READ, 'update', 'create'],
      assign_org_role: READ,
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
      connection_log: READ,
      assign_org_role: READ,
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
    site: { assign_role: READ, oauth2_app: READ, workspace_proxy: READ },
    user: {
      user: ['read', 'read_personal', 'update_personal'],
      api_key: CRUD,
      user_secret: CRUD,
      oauth2_app_code_token: ['create', 'read', 'delete'],
      file: ['create', 'read'],
      organization_member: READ,
      group_member: READ,
      provisioner_daemon: ['create', 'read', 'update'],
      inbox_notification: ['create', 'read', 'update'],
      notification_preference: ['read', 'update'],
      webpush_subscription: ['create', 'read', 'delete'],
    },
  },
});

export const organizationRoles = byName<Role>({
  'organization-admin': {
    name: 'organization-admin',
    displayName: 'Organization Admin',
    // reads people who are not in the organization yet, to add them
    site: { user: READ },
    org: {
      '*': '*',
      workspace: [...MANAGE_WORKSPACE, 'share'],
      workspace_dormant: DORMANT_WORKSPACE,
      assign_role: [],
      user_secret: [],
    },
  },
  'organization-member': {
    name: 'organization-member',
    displayName: '',
    org: { organization: READ, assign_org_role: READ, provisioner_daemon: READ },
    user: { group: READ },
  },
  // all members have it unless their organization has other default roles
  'organization-workspace-access': {
    name: 'organization-workspace-access',
    displayName: 'Organization Workspace Access',
    user: { workspace: WORKSPACE, workspace_dormant: DORMANT_WORKSPACE },
  },
  'organization-auditor': {
    name: 'organization-auditor',
    displayName: 'Organization Auditor',
    org: {
      audit_log: READ,
      connection_log: READ,
      template: ['read', 'view_insights'],
      organization: READ,
      organization_member: READ,
      group: READ,
      group_member: READ,
    },
  },
  'organization-user-admin': {
    name: 'organization-user-admin',
    displayName: 'Organization User Admin',
    site: { user: READ },
    org: {
      organization: READ,
      organization_member: CRUD,
      group: CRUD,
      group_member: CRUD,
      assign_org_role: ['assign', 'unassign', 'read'],
      idpsync_settings: ['read', 'update'],
    },
  },
  'organization-template-admin': {
    name: 'organization-template-admin',
    displayName: 'Organization Template Admin',
    org: {
      template: [...CRUD, 'use', 'view_insights'],
      file: ['create', 'read'],
      workspace: READ,
      workspace_dormant: READ,
      prebuilt_workspace: ['update', 'delete'],
      provisioner_daemon: CRUD,
      provisioner_jobs: [...READ, 'update', 'create'],
      organization: READ,
      organization_member: READ,
      group: READ,
      group_member: READ,
    },
  },
  'organization-workspace-creation-ban': {
    name: 'organization-workspace-creation-ban',
    displayName: 'Organization Workspace Creation Ban',
    deny: { workspace: ['create', 'delete', 'create_agent', 'delete_agent'] },
  },
});

/** The owner's role where `--disable-owner-workspace-access` keeps owners out of other people's workspaces. */
export const ownerWithoutAccess: Role = {
  ...siteRoles['owner']!,
  site: { ...siteRoles['owner']!.site, workspace: [...MANAGE_WORKSPACE, 'share'] },
};

/** Whose workspaces the members of an organization can share. The names are upstream's. */
export type ShareableOwners = 'none' | 'everyone' | 'service_accounts';

/**
 * What all members of an organization may because workspaces are shared in it: find the people and groups to share with,
 * and share their own.
 */
export const sharingRoles: Readonly<Record<ShareableOwners, Role | undefined>> = {
  everyone: {
    name: 'organization-member',
    displayName: '',
    org: { organization_member: READ, group: READ },
    user: { workspace: ['share'] },
  },
  service_accounts: { name: 'organization-member', displayName: '', org: { organization_member: READ } },
  none: undefined,
};

/**
 * The actions that each level of an object's list of people and groups grants. Types without an entry have no such list. A
 * workspace has upstream's two sets: nobody deletes what they could not create again.
 */
export const listed: Partial<Record<Resource, Readonly<Record<string, readonly Action[] | '*'>>>> = {
  template: { use: ['read', 'use'], admin: '*' },
  group: { use: READ },
  workspace: {
    use: ['read', 'start', 'stop', 'ssh', 'application_connect'],
    admin: [...WORKSPACE.filter((action) => action !== 'delete'), 'share'],
  },
};

/** The permissions of the Kubernetes operator, in its organization. A key is the permission to run daemons. */
export const operatorScope: Grants = {
  organization: READ,
  provisioner_daemon: ['create', 'read', 'delete'],
  provisioner_jobs: READ,
};

/** The built-in roles that the holder of a role may assign and remove. */
export const assignable = byName<readonly string[]>({
  owner: [...Object.keys(siteRoles), ...Object.keys(organizationRoles)],
  'user-admin': ['member', 'organization-member', 'organization-workspace-access'],
  'organization-admin': Object.keys(organizationRoles),
  'organization-user-admin': ['organization-member', 'organization-workspace-access'],
});

/**
 * Whether a table grants an action on a resource type. An entry of the type itself overrides that of all types, so that
 * a role can have everything except one type.
 */
export function grants(table: Grants | undefined, action: Action, type: Resource): boolean {
  const given = table?.[type] ?? table?.['*'];
  return given === '*' || (given?.includes(action) ?? false);
}
