import { type Static, Type } from 'typebox';
import { documentedAlso, Line, named, ParameterValue, stringEnum, Uuid } from './kit.ts';

export const LogLevel = named('LogLevel', stringEnum(['trace', 'debug', 'info', 'warn', 'error']));
export type LogLevel = Static<typeof LogLevel>;

export const LoginType = named('LoginType', stringEnum(['', 'password', 'github', 'oidc', 'token', 'none']));
export type LoginType = Static<typeof LoginType>;

/** How a key was made. `oauth2_provider_app`: a person let an app in. No account has that type. */
export const KeyLoginType = stringEnum(['', 'password', 'github', 'oidc', 'token', 'none', 'oauth2_provider_app']);

export const TimingStage = named(
  'TimingStage',
  stringEnum(['init', 'plan', 'graph', 'apply', 'start', 'stop', 'cron', 'connect']),
);
export type TimingStage = Static<typeof TimingStage>;

export const AgentSubsystem = named('AgentSubsystem', stringEnum(['envbox', 'envbuilder', 'exectrace']));
export type AgentSubsystem = Static<typeof AgentSubsystem>;

export const AutomaticUpdates = named('AutomaticUpdates', stringEnum(['always', 'never']));
export type AutomaticUpdates = Static<typeof AutomaticUpdates>;

export const BuildReason = named(
  'BuildReason',
  stringEnum([
    'initiator',
    'autostart',
    'autostop',
    'dormancy',
    'dashboard',
    'cli',
    'ssh_connection',
    'vscode_connection',
    'jetbrains_connection',
  ]),
);
export type BuildReason = Static<typeof BuildReason>;

export const WorkspaceAgentPortShareLevel = named(
  'WorkspaceAgentPortShareLevel',
  stringEnum(['owner', 'authenticated', 'organization', 'public']),
);
export type WorkspaceAgentPortShareLevel = Static<typeof WorkspaceAgentPortShareLevel>;

export const VariableValue = named(
  'VariableValue',
  Type.Object({
    name: Line,
    value: ParameterValue,
  }),
);
export type VariableValue = Static<typeof VariableValue>;

export const WorkspaceBuildParameter = named(
  'WorkspaceBuildParameter',
  Type.Object({
    name: Line,
    value: ParameterValue,
  }),
);
export type WorkspaceBuildParameter = Static<typeof WorkspaceBuildParameter>;

export const UserStatus = named('UserStatus', stringEnum(['active', 'dormant', 'suspended']));
export type UserStatus = Static<typeof UserStatus>;

export const WorkspaceTransition = named('WorkspaceTransition', stringEnum(['start', 'stop', 'delete']));
export type WorkspaceTransition = Static<typeof WorkspaceTransition>;

export const DisplayApp = named(
  'DisplayApp',
  stringEnum(['vscode', 'vscode_insiders', 'web_terminal', 'port_forwarding_helper', 'ssh_helper']),
);
export type DisplayApp = Static<typeof DisplayApp>;

export const SlimRole = named(
  'SlimRole',
  Type.Object({
    display_name: Type.String(),
    name: Type.String(),
    organization_id: Type.Optional(Type.String()),
  }),
);
export type SlimRole = Static<typeof SlimRole>;

export const MinimalUser = named(
  'MinimalUser',
  Type.Object({
    avatar_url: Type.Optional(Type.String()),
    id: Uuid,
    name: Type.Optional(Type.String()),
    username: Type.String(),
  }),
);
export type MinimalUser = Static<typeof MinimalUser>;

export const Region = named(
  'Region',
  Type.Object({
    display_name: Type.String(),
    healthy: Type.Boolean(),
    icon_url: Type.String(),
    id: Uuid,
    name: Type.String(),
    path_app_url: Type.String(),
    wildcard_hostname: Type.String(),
  }),
);
export type Region = Static<typeof Region>;

export const RegionsResponse = named(
  'RegionsResponse',
  Type.Object({
    regions: Type.Array(Region),
  }),
);
export type RegionsResponse = Static<typeof RegionsResponse>;

export const ValidationError = named(
  'ValidationError',
  Type.Object({
    detail: Type.String(),
    field: Type.String(),
  }),
);
export type ValidationError = Static<typeof ValidationError>;

export const Response = named(
  'Response',
  Type.Object({
    detail: Type.Optional(Type.String()),
    message: Type.String(),
    validations: Type.Optional(Type.Array(ValidationError)),
  }),
);
export type Response = Static<typeof Response>;

export const ServerSentEventType = named('ServerSentEventType', stringEnum(['ping', 'data', 'error']));
export type ServerSentEventType = Static<typeof ServerSentEventType>;

export const ServerSentEvent = named(
  'ServerSentEvent',
  Type.Object({
    data: Type.Unknown(),
    type: ServerSentEventType,
  }),
);
export type ServerSentEvent = Static<typeof ServerSentEvent>;

export const UploadResponse = named(
  'UploadResponse',
  Type.Object({
    hash: Uuid,
  }),
);
export type UploadResponse = Static<typeof UploadResponse>;

export const NullUuid = named(
  'NullUuid',
  documentedAlso(Type.Unsafe<string | null>({ type: 'string', format: 'uuid', nullable: true }), {
    type: 'object',
    properties: { uuid: { type: 'string' }, valid: { type: 'boolean' } },
  }),
);
export type NullUuid = Static<typeof NullUuid>;

export const WorkspaceStatus = named(
  'WorkspaceStatus',
  stringEnum([
    'pending',
    'starting',
    'running',
    'stopping',
    'stopped',
    'failed',
    'canceling',
    'canceled',
    'deleting',
    'deleted',
  ]),
);
export type WorkspaceStatus = Static<typeof WorkspaceStatus>;
