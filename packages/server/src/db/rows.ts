// The rows of the tables that several files in queries/ read. A row that one file alone reads is in that file.

import type {
  WorkspaceAgent,
  WorkspaceAgentScript,
  WorkspaceApp,
  WorkspaceAppStatus,
  WorkspaceStatus,
} from '@ropewalk/contract';
import type { LogPositions } from '@ropewalk/wire/log-sequence';
import type { Role, ShareableOwners } from '../authz/policy.ts';

/** A row of `users`. */
export interface UserRow {
  id: string;
  username: string;
  email: string;
  name: string;
  avatar_url: string;
  hashed_password: string;
  login_type: 'password' | 'github' | 'oidc' | 'token' | 'none';
  status: 'active' | 'dormant' | 'suspended';
  rbac_roles: string[];
  theme_preference: string;
  terminal_font: string;
  quiet_hours_schedule: string;
  is_system: boolean;
  /** Nobody signs in to it, and it has no address. */
  is_service_account: boolean;
  deleted: boolean;
  last_seen_at: Date | null;
  one_time_passcode_hash: Buffer | null;
  one_time_passcode_expires_at: Date | null;
  created_at: Date;
  updated_at: Date;
}

/** A user with the organization roles that the policy uses: organization id → roles. */
export interface UserWithRoles extends UserRow {
  organizations: Record<string, string[]>;
}

/** A user with all that the policy uses. */
export interface UserWithAccess extends UserWithRoles {
  /** Ids of groups, without the group Everyone of each organization. */
  groups: string[];
  /** The custom roles that the person has, by organization id. */
  custom_roles: Record<string, Role[]>;
  /** Whose workspaces can be shared, by id of each organization of the person. */
  shareable_owners: Record<string, ShareableOwners>;
  /** The roles that all members have, by id of each organization of the person. */
  default_roles: Record<string, string[]>;
}

export interface OrganizationRow {
  id: string;
  name: string;
  display_name: string;
  description: string;
  icon: string;
  is_default: boolean;
  shareable_workspace_owners: ShareableOwners;
  /** Names of built-in roles that all members have. */
  default_org_member_roles: string[];
  deleted: boolean;
  created_at: Date;
  updated_at: Date;
}

/** The tags that a job requires, or that a daemon offers: key to value. */
export type Tags = Record<string, string>;

export type JobType = 'template_version_import' | 'workspace_build' | 'template_version_dry_run';

export type JobStatus = 'pending' | 'running' | 'succeeded' | 'canceling' | 'canceled' | 'failed';

/** A row of `provisioner_jobs`. */
export interface JobRow {
  id: string;
  organization_id: string;
  initiator_id: string;
  provisioner: string;
  type: JobType;
  file_id: string;
  input: JobInput;
  tags: Tags;
  created_at: Date;
  updated_at: Date;
  started_at: Date | null;
  canceled_at: Date | null;
  completed_at: Date | null;
  error: string | null;
  error_code: string | null;
  worker_id: string | null;
  acquire_epoch: number;
  lease_expires_at: Date | null;
  force_canceled: boolean;
  /** Whether no person waits for it. */
  background: boolean;
  turn: number;
  /** How much of its log is stored. */
  log_positions: LogPositions;
  job_status: JobStatus;
  /** The constraints for Terraform's version in the template, as written there. */
  required_version: string;
  /** The allowed versions, as PostgreSQL writes them: `{[from,below)}`. Null: all. */
  terraform_range: string | null;
}

/** A workspace with the columns of its template, owner and organization that the API shows. */
/** The people and groups that may use an object: id → `use` or `admin`. */
export interface Acls {
  user_acl: Record<string, string>;
  group_acl: Record<string, string>;
}

