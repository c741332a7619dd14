// Agents of workspaces: what they are, report and offer (logs, apps, ports, containers), and how they sign in.
import { type Static, Type } from 'typebox';
import { AgentSubsystem, DisplayApp, LogLevel, NullUuid, TimingStage } from './common.ts';
import { TailnetDERPMap } from './health.ts';
import {
  Address,
  Credential,
  ImageAddress,
  Line,
  LogLine,
  NotEmpty,
  named,
  Paragraph,
  stringEnum,
  Timestamp,
  Uuid,
} from './kit.ts';

export const AgentExternalAuthResponse = named(
  'AgentExternalAuthResponse',
  Type.Object({
    access_token: Type.String(),
    /** When the token expires. The zero time of Go means never. */
    expires_at: Timestamp,
    password: Type.String(),
    token_extra: Type.Record(Type.String(), Type.Unknown()),
    type: Type.String(),
    url: Type.String(),
    username: Type.String(),
  }),
);
export type AgentExternalAuthResponse = Static<typeof AgentExternalAuthResponse>;

export const AgentGitSSHKey = named(
  'AgentGitSSHKey',
  Type.Object({
    private_key: Type.String(),
    public_key: Type.String(),
  }),
);
export type AgentGitSSHKey = Static<typeof AgentGitSSHKey>;

export const AgentLog = named(
  'AgentLog',
  Type.Object({
    created_at: Line,
    level: LogLevel,
    output: LogLine,
  }),
);
export type AgentLog = Static<typeof AgentLog>;

export const AgentPatchLogs = named(
  'AgentPatchLogs',
  Type.Object({
    log_source_id: Type.Optional(Uuid),
    logs: Type.Optional(Type.Array(AgentLog, { maxItems: 50_000 })),
  }),
);
export type AgentPatchLogs = Static<typeof AgentPatchLogs>;

export const PostLogSourceRequest = named(
  'PostLogSourceRequest',
  Type.Object({
    display_name: Type.Optional(Line),
    icon: Type.Optional(ImageAddress),
    id: Type.Optional(Uuid),
  }),
);
export type PostLogSourceRequest = Static<typeof PostLogSourceRequest>;

export const ReinitializationReason = named('ReinitializationReason', stringEnum(['prebuild_claimed']));
export type ReinitializationReason = Static<typeof ReinitializationReason>;

export const ReinitializationEvent = named(
  'ReinitializationEvent',
  Type.Object({
    reason: ReinitializationReason,
    /** Who claimed the workspace. */
    owner_id: Type.Optional(Uuid),
    workspace_id: Uuid,
    /** As upstream's agents before 2.32 read the id. */
    WorkspaceID: Uuid,
  }),
);
export type ReinitializationEvent = Static<typeof ReinitializationEvent>;

export const AgentConnectionTiming = named(
  'AgentConnectionTiming',
  Type.Object({
    ended_at: Timestamp,
    stage: TimingStage,
    started_at: Timestamp,
    workspace_agent_id: Type.String(),
    workspace_agent_name: Type.String(),
  }),
);
export type AgentConnectionTiming = Static<typeof AgentConnectionTiming>;

export const AgentScriptTiming = named(
  'AgentScriptTiming',
  Type.Object({
    display_name: Type.String(),
    ended_at: Timestamp,
    exit_code: Type.Integer(),
    stage: TimingStage,
    started_at: Timestamp,
    status: Type.String(),
    workspace_agent_id: Type.String(),
    workspace_agent_name: Type.String(),
  }),
);
export type AgentScriptTiming = Static<typeof AgentScriptTiming>;

export const DERPRegion = named(
  'DERPRegion',
  Type.Object({
    latency_ms: Type.Number(),
    preferred: Type.Boolean(),
  }),
);
export type DERPRegion = Static<typeof DERPRegion>;

export const Healthcheck = named(
  'Healthcheck',
  Type.Object({
    interval: Type.Integer(),
    threshold: Type.Integer(),
    url: Type.String(),
  }),
);
export type Healthcheck = Static<typeof Healthcheck>;

export const UsageAppName = named('UsageAppName', stringEnum(['vscode', 'jetbrains', 'reconnecting-pty', 'ssh']));
export type UsageAppName = Static<typeof UsageAppName>;

export const WorkspaceAppStatusState = named(
  'WorkspaceAppStatusState',
  stringEnum(['working', 'idle', 'complete', 'failure']),
);
export type WorkspaceAppStatusState = Static<typeof WorkspaceAppStatusState>;

