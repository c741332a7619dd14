import { type Static, Type } from 'typebox';
import {
  AutomaticUpdates,
  BuildReason,
  WorkspaceBuildParameter,
  WorkspaceStatus,
  WorkspaceTransition,
} from './common.ts';
import { Line, Milliseconds, NotEmpty, Nullable, named, stringEnum, Timestamp, Uuid } from './kit.ts';
import { MatchedProvisioners, ProvisionerJob, ProvisionerLogLevel, ProvisionerTiming } from './provisioners.ts';
import { SharedWorkspaceActor } from './sharing.ts';
import {
  AgentConnectionTiming,
  AgentScriptTiming,
  UsageAppName,
  WorkspaceAgent,
  WorkspaceAppStatus,
} from './workspace-agents.ts';

export const CreateWorkspaceBuildReason = named(
  'CreateWorkspaceBuildReason',
  stringEnum(['dashboard', 'cli', 'ssh_connection', 'vscode_connection', 'jetbrains_connection']),
);
export type CreateWorkspaceBuildReason = Static<typeof CreateWorkspaceBuildReason>;

/** The limit of a state in a build request. The limit of a request body is 16 MiB. */
const MAX_STATE_BYTES = 12 * 1024 * 1024;

/** What a person chooses for a start. */
const startChoice = {
  log_level: Type.Optional(ProvisionerLogLevel),
  reason: Type.Optional(CreateWorkspaceBuildReason),
  rich_parameter_values: Type.Optional(Type.Array(WorkspaceBuildParameter, { maxItems: 1_000 })),
  template_version_id: Type.Optional(Uuid),
  template_version_preset_id: Type.Optional(Uuid),
};

// Upstream's API document says a list of numbers. Its clients send base64.
const stateBytes = Type.Unsafe<string | number[]>({
  items: { type: 'integer', minimum: 0, maximum: 255 },
  anyOf: [
    { type: 'array', minItems: 1, maxItems: MAX_STATE_BYTES },
    { type: 'string', minLength: 1, maxLength: 2 * MAX_STATE_BYTES },
  ],
});

export const UpdateWorkspaceBuildStateRequest = named(
  'UpdateWorkspaceBuildStateRequest',
  Type.Object({ state: stateBytes }),
);
export type UpdateWorkspaceBuildStateRequest = Static<typeof UpdateWorkspaceBuildStateRequest>;

export const CreateWorkspaceBuildOnSuccessRequest = named(
  'CreateWorkspaceBuildOnSuccessRequest',
  Type.Object({
    rich_parameter_values: Type.Optional(Type.Array(WorkspaceBuildParameter, { maxItems: 1_000 })),
    /** Absent: the template's active version. */
    template_version_id: Type.Optional(Uuid),
    /** A preset of `template_version_id`. */
    template_version_preset_id: Type.Optional(Uuid),
    /** Only a start can follow. */
    transition: WorkspaceTransition,
  }),
);
export type CreateWorkspaceBuildOnSuccessRequest = Static<typeof CreateWorkspaceBuildOnSuccessRequest>;

export const CreateWorkspaceBuildRequest = named(
  'CreateWorkspaceBuildRequest',
  Type.Object({
    ...startChoice,
    dry_run: Type.Optional(Type.Boolean()),
    /** The start that follows a stop. */
    on_success: Type.Optional(CreateWorkspaceBuildOnSuccessRequest),
    orphan: Type.Optional(Type.Boolean()),
    state: Type.Optional(stateBytes),
    transition: WorkspaceTransition,
  }),
);
export type CreateWorkspaceBuildRequest = Static<typeof CreateWorkspaceBuildRequest>;

/** Not part of upstream's API. */
export const RestartWorkspaceRequest = named('RestartWorkspaceRequest', Type.Object(startChoice));
export type RestartWorkspaceRequest = Static<typeof RestartWorkspaceRequest>;

export const CreateWorkspaceRequest = named(
  'CreateWorkspaceRequest',
  Type.Object({
    automatic_updates: Type.Optional(AutomaticUpdates),
    autostart_schedule: Type.Optional(Line),
    name: Line,
    rich_parameter_values: Type.Optional(Type.Array(WorkspaceBuildParameter, { maxItems: 1_000 })),
    template_id: Type.Optional(Uuid),
    template_version_id: Type.Optional(Uuid),
    template_version_preset_id: Type.Optional(Uuid),
    ttl_ms: Type.Optional(Milliseconds),
  }),
);
export type CreateWorkspaceRequest = Static<typeof CreateWorkspaceRequest>;

