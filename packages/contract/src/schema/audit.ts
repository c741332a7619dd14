import { type Static, Type } from 'typebox';
import { BuildReason } from './common.ts';
import { Line, named, Paragraph, stringEnum, Timestamp, Uuid } from './kit.ts';
import { User } from './users.ts';

export const AuditAction = named(
  'AuditAction',
  stringEnum([
    'create',
    'write',
    'delete',
    'start',
    'stop',
    'login',
    'logout',
    'register',
    'request_password_reset',
    'connect',
    'disconnect',
    'open',
    'close',
  ]),
);
export type AuditAction = Static<typeof AuditAction>;

/** Upstream's types of resources, and three of ours at the end. */
export const ResourceType = named(
  'ResourceType',
  stringEnum([
    'template',
    'template_version',
    'user',
    'workspace',
    'workspace_build',
    'git_ssh_key',
    'api_key',
    'group',
    'license',
    'convert_login',
    'health_settings',
    'notifications_settings',
    'prebuilds_settings',
    'workspace_proxy',
    'organization',
    'oauth2_provider_app',
    'oauth2_provider_app_secret',
    'custom_role',
    'organization_member',
    'notification_template',
    'idp_sync_settings_organization',
    'idp_sync_settings_group',
    'idp_sync_settings_role',
    'workspace_agent',
    'workspace_app',
    'appearance',
    'file',
    'provisioner_key',
    'user_secret',
    'oauth2_provider_settings',
  ]),
);
export type ResourceType = Static<typeof ResourceType>;

export const AuditDiffField = named(
  'AuditDiffField',
  Type.Object({
    new: Type.Unknown(),
    old: Type.Unknown(),
    /** Whether the values are hidden. Both are empty then. */
    secret: Type.Boolean(),
  }),
);
export type AuditDiffField = Static<typeof AuditDiffField>;

export const AuditDiff = named('AuditDiff', Type.Record(Type.String(), AuditDiffField));
export type AuditDiff = Static<typeof AuditDiff>;

export const MinimalOrganization = named(
  'MinimalOrganization',
  Type.Object({
    display_name: Type.String(),
    icon: Type.String(),
    id: Uuid,
    name: Type.String(),
  }),
);
export type MinimalOrganization = Static<typeof MinimalOrganization>;

export const AuditLog = named(
  'AuditLog',
  Type.Object({
    // other types than the enum's are possible in entries of newer servers
    action: Type.String(),
    additional_fields: Type.Object({}, { additionalProperties: true }),
    /** The action with `{user}` and `{target}` as placeholders for their names. */
    description: Type.String(),
    diff: AuditDiff,
    id: Uuid,
    ip: Type.String(),
    is_deleted: Type.Boolean(),
    organization: Type.Optional(MinimalOrganization),
    organization_id: Uuid,
    request_id: Uuid,
    resource_icon: Type.String(),
    resource_id: Uuid,
    /** The path of the resource's page. Empty if it has none. */
    resource_link: Type.String(),
    resource_target: Type.String(),
    resource_type: Type.String(),
    status_code: Type.Integer(),
    time: Timestamp,
    /** Absent if nobody was signed in, or if the server acted by itself. */
    user: Type.Optional(User),
    user_agent: Type.String(),
  }),
);
export type AuditLog = Static<typeof AuditLog>;

export const AuditLogResponse = named(
  'AuditLogResponse',
  Type.Object({
    audit_logs: Type.Array(AuditLog),
    /** The number of matching entries. The server stops counting at `count_cap`. */
    count: Type.Integer(),
    count_cap: Type.Integer(),
  }),
);
export type AuditLogResponse = Static<typeof AuditLogResponse>;

export const CreateTestAuditLogRequest = named(
  'CreateTestAuditLogRequest',
  Type.Object({
    action: Type.Optional(AuditAction),
    additional_fields: Type.Optional(Type.Record(Line, Paragraph, { maxProperties: 100 })),
    build_reason: Type.Optional(BuildReason),
    organization_id: Type.Optional(Uuid),
    request_id: Type.Optional(Uuid),
    resource_id: Type.Optional(Uuid),
    resource_type: Type.Optional(ResourceType),
    time: Type.Optional(Timestamp),
  }),
);
export type CreateTestAuditLogRequest = Static<typeof CreateTestAuditLogRequest>;

export const ConnectionType = named(
  'ConnectionType',
  stringEnum(['ssh', 'vscode', 'jetbrains', 'reconnecting_pty', 'workspace_app', 'port_forwarding']),
);
export type ConnectionType = Static<typeof ConnectionType>;

export const ConnectionLogSSHInfo = named(
  'ConnectionLogSSHInfo',
  Type.Object({
    connection_id: Uuid,
    disconnect_reason: Type.Optional(Type.String()),
    disconnect_time: Type.Optional(Timestamp),
    exit_code: Type.Optional(Type.Integer()),
  }),
);
export type ConnectionLogSSHInfo = Static<typeof ConnectionLogSSHInfo>;

export const ConnectionLogWebInfo = named(
  'ConnectionLogWebInfo',
  Type.Object({
    slug_or_port: Type.String(),
    status_code: Type.Integer(),
    /** Absent if nobody was signed in, which a public app allows. */
    user: Type.Optional(User),
    user_agent: Type.String(),
  }),
);
export type ConnectionLogWebInfo = Static<typeof ConnectionLogWebInfo>;

export const ConnectionLog = named(
  'ConnectionLog',
  Type.Object({
    agent_name: Type.String(),
    connect_time: Timestamp,
    /** Absent while the connection is open, and for apps and ports in the browser. */
    disconnect_time: Type.Optional(Timestamp),
    id: Uuid,
    ip: Type.Optional(Type.String()),
    organization: MinimalOrganization,
    /** Our own. True if only the agent of the workspace reports the connection, which nothing verifies. */
    reported_by_agent: Type.Optional(Type.Boolean()),
    /** For SSH, IDE and terminal sessions. */
    ssh_info: Type.Optional(ConnectionLogSSHInfo),
    type: ConnectionType,
    /** The person who connected, if the server knows them. */
    user: Type.Optional(User),
    user_agent: Type.Optional(Type.String()),
    /** For apps and ports in the browser. */
    web_info: Type.Optional(ConnectionLogWebInfo),
    workspace_id: Uuid,
    workspace_name: Type.String(),
    workspace_owner_id: Uuid,
    workspace_owner_username: Type.String(),
  }),
);
export type ConnectionLog = Static<typeof ConnectionLog>;

export const ConnectionLogResponse = named(
  'ConnectionLogResponse',
  Type.Object({
    connection_logs: Type.Array(ConnectionLog),
    /** The number of matching connections. The server stops counting at `count_cap`. */
    count: Type.Integer(),
    count_cap: Type.Integer(),
  }),
);
export type ConnectionLogResponse = Static<typeof ConnectionLogResponse>;
