import type { ProvisionerJob, WorkspaceBuild, WorkspaceResource } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { Db } from '../../../db/connect.ts';
import { EXTERNAL_AGENT } from '../../../db/queries/resources.ts';
import type { BuildRow } from '../../../db/rows.ts';
import { resourcesOfJobs } from '../../agent/resources.ts';
import type { Ctx } from '../../context/context.ts';
import { jobsById } from '../../job/convert.ts';
import { convertRows } from '../../lists/rows.ts';
import { optionalTime, time } from '../../values/time.ts';

const WORDS = {
  start: ['starting', 'running'],
  stop: ['stopping', 'stopped'],
  delete: ['deleting', 'deleted'],
} as const;

/** The statuses of a stop after which the start of its restart can come. */
const RESTARTS: ReadonlySet<ProvisionerJob['status']> = new Set(['pending', 'running', 'succeeded']);

/** A workspace's status, from the transition and the job status of its latest build. */
export function workspaceStatus(
  job: ProvisionerJob['status'],
  transition: BuildRow['transition'],
): WorkspaceBuild['status'] {
  switch (job) {
    case 'running':
      return WORDS[transition][0];
    case 'succeeded':
      return WORDS[transition][1];
    case 'unknown':
      return 'failed';
    default:
      return job;
  }
}

/**
 * Builds in upstream's shape, with their jobs, resources and agents, in a few queries for any number. A caller that has
 * the jobs' ids need not wait for the rows, and one that shows no resources need not have them read.
 */
export async function toBuilds(
  ctx: Ctx,
  db: Db,
  reading: BuildRow[] | Promise<BuildRow[]>,
  { jobIds: known, withResources = true }: { jobIds?: string[]; withResources?: boolean } = {},
): Promise<WorkspaceBuild[]> {
  const jobIds = known ?? (await reading).map((row) => row.job_id);
  const [rows, jobs] = await Promise.all([reading, jobsById(ctx, db, jobIds)]);
  // read after the jobs: a job that is seen as succeeded then has all its resources
  const resources = await resourcesOfJobs(ctx, db, withResources ? jobIds : []);
  return convertRows(ctx.log, rows, (row) => {
    const job = jobs.get(row.job_id);
    if (!job) throw new Error('its job cannot be read');
    const build = toBuild(row, job, resources.get(row.job_id) ?? []);
    return job.pending_reason ? { ...build, matched_provisioners: job.pending_reason.matched_provisioners } : build;
  });
}

export async function toBuildAlone(ctx: Ctx, db: Db, row: BuildRow): Promise<WorkspaceBuild> {
  const [build] = await toBuilds(ctx, db, [row]);
  if (!build) throw new AppError('internal', 'The build cannot be read. The server log says why.');
  return build;
}

function toBuild(row: BuildRow, job: ProvisionerJob, resources: WorkspaceResource[]): WorkspaceBuild {
  return {
    id: row.id,
    created_at: time(row.created_at),
    updated_at: time(row.updated_at),
    workspace_id: row.workspace_id,
    workspace_name: row.workspace_name,
    workspace_owner_id: row.owner_id,
    workspace_owner_name: row.owner_name,
    workspace_owner_avatar_url: row.owner_avatar_url,
    template_version_id: row.template_version_id,
    template_version_name: row.template_version_name,
    build_number: row.build_number,
    transition: row.transition,
    initiator_id: row.initiator_id,
    initiator_name: row.initiator_name,
    job,
    reason: row.reason as WorkspaceBuild['reason'],
    resources,
    ...optionalTime('deadline', row.deadline),
    ...optionalTime('max_deadline', row.max_deadline),
    status: workspaceStatus(job.status, row.transition),
    daily_cost: row.daily_cost,
    template_version_preset_id: row.template_version_preset_id,
    ...(row.has_ai_task === null ? {} : { has_ai_task: row.has_ai_task }),
    ...(resources.some(({ type }) => type === EXTERNAL_AGENT) ? { has_external_agent: true } : {}),
    ...(row.warning ? { warning: row.warning } : {}),
    ...(row.restarts && RESTARTS.has(job.status) ? { restart_pending: true } : {}),
    ...(row.ai_task_sidebar_app_id ? { ai_task_sidebar_app_id: row.ai_task_sidebar_app_id } : {}),
  };
}
