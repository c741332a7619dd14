const CRUD = ['create', 'read', 'update', 'delete'] as const;
const WORKSPACE = [
  ...CRUD,
  'start',
  'stop',
  'ssh',
  'application_connect',
  'create_agent',
  'delete_agent',
  'share',
] as const;

/** Every type of resource that permissions are about, with the actions that it has. The names are upstream's. */
export const PERMISSIONS = {
  api_key: CRUD,
  assign_org_role: [...CRUD, 'assign', 'unassign'],
  assign_role: ['read', 'assign', 'unassign'],
  audit_log: ['create', 'read'],
  connection_log: ['read', 'update'],
  crypto_key: CRUD,
  debug_info: ['read'],
  deployment_config: ['read', 'update'],
  deployment_stats: ['read'],
  file: ['create', 'read'],
  group: CRUD,
  group_member: ['read'],
  idpsync_settings: ['read', 'update'],
  inbox_notification: ['create', 'read', 'update'],
  license: ['create', 'read', 'delete'],
  notification_message: CRUD,
  notification_preference: ['read', 'update'],
  notification_template: ['read', 'update'],
  oauth2_app: CRUD,
  oauth2_app_code_token: ['create', 'read', 'delete'],
  oauth2_app_secret: CRUD,
  organization: CRUD,
  organization_member: CRUD,
  prebuilt_workspace: ['update', 'delete'],
  provisioner_daemon: CRUD,
  provisioner_jobs: ['create', 'read', 'update'],
  replicas: ['read'],
  system: CRUD,
  tailnet_coordinator: CRUD,
  template: [...CRUD, 'use', 'view_insights'],
  user: [...CRUD, 'read_personal', 'update_personal'],
  user_secret: CRUD,
  webpush_subscription: ['create', 'read', 'delete'],
  workspace: WORKSPACE,
  workspace_agent_devcontainers: ['create'],
  workspace_agent_resource_monitor: ['create', 'read', 'update'],
  workspace_dormant: WORKSPACE,
  workspace_proxy: CRUD,
} as const;

export type PermissionResource = keyof typeof PERMISSIONS;
export type PermissionAction = (typeof PERMISSIONS)[PermissionResource][number];

/** The types of resources that belong to an organization: the ones that its custom roles are about. */
export const ORGANIZATION_RESOURCES = [
  'workspace',
  'workspace_dormant',
  'template',
  'file',
  'organization',
  'organization_member',
  'group',
  'group_member',
  'assign_org_role',
  'idpsync_settings',
  'provisioner_daemon',
  'provisioner_jobs',
  'audit_log',
  'connection_log',
] as const satisfies readonly PermissionResource[];

/** The system user that owns prebuilt workspaces until a person claims them. Its id is upstream's. */
export const PREBUILDS_USER_ID = 'c42fdf75-3097-471c-8c33-fb52454d81c0';
