import type { Workspace, WorkspaceAgent, WorkspaceApp, WorkspaceAppStatus } from '@ropewalk/contract';
import { apiQuery } from '../../api/query.ts';
import { agentsOf, type StateLook, workspaceLook } from '../workspaces/status.ts';

/** The prompts of a page of builds, which never change. */
export const promptsQuery = (buildIds: readonly string[]) => ({
  ...apiQuery('GET /api/experimental/aitasks/prompts', [], { query: { build_ids: buildIds.join(',') } }),
  enabled: buildIds.length > 0,
  staleTime: Number.POSITIVE_INFINITY,
});

const STATES: Record<WorkspaceAppStatus['state'], StateLook> = {
  working: { tone: 'busy', text: 'Working' },
  idle: { tone: 'neutral', text: 'Waits for you' },
  complete: { tone: 'good', text: 'Complete' },
  failure: { tone: 'bad', text: 'Failed' },
};

export const statusLook = ({ state }: Pick<WorkspaceAppStatus, 'state'>): StateLook => STATES[state];

/** The state of a task: what its app reported last, while the workspace runs. Otherwise the state of the workspace. */
export function taskLook(workspace: Workspace): StateLook {
  const { latest_build: build, latest_app_status: status } = workspace;
  const look = workspaceLook(workspace);
  return status && build.status === 'running' && look.tone !== 'busy' ? statusLook(status) : look;
}

export interface TaskApp {
  app: WorkspaceApp;
  agent: WorkspaceAgent;
}

/** The apps of a task. The first is the one that its template shows next to the task, if there is one. */
export function taskApps({ latest_build: build }: Pick<Workspace, 'latest_build'>): TaskApp[] {
  const chosen = build.ai_task_sidebar_app_id;
  return agentsOf(build)
    .flatMap((agent) => agent.apps.map((app) => ({ app, agent })))
    .filter(({ app }) => app.id === chosen || !app.hidden)
    .toSorted((a, b) => Number(b.app.id === chosen) - Number(a.app.id === chosen));
}

/** What the apps reported, newest first. */
export const taskStatuses = (workspace: Pick<Workspace, 'latest_build'>): WorkspaceAppStatus[] =>
  agentsOf(workspace.latest_build)
    .flatMap(({ apps }) => apps.flatMap(({ statuses }) => statuses ?? []))
    .toSorted((a, b) => b.created_at.localeCompare(a.created_at));