export const WorkspaceAppStatus = named(
  'WorkspaceAppStatus',
  Type.Object({
    agent_id: Uuid,
    app_id: Uuid,
    created_at: Timestamp,
    icon: Type.Optional(Type.String()),
    id: Uuid,
    message: Type.String(),
    needs_user_attention: Type.Optional(Type.Boolean()),
    state: WorkspaceAppStatusState,
    uri: Type.String(),
    workspace_id: Uuid,
  }),
);
export type WorkspaceAppStatus = Static<typeof WorkspaceAppStatus>;

/** Chooses one of the agents of a machine. */
const chosenAgent = { agent_name: Type.Optional(NotEmpty) };

export const AWSInstanceIdentityToken = named(
  'AWSInstanceIdentityToken',
  Type.Object({ ...chosenAgent, document: Credential, signature: Credential }),
);
export type AWSInstanceIdentityToken = Static<typeof AWSInstanceIdentityToken>;

export const AzureInstanceIdentityToken = named(
  'AzureInstanceIdentityToken',
  Type.Object({ ...chosenAgent, encoding: Line, signature: Credential }),
);
export type AzureInstanceIdentityToken = Static<typeof AzureInstanceIdentityToken>;

export const GoogleInstanceIdentityToken = named(
  'GoogleInstanceIdentityToken',
  Type.Object({ ...chosenAgent, json_web_token: Credential }),
);
export type GoogleInstanceIdentityToken = Static<typeof GoogleInstanceIdentityToken>;

export const AuthenticateResponse = named('AuthenticateResponse', Type.Object({ session_token: Type.String() }));
export type AuthenticateResponse = Static<typeof AuthenticateResponse>;

export const PatchAppStatus = named(
  'PatchAppStatus',
  Type.Object({
    app_slug: Type.Optional(Line),
    icon: Type.Optional(ImageAddress),
    message: Type.Optional(Paragraph),
    needs_user_attention: Type.Optional(Type.Boolean()),
    state: Type.Optional(WorkspaceAppStatusState),
    uri: Type.Optional(Address),
  }),
);
export type PatchAppStatus = Static<typeof PatchAppStatus>;

export const WorkspaceAgentMetadataDescription = named(
  'WorkspaceAgentMetadataDescription',
  Type.Object({
    display_name: Type.String(),
    interval: Type.Integer(),
    key: Type.String(),
    script: Type.String(),
    timeout: Type.Integer(),
  }),
);
export type WorkspaceAgentMetadataDescription = Static<typeof WorkspaceAgentMetadataDescription>;

export const WorkspaceAgentMetadataResult = named(
  'WorkspaceAgentMetadataResult',
  Type.Object({
    /** Seconds since the value was collected. */
    age: Type.Integer(),
    collected_at: Timestamp,
    error: Type.String(),
    value: Type.String(),
  }),
);
export type WorkspaceAgentMetadataResult = Static<typeof WorkspaceAgentMetadataResult>;

export const WorkspaceAgentMetadata = named(
  'WorkspaceAgentMetadata',
  Type.Object({ description: WorkspaceAgentMetadataDescription, result: WorkspaceAgentMetadataResult }),
);
export type WorkspaceAgentMetadata = Static<typeof WorkspaceAgentMetadata>;

export const WorkspaceAgentHealth = named(
  'WorkspaceAgentHealth',
  Type.Object({
    healthy: Type.Boolean(),
    reason: Type.Optional(Type.String()),
  }),
);
export type WorkspaceAgentHealth = Static<typeof WorkspaceAgentHealth>;

export const WorkspaceAgentLifecycle = named(
  'WorkspaceAgentLifecycle',
  stringEnum([
    'created',
    'starting',
    'start_timeout',
    'start_error',
    'ready',
    'shutting_down',
    'shutdown_timeout',
    'shutdown_error',
    'off',
  ]),
);
export type WorkspaceAgentLifecycle = Static<typeof WorkspaceAgentLifecycle>;

export const WorkspaceAgentLogSource = named(
  'WorkspaceAgentLogSource',
  Type.Object({
    created_at: Timestamp,
    display_name: Type.String(),
    icon: Type.String(),
    id: Uuid,
    workspace_agent_id: Uuid,
  }),
);
export type WorkspaceAgentLogSource = Static<typeof WorkspaceAgentLogSource>;

export const WorkspaceAgentScript = named(
  'WorkspaceAgentScript',
  Type.Object({
    cron: Type.String(),
    display_name: Type.String(),
    /** Of the newest run. Absent if the script has not run. */
    exit_code: Type.Optional(Type.Integer()),
    id: Uuid,
    log_path: Type.String(),
    log_source_id: Uuid,
    run_on_start: Type.Boolean(),
    run_on_stop: Type.Boolean(),
    script: Type.String(),
    start_blocks_login: Type.Boolean(),
    /** How the newest run ended. */
    status: Type.Optional(stringEnum(['ok', 'exit_failure', 'timed_out', 'pipes_left_open'])),
    timeout: Type.Integer(),
  }),
);
export type WorkspaceAgentScript = Static<typeof WorkspaceAgentScript>;