export const PostWorkspaceUsageRequest = named(
  'PostWorkspaceUsageRequest',
  Type.Object({
    agent_id: Type.Optional(Uuid),
    app_name: Type.Optional(UsageAppName),
  }),
);
export type PostWorkspaceUsageRequest = Static<typeof PostWorkspaceUsageRequest>;

export const PutExtendWorkspaceRequest = named(
  'PutExtendWorkspaceRequest',
  Type.Object({
    /** Required if the workspace has a deadline. */
    deadline: Type.Optional(Timestamp),
  }),
);
export type PutExtendWorkspaceRequest = Static<typeof PutExtendWorkspaceRequest>;

export const ResolveAutostartResponse = named(
  'ResolveAutostartResponse',
  Type.Object({
    parameter_mismatch: Type.Boolean(),
  }),
);
export type ResolveAutostartResponse = Static<typeof ResolveAutostartResponse>;

export const UpdateWorkspaceAutomaticUpdatesRequest = named(
  'UpdateWorkspaceAutomaticUpdatesRequest',
  Type.Object({
    automatic_updates: Type.Optional(AutomaticUpdates),
  }),
);
export type UpdateWorkspaceAutomaticUpdatesRequest = Static<typeof UpdateWorkspaceAutomaticUpdatesRequest>;

export const UpdateWorkspaceAutostartRequest = named(
  'UpdateWorkspaceAutostartRequest',
  Type.Object({
    schedule: Type.Optional(Line),
  }),
);
export type UpdateWorkspaceAutostartRequest = Static<typeof UpdateWorkspaceAutostartRequest>;

export const UpdateWorkspaceDormancy = named(
  'UpdateWorkspaceDormancy',
  Type.Object({
    dormant: Type.Optional(Type.Boolean()),
  }),
);
export type UpdateWorkspaceDormancy = Static<typeof UpdateWorkspaceDormancy>;

export const UpdateWorkspaceRequest = named(
  'UpdateWorkspaceRequest',
  Type.Object({
    name: Type.Optional(NotEmpty),
  }),
);
export type UpdateWorkspaceRequest = Static<typeof UpdateWorkspaceRequest>;

export const UpdateWorkspaceTTLRequest = named(
  'UpdateWorkspaceTTLRequest',
  Type.Object({
    ttl_ms: Type.Optional(Milliseconds),
  }),
);
export type UpdateWorkspaceTTLRequest = Static<typeof UpdateWorkspaceTTLRequest>;

/** In the unit of the costs in templates, for a day. */
export const WorkspaceQuota = named(
  'WorkspaceQuota',
  Type.Object({
    /** The sum of the allowances of the person's groups. -1: no group of the organization has an allowance. */
    budget: Type.Integer(),
    credits_consumed: Type.Integer(),
  }),
);
export type WorkspaceQuota = Static<typeof WorkspaceQuota>;

export const WorkspaceResourceMetadata = named(
  'WorkspaceResourceMetadata',
  Type.Object({
    key: Type.String(),
    sensitive: Type.Boolean(),
    value: Type.String(),
  }),
);
export type WorkspaceResourceMetadata = Static<typeof WorkspaceResourceMetadata>;

export const WorkspaceResource = named(
  'WorkspaceResource',
  Type.Object({
    agents: Type.Optional(Type.Array(WorkspaceAgent)),
    created_at: Timestamp,
    daily_cost: Type.Integer(),
    hide: Type.Boolean(),
    icon: Type.String(),
    id: Uuid,
    job_id: Uuid,
    metadata: Type.Optional(Type.Array(WorkspaceResourceMetadata)),
    name: Type.String(),
    type: Type.String(),
    workspace_transition: WorkspaceTransition,
  }),
);
export type WorkspaceResource = Static<typeof WorkspaceResource>;