export interface WorkspaceRow extends Acls {
  id: string;
  owner_id: string;
  organization_id: string;
  template_id: string;
  name: string;
  autostart_schedule: string | null;
  ttl_ms: number | null;
  automatic_updates: 'always' | 'never';
  dormant_at: Date | null;
  deleting_at: Date | null;
  next_start_at: Date | null;
  /** Why the last automatic build could not begin, and when the next attempt comes. */
  automatic_error: string;
  automatic_retry_at: Date | null;
  last_used_at: Date | null;
  deleted: boolean;
  created_at: Date;
  updated_at: Date;
  owner_name: string;
  owner_avatar_url: string;
  organization_name: string;
  template_name: string;
  template_display_name: string;
  template_icon: string;
  template_active_version_id: string;
  allow_user_cancel_workspace_jobs: boolean;
  require_active_version: boolean;
  use_classic_parameter_flow: boolean;
  default_ttl_ms: number;
  allow_user_autostop: boolean;
  latest_build_id: string;
  latest_job_id: string;
  /** Of the latest build. */
  status: WorkspaceStatus;
  /** For the viewer. */
  favorite: boolean;
}

export type Transition = 'start' | 'stop' | 'delete';

/** A build with the names that the API shows. Without the state, which can have megabytes. */
export interface BuildRow extends Acls {
  id: string;
  workspace_id: string;
  template_version_id: string;
  template_version_preset_id: string | null;
  build_number: number;
  transition: Transition;
  initiator_id: string;
  job_id: string;
  reason: string;
  deadline: Date | null;
  max_deadline: Date | null;
  daily_cost: number;
  has_ai_task: boolean | null;
  ai_task_sidebar_app_id: string | null;
  warning: string;
  created_at: Date;
  updated_at: Date;
  workspace_name: string;
  owner_id: string;
  owner_name: string;
  owner_avatar_url: string;
  organization_id: string;
  template_id: string;
  dormant_at: Date | null;
  template_version_name: string;
  initiator_name: string;
  job_status: JobStatus;
  /** Whether a start follows if it succeeds: it is the stop of a restart. */
  restarts: boolean;
}

export interface BuildParameter {
  name: string;
  value: string;
}

/** The columns of a workspace that its builds use. */
export type BuiltWorkspace = Pick<
  WorkspaceRow,
  'id' | 'name' | 'owner_id' | 'organization_id' | 'dormant_at' | keyof Acls
>;

export interface TemplateRow {
  id: string;
  organization_id: string;
  name: string;
  display_name: string;
  description: string;
  icon: string;
  deprecated: string;
  provisioner: 'terraform';
  active_version_id: string;
  created_by: string;
  default_ttl_ms: number;
  activity_bump_ms: number;
  failure_ttl_ms: number;
  time_til_dormant_ms: number;
  time_til_dormant_autodelete_ms: number;
  autostop_requirement_days: string[];
  autostop_requirement_weeks: number;
  autostart_days: string[];
  allow_user_cancel_workspace_jobs: boolean;
  allow_user_autostart: boolean;
  allow_user_autostop: boolean;
  require_active_version: boolean;
  use_classic_parameter_flow: boolean;
  max_port_share_level: string;
  cors_behavior: 'simple' | 'passthru';
  /** Whether builds fetch their modules again instead of using those of the import. */
  disable_module_cache: boolean;
  time_til_autostop_notify_ms: number;
  user_acl: Record<string, string>;
  group_acl: Record<string, string>;
  deleted: boolean;
  created_at: Date;
  updated_at: Date;
  organization_name: string;
  organization_display_name: string;
  organization_icon: string;
  created_by_name: string;
}

export interface VersionRow {
  id: string;
  template_id: string | null;
  organization_id: string;
  name: string;
  message: string;
  readme: string;
  job_id: string;
  created_by: string;
  archived: boolean;
  has_ai_task: boolean;
  /** Whether it has agents outside the machines that it creates. */
  has_external_agent: boolean;
  created_at: Date;
  updated_at: Date;
  created_by_name: string;
  created_by_full_name: string;
  created_by_avatar_url: string;
  job_status: JobStatus;
  user_acl: Record<string, string> | null;
  group_acl: Record<string, string> | null;
  /** Null for a version without a template. */
  use_classic_parameter_flow: boolean | null;
}