export const WorkspaceAgentStartupScriptBehavior = named(
  'WorkspaceAgentStartupScriptBehavior',
  stringEnum(['blocking', 'non-blocking']),
);
export type WorkspaceAgentStartupScriptBehavior = Static<typeof WorkspaceAgentStartupScriptBehavior>;

export const WorkspaceAgentStatus = named(
  'WorkspaceAgentStatus',
  stringEnum(['connecting', 'connected', 'disconnected', 'timeout']),
);
export type WorkspaceAgentStatus = Static<typeof WorkspaceAgentStatus>;

export const WorkspaceAppHealth = named(
  'WorkspaceAppHealth',
  stringEnum(['disabled', 'initializing', 'healthy', 'unhealthy']),
);
export type WorkspaceAppHealth = Static<typeof WorkspaceAppHealth>;

export const WorkspaceAppOpenIn = named('WorkspaceAppOpenIn', stringEnum(['slim-window', 'tab']));
export type WorkspaceAppOpenIn = Static<typeof WorkspaceAppOpenIn>;

export const WorkspaceAppSharingLevel = named(
  'WorkspaceAppSharingLevel',
  stringEnum(['owner', 'authenticated', 'organization', 'public']),
);
export type WorkspaceAppSharingLevel = Static<typeof WorkspaceAppSharingLevel>;

export const WorkspaceApp = named(
  'WorkspaceApp',
  Type.Object({
    command: Type.Optional(Type.String()),
    display_name: Type.Optional(Type.String()),
    external: Type.Boolean(),
    group: Type.Optional(Type.String()),
    health: WorkspaceAppHealth,
    healthcheck: Type.Optional(Healthcheck),
    hidden: Type.Boolean(),
    icon: Type.Optional(Type.String()),
    id: Uuid,
    open_in: WorkspaceAppOpenIn,
    sharing_level: WorkspaceAppSharingLevel,
    slug: Type.String(),
    statuses: Type.Optional(Type.Array(WorkspaceAppStatus)),
    subdomain: Type.Boolean(),
    subdomain_name: Type.Optional(Type.String()),
    tooltip: Type.Optional(Type.String({ description: 'Markdown.' })),
    url: Type.Optional(Type.String()),
  }),
);
export type WorkspaceApp = Static<typeof WorkspaceApp>;

export const AppLinkRequest = named('AppLinkRequest', Type.Object({ slug: Line }));
export type AppLinkRequest = Static<typeof AppLinkRequest>;

/** The address that opens an external app. It may contain a session token. */
export const AppLink = named('AppLink', Type.Object({ url: Type.String() }));
export type AppLink = Static<typeof AppLink>;

export const WorkspaceAgent = named(
  'WorkspaceAgent',
  Type.Object({
    api_version: Type.String(),
    apps: Type.Array(WorkspaceApp),
    architecture: Type.String(),
    connection_timeout_seconds: Type.Integer(),
    created_at: Timestamp,
    directory: Type.Optional(Type.String()),
    disconnected_at: Type.Optional(Timestamp),
    display_apps: Type.Array(DisplayApp),
    environment_variables: Type.Record(Type.String(), Type.String()),
    expanded_directory: Type.Optional(Type.String()),
    first_connected_at: Type.Optional(Timestamp),
    health: WorkspaceAgentHealth,
    id: Uuid,
    instance_id: Type.Optional(Type.String()),
    last_connected_at: Type.Optional(Timestamp),
    latency: Type.Optional(Type.Record(Type.String(), DERPRegion)),
    lifecycle_state: WorkspaceAgentLifecycle,
    log_sources: Type.Array(WorkspaceAgentLogSource),
    logs_length: Type.Integer(),
    logs_overflowed: Type.Boolean(),
    name: Type.String(),
    operating_system: Type.String(),
    parent_id: NullUuid,
    ready_at: Type.Optional(Timestamp),
    resource_id: Uuid,
    scripts: Type.Array(WorkspaceAgentScript),
    started_at: Type.Optional(Timestamp),
    startup_script_behavior: WorkspaceAgentStartupScriptBehavior,
    status: WorkspaceAgentStatus,
    subsystems: Type.Array(AgentSubsystem),
    troubleshooting_url: Type.String(),
    updated_at: Timestamp,
    version: Type.String(),
  }),
);
export type WorkspaceAgent = Static<typeof WorkspaceAgent>;

