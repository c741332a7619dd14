/**
 * A task is a workspace in which a coding agent works on a prompt. So the parts of a task are those of its workspace, and
 * its status follows from the latest build, the agent of the task's app and the app, in this order, as in upstream.
 */
import type { Task, TaskStateEntry, TaskStatus, Workspace, WorkspaceAgent, WorkspaceApp } from '@ropewalk/contract';
import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import { readScope } from '../../authz/authorize.ts';
import type { Db } from '../../db/connect.ts';
import { parameterOfBuilds } from '../../db/queries/builds.ts';
import { taskDisplayNames } from '../../db/queries/tasks.ts';
import { together } from '../../db/together.ts';
import type { Ctx } from '../context/context.ts';

/** Upstream's limit of a display name. */
export const MAX_TITLE_LENGTH = 64;

/** Tasks as upstream's API shows them. */
export async function toTasks(ctx: Ctx, db: Db, workspaces: readonly Workspace[]): Promise<Task[]> {
  if (workspaces.length === 0) return [];
  const builds = workspaces.map(({ latest_build }) => latest_build.id);
  const ids = workspaces.map(({ id }) => id);
  const [prompts, titles] = await together([
    parameterOfBuilds(db, readScope(ctx.actor, 'workspace'), builds, PROMPT_PARAMETER),
    taskDisplayNames(db, ids),
  ]);
  return workspaces.map((workspace) => {
    const prompt = prompts.get(workspace.latest_build.id) ?? '';
    return toTask(workspace, prompt, titles.get(workspace.id) ?? titleOf(prompt));
  });
}

function toTask(workspace: Workspace, prompt: string, title: string): Task {
  const { latest_build: build } = workspace;
  const { agent, app } = chatOf(workspace);
  const status = taskStatus(workspace, agent, app);
  return {
    id: workspace.id,
    organization_id: workspace.organization_id,
    owner_id: workspace.owner_id,
    owner_name: workspace.owner_name,
    owner_avatar_url: workspace.owner_avatar_url,
    name: workspace.name,
    display_name: title || workspace.name,
    template_id: workspace.template_id,
    template_version_id: build.template_version_id,
    template_name: workspace.template_name,
    template_display_name: workspace.template_display_name,
    template_icon: workspace.template_icon,
    workspace_id: workspace.id,
    workspace_name: workspace.name,
    workspace_status: build.status,
    workspace_build_number: build.build_number,
    workspace_agent_id: agent?.id ?? null,
    workspace_agent_lifecycle: agent?.lifecycle_state ?? null,
    workspace_agent_health: agent?.health ?? null,
    workspace_app_id: build.ai_task_sidebar_app_id ?? null,
    initial_prompt: prompt,
    status,
    current_state: currentState(workspace, status, agent, app),
    created_at: workspace.created_at,
    updated_at: workspace.updated_at,
  };
}

/** The beginning of a prompt: its first line with text, cut at a word. */
function titleOf(prompt: string): string {
  const line = prompt.trim().split('\n', 1)[0]!.trim();
  if (line.length <= MAX_TITLE_LENGTH) return line;
  const cut = line.slice(0, MAX_TITLE_LENGTH - 1).replace(/[\uD800-\uDBFF]$/, '');
  return `${cut.replace(/\s+\S*$/, '')}…`;
}

export interface Chat {
  agent: WorkspaceAgent | undefined;
  app: WorkspaceApp | undefined;
}

/** The app in which the coding agent works, and its workspace agent. Without an app, the first agent. */
export function chatOf({ latest_build: build }: Workspace): Chat {
  const agents = build.resources.flatMap(({ agents: some = [] }) => some);
  for (const agent of agents) {
    const app = agent.apps.find(({ id }) => id === build.ai_task_sidebar_app_id);
    if (app) return { agent, app };
  }
  return { agent: agents[0], app: undefined };
}

const READY: ReadonlySet<string> = new Set(['ready', 'start_timeout', 'start_error']);

export function taskStatus(
  { latest_build: { transition, job } }: Workspace,
  agent: Chat['agent'],
  app: Chat['app'],
): TaskStatus {
  if (job.status === 'failed' || job.status === 'canceling' || job.status === 'canceled') return 'error';
  if (transition !== 'start') return job.status === 'succeeded' ? 'paused' : 'unknown';
  if (job.status === 'pending') return 'pending';
  const lifecycle = agent?.lifecycle_state ?? 'created';
  if (lifecycle === 'created' || lifecycle === 'starting') return 'initializing';
  if (!READY.has(lifecycle)) return 'unknown';
  if (app?.health === 'initializing') return 'initializing';
  if (app?.health === 'unhealthy') return 'error';
  return app ? 'active' : 'unknown';
}

/** What the app reported last, if it reported since the workspace was started. Otherwise what a new task waits for. */
function currentState(
  { latest_app_status: report, latest_build: build }: Workspace,
  status: TaskStatus,
  agent: Chat['agent'],
  app: Chat['app'],
): TaskStateEntry | null {
  if (report && (build.transition !== 'start' || Date.parse(report.created_at) > Date.parse(build.created_at))) {
    const { state, message, uri, created_at: timestamp } = report;
    return { state: state === 'failure' ? 'failed' : state, message, uri, timestamp };
  }
  if (status !== 'initializing') return null;
  return { state: 'working', message: waitsFor(build, agent, app), uri: '', timestamp: build.created_at };
}

function waitsFor({ status }: Workspace['latest_build'], agent: Chat['agent'], app: Chat['app']): string {
  if (status === 'pending' || status === 'starting') return `Workspace is ${status}`;
  if (agent?.lifecycle_state === 'starting') return 'Agent is starting';
  return app?.health === 'initializing' && READY.has(agent?.lifecycle_state ?? '')
    ? 'App is initializing'
    : 'Agent is connecting';
}
