import type { PatchAppStatus } from '@ropewalk/contract';
import {
  AppHealth,
  Connection_Type,
  Lifecycle_State,
  Log_Level,
  Startup_Subsystem,
  Timing_Stage,
  Timing_Status,
  UpdateAppStatusRequest_AppStatusState,
  WorkspaceApp_Health,
  WorkspaceApp_SharingLevel,
} from '@ropewalk/wire/proto/agent';
import type { AgentRow, AppRow } from '../../db/rows.ts';

/** The names in rows and in the JSON API of the wire's numbers. */
export const LIFECYCLES: Record<number, AgentRow['lifecycle_state']> = {
  [Lifecycle_State.CREATED]: 'created',
  [Lifecycle_State.STARTING]: 'starting',
  [Lifecycle_State.START_TIMEOUT]: 'start_timeout',
  [Lifecycle_State.START_ERROR]: 'start_error',
  [Lifecycle_State.READY]: 'ready',
  [Lifecycle_State.SHUTTING_DOWN]: 'shutting_down',
  [Lifecycle_State.SHUTDOWN_TIMEOUT]: 'shutdown_timeout',
  [Lifecycle_State.SHUTDOWN_ERROR]: 'shutdown_error',
  [Lifecycle_State.OFF]: 'off',
};
export const LEVELS: Record<number, string> = {
  [Log_Level.TRACE]: 'trace',
  [Log_Level.DEBUG]: 'debug',
  [Log_Level.INFO]: 'info',
  [Log_Level.WARN]: 'warn',
  [Log_Level.ERROR]: 'error',
};
export const SHARING = {
  owner: WorkspaceApp_SharingLevel.OWNER,
  authenticated: WorkspaceApp_SharingLevel.AUTHENTICATED,
  organization: WorkspaceApp_SharingLevel.ORGANIZATION,
  public: WorkspaceApp_SharingLevel.PUBLIC,
} as const;
export const APP_HEALTH = {
  disabled: WorkspaceApp_Health.DISABLED,
  initializing: WorkspaceApp_Health.INITIALIZING,
  healthy: WorkspaceApp_Health.HEALTHY,
  unhealthy: WorkspaceApp_Health.UNHEALTHY,
} as const;
export const HEALTH_NAMES: Record<number, AppRow['health']> = {
  [AppHealth.DISABLED]: 'disabled',
  [AppHealth.INITIALIZING]: 'initializing',
  [AppHealth.HEALTHY]: 'healthy',
  [AppHealth.UNHEALTHY]: 'unhealthy',
};
export const APP_STATES: Record<number, PatchAppStatus['state']> = {
  [UpdateAppStatusRequest_AppStatusState.WORKING]: 'working',
  [UpdateAppStatusRequest_AppStatusState.IDLE]: 'idle',
  [UpdateAppStatusRequest_AppStatusState.COMPLETE]: 'complete',
  [UpdateAppStatusRequest_AppStatusState.FAILURE]: 'failure',
};
export const SUBSYSTEMS: Record<number, string> = {
  [Startup_Subsystem.ENVBOX]: 'envbox',
  [Startup_Subsystem.ENVBUILDER]: 'envbuilder',
  [Startup_Subsystem.EXECTRACE]: 'exectrace',
};
export const STAGES: Record<number, string> = {
  [Timing_Stage.START]: 'start',
  [Timing_Stage.STOP]: 'stop',
  [Timing_Stage.CRON]: 'cron',
};
export const STATUSES: Record<number, string> = {
  [Timing_Status.OK]: 'ok',
  [Timing_Status.EXIT_FAILURE]: 'exit_failure',
  [Timing_Status.TIMED_OUT]: 'timed_out',
  [Timing_Status.PIPES_LEFT_OPEN]: 'pipes_left_open',
};
export const CONNECTION_TYPES: Record<number, string> = {
  // the protocol has no type for forwarded ports, and upstream's agents do not report them
  [Connection_Type.TYPE_UNSPECIFIED]: 'port_forwarding',
  [Connection_Type.SSH]: 'ssh',
  [Connection_Type.VSCODE]: 'vscode',
  [Connection_Type.JETBRAINS]: 'jetbrains',
  [Connection_Type.RECONNECTING_PTY]: 'reconnecting_pty',
};