/** How to start an agent outside the machines that the template creates. */
export const ExternalAgentCredentials = named(
  'ExternalAgentCredentials',
  Type.Object({
    agent_token: Type.String(),
    command: Type.String({ description: 'A shell command that downloads and starts the agent.' }),
  }),
);
export type ExternalAgentCredentials = Static<typeof ExternalAgentCredentials>;

export const WorkspaceAgentContainerPort = named(
  'WorkspaceAgentContainerPort',
  Type.Object({
    host_ip: Type.String(),
    host_port: Type.Integer(),
    network: Type.String(),
    port: Type.Integer(),
  }),
);
export type WorkspaceAgentContainerPort = Static<typeof WorkspaceAgentContainerPort>;

export const WorkspaceAgentContainer = named(
  'WorkspaceAgentContainer',
  Type.Object({
    created_at: Timestamp,
    id: Type.String(),
    image: Type.String(),
    labels: Type.Record(Type.String(), Type.String()),
    name: Type.String(),
    ports: Type.Array(WorkspaceAgentContainerPort),
    running: Type.Boolean(),
    status: Type.String(),
    volumes: Type.Record(Type.String(), Type.String()),
  }),
);
export type WorkspaceAgentContainer = Static<typeof WorkspaceAgentContainer>;

export const WorkspaceAgentDevcontainerAgent = named(
  'WorkspaceAgentDevcontainerAgent',
  Type.Object({
    directory: Type.String(),
    id: Uuid,
    name: Type.String(),
  }),
);
export type WorkspaceAgentDevcontainerAgent = Static<typeof WorkspaceAgentDevcontainerAgent>;

export const WorkspaceAgentDevcontainerStatus = named(
  'WorkspaceAgentDevcontainerStatus',
  stringEnum(['running', 'stopped', 'starting', 'error']),
);
export type WorkspaceAgentDevcontainerStatus = Static<typeof WorkspaceAgentDevcontainerStatus>;

export const WorkspaceAgentDevcontainer = named(
  'WorkspaceAgentDevcontainer',
  Type.Object({
    agent: Type.Optional(WorkspaceAgentDevcontainerAgent),
    config_path: Type.Optional(Type.String()),
    container: Type.Optional(WorkspaceAgentContainer),
    dirty: Type.Boolean(),
    error: Type.Optional(Type.String()),
    id: Uuid,
    name: Type.String(),
    status: WorkspaceAgentDevcontainerStatus,
    /** The agent of it that the template declares. */
    subagent_id: Type.Union([Uuid, Type.Null()]),
    workspace_folder: Type.String(),
  }),
);
export type WorkspaceAgentDevcontainer = Static<typeof WorkspaceAgentDevcontainer>;

export const WorkspaceAgentListContainersResponse = named(
  'WorkspaceAgentListContainersResponse',
  Type.Object({
    containers: Type.Array(WorkspaceAgentContainer),
    devcontainers: Type.Array(WorkspaceAgentDevcontainer),
    warnings: Type.Optional(Type.Array(Type.String())),
  }),
);
export type WorkspaceAgentListContainersResponse = Static<typeof WorkspaceAgentListContainersResponse>;

export const WorkspaceAgentListeningPort = named(
  'WorkspaceAgentListeningPort',
  Type.Object({
    network: Type.String(),
    port: Type.Integer(),
    process_name: Type.String(),
  }),
);
export type WorkspaceAgentListeningPort = Static<typeof WorkspaceAgentListeningPort>;

export const WorkspaceAgentListeningPortsResponse = named(
  'WorkspaceAgentListeningPortsResponse',
  Type.Object({
    ports: Type.Array(WorkspaceAgentListeningPort),
  }),
);
export type WorkspaceAgentListeningPortsResponse = Static<typeof WorkspaceAgentListeningPortsResponse>;

export const WorkspaceAgentLog = named(
  'WorkspaceAgentLog',
  Type.Object({
    created_at: Timestamp,
    id: Type.Integer(),
    level: LogLevel,
    output: Type.String(),
    source_id: Uuid,
  }),
);
export type WorkspaceAgentLog = Static<typeof WorkspaceAgentLog>;

export const AgentConnectionInfo = named(
  'AgentConnectionInfo',
  Type.Object({
    derp_force_websockets: Type.Boolean(),
    derp_map: Type.Optional(TailnetDERPMap),
    disable_direct_connections: Type.Boolean(),
    hostname_suffix: Type.String(),
  }),
);
export type AgentConnectionInfo = Static<typeof AgentConnectionInfo>;