export interface AgentRow {
  id: string;
  parent_id: string | null;
  resource_id: string;
  name: string;
  auth_token: string;
  auth_instance_id: string | null;
  architecture: string;
  operating_system: string;
  environment_variables: Record<string, string>;
  directory: string;
  expanded_directory: string;
  motd_file: string;
  troubleshooting_url: string;
  connection_timeout_seconds: number;
  display_apps: string[];
  display_order: number;
  api_key_scope: string;
  version: string;
  api_version: string;
  subsystems: string[];
  capabilities: string[];
  ssh_host_key: string;
  lifecycle_state: WorkspaceAgent['lifecycle_state'];
  started_at: Date | null;
  ready_at: Date | null;
  first_connected_at: Date | null;
  last_connected_at: Date | null;
  disconnected_at: Date | null;
  logs_length: number;
  logs_overflowed: boolean;
  /** The server of its newest connection, which may have ended. */
  replica_id: string | null;
  /** A sentence about resources above the template's thresholds. Usually empty. */
  resource_alerts: string;
  /** As of its newest connection, which may have ended. Null: unknown. */
  network: AgentNetwork | null;
  created_at: Date;
  updated_at: Date;
}

/** How an agent reaches relays. */
export interface AgentNetwork {
  /** The id of its node in the tailnet. Null: it has not joined. */
  node: string | null;
  /** The number of the region that it prefers. */
  home: number;
  /** In seconds, by the number of the region. */
  latencies: Record<string, number>;
}

/** An agent with its workspace. */
export interface AgentIdentity extends AgentRow, Acls {
  workspace_id: string;
  workspace_name: string;
  organization_id: string;
  owner_id: string;
  owner_name: string;
  build_number: number;
  dormant_at: Date | null;
}

export interface AppRow {
  id: string;
  agent_id: string;
  slug: string;
  display_name: string;
  icon: string;
  command: string | null;
  url: string | null;
  external: boolean;
  subdomain: boolean;
  sharing_level: WorkspaceApp['sharing_level'];
  hidden: boolean;
  open_in: WorkspaceApp['open_in'];
  display_group: string;
  /** Markdown. */
  tooltip: string;
  display_order: number;
  healthcheck_url: string;
  healthcheck_interval: number;
  healthcheck_threshold: number;
  health: WorkspaceApp['health'];
  /** Newest first. */
  statuses: WorkspaceAppStatus[];
}

export interface ScriptRow {
  id: string;
  workspace_agent_id: string;
  log_source_id: string;
  display_name: string;
  log_path: string;
  script: string;
  cron: string;
  run_on_start: boolean;
  run_on_stop: boolean;
  start_blocks_login: boolean;
  timeout_seconds: number;
  /** Other scripts of the agent that must end first. `any`: also if they fail. */
  waits_for: { id: string; any: boolean }[];
  /** Of the newest run. Null: the script has not run. */
  exit_code: number | null;
  status: WorkspaceAgentScript['status'] | null;
}

/** The subject of a job, by type. */
export interface JobInput {
  template_version_id?: string;
  workspace_build_id?: string;
  user_variable_values?: { name: string; value: string }[];
  /** The tags that the template names for its workspaces, to explain why its import waits. */
  named_tags?: Tags;
  workspace_name?: string;
  rich_parameter_values?: { name: string; value: string }[];
  log_level?: string;
  /** A deletion that leaves the workspace's resources in place: its daemon receives no state. */
  orphan?: boolean;
  /** The stage of a prebuilt workspace: created for nobody yet, or claimed by a person. */
  prebuilt_stage?: 'create' | 'claim';
}

/** A workspace proxy, without the hash of its secret. */
export interface WorkspaceProxyRow {
  id: string;
  name: string;
  display_name: string;
  icon: string;
  region_id: number;
  /** Empty before the proxy has registered. */
  url: string;
  wildcard_hostname: string;
  derp_enabled: boolean;
  derp_only: boolean;
  version: string;
  created_at: Date;
  updated_at: Date;
}
