import type { Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { AppError } from '@ropewalk/kit';
import type { Db } from '../../db/connect.ts';
import { agentStatesOfJobs } from '../../db/queries/agents.ts';
import { buildsById } from '../../db/queries/builds.ts';
import type { WorkspaceRow } from '../../db/rows.ts';
import { latestAppStatus } from '../agent/app-status.ts';
import { agentHealth } from '../agent/health.ts';
import { agentSight } from '../agent/status.ts';
import type { Ctx } from '../context/context.ts';
import { convertRows } from '../lists/rows.ts';
import { timeToLive } from '../schedule/times.ts';
import { NEVER, optionalTime, time } from '../values/time.ts';
import { toBuilds } from './build/convert.ts';
import { sharesOf } from './shares.ts';

const nullableTime = (value: Date | null) => (value ? time(value) : null);

/** Workspaces as the API shows them, with their latest builds. Their health needs no resources. */
export async function toWorkspaces(
  ctx: Ctx,
  db: Db,
  rows: WorkspaceRow[],
  { withResources = true }: { withResources?: boolean } = {},
): Promise<Workspace[]> {
  if (rows.length === 0) return [];
  const jobIds = rows.map((row) => row.latest_job_id);
  const reading = buildsById(
    db,
    rows.map((row) => row.latest_build_id),
  );
  const [latest, failingOf, shares] = await Promise.all([
    toBuilds(ctx, db, reading, { jobIds, withResources }),
    withResources ? undefined : failingAgents(ctx, db, jobIds),
    sharesOf(ctx, db, rows),
  ]);
  const builds = new Map(latest.map((build) => [build.workspace_id, build]));
  // agents report statuses often, so a list shows only the newest
  if (rows.length > 1) for (const build of latest) keepNewestStatuses(build);
  return convertRows(ctx.log, rows, (row): Workspace => {
    const build = builds.get(row.id);
    if (!build) throw new Error('its latest build cannot be read');
    const failing = failingOf?.get(row.latest_job_id) ?? failingIn(build);
    const ttl = timeToLive(row);
    return {
      id: row.id,
      created_at: time(row.created_at),
      updated_at: time(row.updated_at),
      owner_id: row.owner_id,
      owner_name: row.owner_name,
      owner_avatar_url: row.owner_avatar_url,
      organization_id: row.organization_id,
      organization_name: row.organization_name,
      template_id: row.template_id,
      template_name: row.template_name,
      template_display_name: row.template_display_name,
      template_icon: row.template_icon,
      template_allow_user_cancel_workspace_jobs: row.allow_user_cancel_workspace_jobs,
      template_active_version_id: row.template_active_version_id,
      template_require_active_version: row.require_active_version,
      template_use_classic_parameter_flow: row.use_classic_parameter_flow,
      latest_build: build,
      latest_app_status: latestAppStatus(build.resources),
      outdated: build.template_version_id !== row.template_active_version_id,
      name: row.name,
      ...(row.autostart_schedule ? { autostart_schedule: row.autostart_schedule } : {}),
      ...(ttl > 0 ? { ttl_ms: ttl } : {}),
      last_used_at: row.last_used_at ? time(row.last_used_at) : NEVER,
      deleting_at: nullableTime(row.deleting_at),
      dormant_at: nullableTime(row.dormant_at),
      health: { healthy: failing.length === 0, failing_agents: failing },
      automatic_updates: row.automatic_updates,
      ...(row.automatic_error
        ? {
            automatic_build_error: {
              message: row.automatic_error,
              ...optionalTime('next_attempt_at', row.automatic_retry_at),
            },
          }
        : {}),
      allow_renames: ctx.config.allowWorkspaceRenames,
      favorite: row.favorite,
      next_start_at: nullableTime(row.next_start_at),
      is_prebuild: row.owner_id === PREBUILDS_USER_ID,
      ...optionalList('shared_with', shares.get(row.id)),
      ...(build.has_ai_task ? { task_id: row.id } : {}),
    };
  });
}

const optionalList = <K extends string, T>(key: K, list: T[] = []) =>
  (list.length > 0 ? { [key]: list } : {}) as { [key in K]?: T[] };

const failingIn = ({ resources }: WorkspaceBuild): string[] =>
  resources.flatMap(({ agents = [] }) => agents.filter((agent) => !agent.health.healthy).map((agent) => agent.id));

/** The ids of unhealthy agents, by the job that made them. */
async function failingAgents({ clock }: Ctx, db: Db, jobIds: string[]): Promise<Map<string, string[]>> {
  const now = clock.now();
  const failing = (await agentStatesOfJobs(db, jobIds)).filter(
    (agent) => !agentHealth(agent, agentSight(agent, now)).healthy,
  );
  const byJob = Map.groupBy(failing, (agent) => agent.job_id);
  return new Map([...byJob].map(([id, agents]) => [id, agents.map((agent) => agent.id)]));
}

function keepNewestStatuses({ resources }: WorkspaceBuild): void {
  for (const { agents = [] } of resources) {
    for (const { apps } of agents) for (const app of apps) app.statuses = app.statuses?.slice(0, 1) ?? [];
  }
}

export async function toWorkspace(ctx: Ctx, row: WorkspaceRow): Promise<Workspace> {
  const [workspace] = await toWorkspaces(ctx, ctx.sql, [row]);
  if (!workspace) throw new AppError('internal', 'The workspace cannot be read. The server log says why.');
  return workspace;
}
