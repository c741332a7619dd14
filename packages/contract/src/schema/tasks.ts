import { type Static, Type } from 'typebox';
import { WorkspaceStatus } from './common.ts';
import { Line, Nullable, named, ParameterValue, stringEnum, Timestamp, Uuid } from './kit.ts';
import { WorkspaceAgentHealth, WorkspaceAgentLifecycle } from './workspace-agents.ts';
import { WorkspaceBuild } from './workspaces.ts';

/** Upstream's: `active` if the workspace runs, its agent is ready and the task's app is not unhealthy. */
export const TaskStatus = named(
  'TaskStatus',
  stringEnum(['pending', 'initializing', 'active', 'paused', 'unknown', 'error']),
);
export type TaskStatus = Static<typeof TaskStatus>;

/** What the task's app reported last, or what the task waits for. */
export const TaskStateEntry = named(
  'TaskStateEntry',
  Type.Object({
    message: Type.String(),
    state: stringEnum(['working', 'idle', 'complete', 'failed']),
    timestamp: Timestamp,
    uri: Type.String(),
  }),
);
export type TaskStateEntry = Static<typeof TaskStateEntry>;

/** A workspace in which a coding agent works on a prompt. It has the workspace's id and name. */
export const Task = named(
  'Task',
  Type.Object({
    created_at: Timestamp,
    current_state: Nullable(TaskStateEntry),
    /** The title that a person gave the task, or else the beginning of the prompt. */
    display_name: Type.String(),
    id: Uuid,
    initial_prompt: Type.String(),
    name: Type.String(),
    organization_id: Uuid,
    owner_avatar_url: Type.Optional(Type.String()),
    owner_id: Uuid,
    owner_name: Type.String(),
    status: TaskStatus,
    template_display_name: Type.String(),
    template_icon: Type.String(),
    template_id: Uuid,
    template_name: Type.String(),
    template_version_id: Uuid,
    updated_at: Timestamp,
    workspace_agent_health: Nullable(WorkspaceAgentHealth),
    workspace_agent_id: Nullable(Uuid),
    workspace_agent_lifecycle: Nullable(WorkspaceAgentLifecycle),
    workspace_app_id: Nullable(Uuid),
    workspace_build_number: Type.Integer(),
    workspace_id: Nullable(Uuid),
    workspace_name: Type.String(),
    workspace_status: WorkspaceStatus,
  }),
);
export type Task = Static<typeof Task>;

export const TasksListResponse = named(
  'TasksListResponse',
  Type.Object({ count: Type.Integer(), tasks: Type.Array(Task) }),
);
export type TasksListResponse = Static<typeof TasksListResponse>;

export const CreateTaskRequest = named(
  'CreateTaskRequest',
  Type.Object({
    /** The prompt. As long as the value of a parameter may be. */
    input: ParameterValue,
    /** Of the workspace. Made from the prompt if absent or empty. */
    name: Type.Optional(Line),
    /** The title of the task, of at most 64 characters. Default: the beginning of the prompt. */
    display_name: Type.Optional(Line),
    template_version_id: Uuid,
    template_version_preset_id: Type.Optional(Uuid),
  }),
);
export type CreateTaskRequest = Static<typeof CreateTaskRequest>;

/** A prompt, or a message to the coding agent. As long as the value of a parameter may be. */
export const TaskInput = named('TaskInput', Type.Object({ input: ParameterValue }));
export type TaskInput = Static<typeof TaskInput>;

export const TaskLogEntry = named(
  'TaskLogEntry',
  Type.Object({
    content: Type.String(),
    id: Type.Integer(),
    time: Timestamp,
    /** `input` is from a person, `output` from the coding agent. */
    type: stringEnum(['input', 'output']),
  }),
);
export type TaskLogEntry = Static<typeof TaskLogEntry>;

/** The conversation of a task: from its app, or as the workspace left it at its last stop (`snapshot`). */
export const TaskLogsResponse = named(
  'TaskLogsResponse',
  Type.Object({
    logs: Type.Array(TaskLogEntry),
    snapshot: Type.Optional(Type.Boolean()),
    snapshot_at: Type.Optional(Timestamp),
  }),
);
export type TaskLogsResponse = Static<typeof TaskLogsResponse>;

/** The conversation that a workspace leaves when it stops, as the API of its coding agent lists it. */
export const TaskLogSnapshot = named(
  'TaskLogSnapshot',
  Type.Object({
    messages: Type.Array(
      Type.Object({
        content: Type.String({ maxLength: 65_536 }),
        id: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
        role: stringEnum(['agent', 'user']),
        time: Timestamp,
      }),
      { maxItems: 2_000 },
    ),
  }),
);
export type TaskLogSnapshot = Static<typeof TaskLogSnapshot>;

/** The build that stops or starts the workspace of a task. */
export const TaskBuildResponse = named('TaskBuildResponse', Type.Object({ workspace_build: WorkspaceBuild }));
export type TaskBuildResponse = Static<typeof TaskBuildResponse>;