export const WorkspaceBuild = named(
  'WorkspaceBuild',
  Type.Object({
    ai_task_sidebar_app_id: Type.Optional(Uuid),
    build_number: Type.Integer(),
    created_at: Timestamp,
    daily_cost: Type.Integer(),
    deadline: Type.Optional(Timestamp),
    has_ai_task: Type.Optional(Type.Boolean()),
    has_external_agent: Type.Optional(Type.Boolean()),
    id: Uuid,
    initiator_id: Uuid,
    initiator_name: Type.String(),
    job: ProvisionerJob,
    matched_provisioners: Type.Optional(MatchedProvisioners),
    max_deadline: Type.Optional(Timestamp),
    reason: BuildReason,
    resources: Type.Array(WorkspaceResource),
    /** The stop of a restart: the server starts the workspace when it has succeeded. */
    restart_pending: Type.Optional(Type.Boolean()),
    status: WorkspaceStatus,
    template_version_id: Uuid,
    template_version_name: Type.String(),
    template_version_preset_id: Nullable(Uuid),
    transition: WorkspaceTransition,
    updated_at: Timestamp,
    /** A problem that an administrator should look at, for example a state that was stored aside. */
    warning: Type.Optional(Type.String()),
    workspace_id: Uuid,
    workspace_name: Type.String(),
    workspace_owner_avatar_url: Type.String(),
    workspace_owner_id: Uuid,
    workspace_owner_name: Type.String(),
  }),
);
export type WorkspaceBuild = Static<typeof WorkspaceBuild>;

/** A change of a build's status. */
export const WorkspaceBuildUpdate = named(
  'WorkspaceBuildUpdate',
  Type.Object({
    workspace_id: Uuid,
    workspace_name: Type.String(),
    build_id: Uuid,
    transition: Type.String(),
    job_status: Type.String(),
    build_number: Type.Integer(),
  }),
);
export type WorkspaceBuildUpdate = Static<typeof WorkspaceBuildUpdate>;

export const WorkspaceHealth = named(
  'WorkspaceHealth',
  Type.Object({
    failing_agents: Type.Array(Uuid),
    healthy: Type.Boolean(),
  }),
);
export type WorkspaceHealth = Static<typeof WorkspaceHealth>;

export const AutomaticBuildError = named(
  'AutomaticBuildError',
  Type.Object({
    message: Type.String(),
    /** Absent: the next attempt comes with the next time of the schedule, if there is one. */
    next_attempt_at: Type.Optional(Timestamp),
  }),
);
export type AutomaticBuildError = Static<typeof AutomaticBuildError>;

export const Workspace = named(
  'Workspace',
  Type.Object({
    allow_renames: Type.Boolean(),
    /** Why the last automatic start, stop or deletion, or the start of a restart, could not begin. Absent if it could. */
    automatic_build_error: Type.Optional(AutomaticBuildError),
    automatic_updates: AutomaticUpdates,
    autostart_schedule: Type.Optional(Type.String()),
    created_at: Timestamp,
    deleting_at: Nullable(Timestamp),
    dormant_at: Nullable(Timestamp),
    favorite: Type.Boolean(),
    health: WorkspaceHealth,
    id: Uuid,
    is_prebuild: Type.Boolean(),
    last_used_at: Timestamp,
    latest_app_status: Nullable(WorkspaceAppStatus),
    latest_build: WorkspaceBuild,
    name: Type.String(),
    next_start_at: Nullable(Timestamp),
    organization_id: Uuid,
    organization_name: Type.String(),
    outdated: Type.Boolean(),
    owner_avatar_url: Type.String(),
    owner_id: Uuid,
    owner_name: Type.String(),
    shared_with: Type.Optional(Type.Array(SharedWorkspaceActor)),
    /** Its own id, if the workspace is a task. */
    task_id: Type.Optional(Uuid),
    template_active_version_id: Uuid,
    template_allow_user_cancel_workspace_jobs: Type.Boolean(),
    template_display_name: Type.String(),
    template_icon: Type.String(),
    template_id: Uuid,
    template_name: Type.String(),
    template_require_active_version: Type.Boolean(),
    template_use_classic_parameter_flow: Type.Boolean(),
    ttl_ms: Type.Optional(Type.Integer()),
    updated_at: Timestamp,
  }),
);
export type Workspace = Static<typeof Workspace>;

export const WorkspaceBuildTimings = named(
  'WorkspaceBuildTimings',
  Type.Object({
    agent_connection_timings: Type.Array(AgentConnectionTiming),
    agent_script_timings: Type.Array(AgentScriptTiming),
    provisioner_timings: Type.Array(ProvisionerTiming),
  }),
);
export type WorkspaceBuildTimings = Static<typeof WorkspaceBuildTimings>;

export const AITasksPromptsResponse = named(
  'AITasksPromptsResponse',
  Type.Object({
    /** By the build's id. */
    prompts: Type.Record(Type.String(), Type.String()),
  }),
);
export type AITasksPromptsResponse = Static<typeof AITasksPromptsResponse>;

export const WorkspacesResponse = named(
  'WorkspacesResponse',
  Type.Object({
    count: Type.Integer(),
    workspaces: Type.Array(Workspace),
  }),
);
export type WorkspacesResponse = Static<typeof WorkspacesResponse>;
