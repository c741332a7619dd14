import type { ProvisionerTiming, WorkspaceBuild, WorkspaceBuildTimings, WorkspaceResource } from '@platform/contract';
import { AppError } from '@platform/kit';
import { authorize, may } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import {
  type BuildRow,
  buildById,
  buildByNumber,
  buildParameters,
  latestBuild,
  listBuilds,
} from '../../db/queries/builds.ts';
import { jobById } from '../../db/queries/jobs.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { requestCancel } from '../job/cancel.ts';
import { stateOfBuild } from '../job/state.ts';
import { badQuery, pageOf, queryTime } from '../search.ts';
import { time } from '../user/convert.ts';
import { findUser } from '../user/find.ts';
import { findWorkspace, findWorkspaceByName, workspaceObject } from '../workspace/find.ts';
import { resourcesOfJobs } from '../workspace/resources.ts';
import { toBuildAlone, toBuilds } from './convert.ts';
import type { NameValue } from './parameters.ts';

/** A build by id, of a workspace that the actor may read. */
export async function findBuild(ctx: Ctx, id: string): Promise<BuildRow> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const row = await buildById(ctx.sql, id);
  if (!row) throw notFound();
  authorize(ctx, 'read', workspaceObject(row));
  return row;
}

export async function getBuild(ctx: Ctx, id: string): Promise<WorkspaceBuild> {
  return toBuildAlone(ctx, ctx.sql, await findBuild(ctx, id));
}

export async function getBuildByNumber(
  ctx: Ctx,
  user: string,
  workspaceName: string,
  number: string,
): Promise<WorkspaceBuild> {
  const owner = await findUser(ctx, 'read', user);
  const workspace = await findWorkspaceByName(ctx, owner.id, workspaceName);
  if (!/^\d{1,9}$/.test(number)) throw new AppError('invalid', 'Failed to parse build number as integer.');
  const row = await buildByNumber(ctx.sql, workspace.id, Number(number));
  if (!row)
    throw new AppError('not_found', `Workspace ${JSON.stringify(workspaceName)} Build ${number} does not exist.`);
  return toBuildAlone(ctx, ctx.sql, row);
}

export async function getBuilds(
  ctx: Ctx,
  workspaceId: string,
  query: { after_id?: string; limit?: number; offset?: number; since?: string },
): Promise<WorkspaceBuild[]> {
  const workspace = await findWorkspace(ctx, workspaceId, { deleted: true });
  const since = queryTime('since', query.since || undefined);
  const after = query.after_id;
  const newerThan = after === undefined ? undefined : await numberOf(ctx, workspace.id, after);
  return toBuilds(ctx, ctx.sql, await listBuilds(ctx.sql, workspace.id, { ...pageOf(query), since, newerThan }));
}

/** The number of a build that a reader has come to: what it wants is newer. */
async function numberOf({ sql }: Ctx, workspaceId: string, id: string): Promise<number> {
  const [build] = isUuid(id)
    ? await sql<{ build_number: number }[]>`
        SELECT build_number FROM workspace_builds WHERE id = ${id} AND workspace_id = ${workspaceId}`
    : [];
  if (build) return build.build_number;
  throw badQuery('after_id', 'must be a build of this workspace');
}

export async function getBuildParameters(ctx: Ctx, id: string): Promise<NameValue[]> {
  const build = await findBuild(ctx, id);
  return (await buildParameters(ctx.sql, build.id)).map(({ name, value }) => ({ name, value }));
}

export async function getBuildResources(ctx: Ctx, id: string): Promise<WorkspaceResource[]> {
  const build = await findBuild(ctx, id);
  return (await resourcesOfJobs(ctx, ctx.sql, [build.job_id])).get(build.job_id) ?? [];
}

/** Terraform's state holds secrets: only who may change the template sees it. */
export async function getBuildState(ctx: Ctx, id: string): Promise<Buffer> {
  const build = await findBuild(ctx, id);
  authorize(ctx, 'update', { type: 'template', organizationId: build.organization_id });
  return (await stateOfBuild(ctx.sql, id)) ?? Buffer.alloc(0);
}

/** Cancels a build. A pending one needs no daemon; a second call on a running one forces its end. */
export async function cancelBuild(
  ctx: Ctx,
  id: string,
  expectStatus: string | undefined,
): Promise<{ message: string }> {
  const build = await findBuild(ctx, id);
  if (expectStatus !== undefined && expectStatus !== 'running' && expectStatus !== 'pending') {
    throw new AppError('invalid', `Invalid expect_status ${JSON.stringify(expectStatus)}: must be running or pending.`);
  }
  const workspace = await findWorkspace(ctx, build.workspace_id, { deleted: true });
  authorize(ctx, 'update', workspaceObject(workspace));
  const owns = may(ctx.actor, 'update', { type: 'template', organizationId: workspace.organization_id });
  if (!workspace.allow_user_cancel_workspace_jobs && !owns && expectStatus !== 'pending') {
    throw new AppError('forbidden', 'User is not allowed to cancel workspace builds. Owner role is required.');
  }
  const job = await jobById(ctx.sql, build.job_id);
  if (expectStatus !== undefined && job && job.job_status !== expectStatus) {
    throw new AppError(
      'precondition',
      `Job is not in the expected state: expected ${expectStatus}, was ${job.job_status}.`,
    );
  }
  await requestCancel(ctx, build.job_id, { force: job?.job_status === 'canceling' });
  return { message: 'Job has been marked as canceled...' };
}

export async function getWorkspaceTimings(ctx: Ctx, workspaceId: string): Promise<WorkspaceBuildTimings> {
  const workspace = await findWorkspace(ctx, workspaceId, { deleted: true });
  const build = await latestBuild(ctx.sql, workspace.id);
  return timingsOf(ctx, build!.job_id);
}

export async function getBuildTimings(ctx: Ctx, id: string): Promise<WorkspaceBuildTimings> {
  return timingsOf(ctx, (await findBuild(ctx, id)).job_id);
}

async function timingsOf(ctx: Ctx, jobId: string): Promise<WorkspaceBuildTimings> {
  const { sql } = ctx;
  const [provisioner, scripts, agents] = await Promise.all([
    sql<
      {
        job_id: string;
        started_at: Date;
        ended_at: Date;
        stage: ProvisionerTiming['stage'];
        source: string;
        action: string;
        resource: string;
      }[]
    >`
      SELECT * FROM provisioner_job_timings WHERE job_id = ${jobId} ORDER BY started_at`,
    sql<
      {
        started_at: Date;
        ended_at: Date;
        exit_code: number;
        stage: 'start' | 'stop' | 'cron';
        status: string;
        display_name: string;
        agent_id: string;
        agent_name: string;
      }[]
    >`
      SELECT st.*, s.display_name, a.id AS agent_id, a.name AS agent_name FROM workspace_agent_script_timings st
      JOIN workspace_agent_scripts s ON s.id = st.script_id JOIN workspace_agents a ON a.id = s.workspace_agent_id
      JOIN workspace_resources r ON r.id = a.resource_id WHERE r.job_id = ${jobId} ORDER BY st.started_at`,
    sql<{ id: string; name: string; created_at: Date; first_connected_at: Date }[]>`
      SELECT a.id, a.name, a.created_at, a.first_connected_at FROM workspace_agents a
      JOIN workspace_resources r ON r.id = a.resource_id WHERE r.job_id = ${jobId} AND a.first_connected_at IS NOT NULL`,
  ]);
  return {
    provisioner_timings: provisioner.map((row) => ({
      ...row,
      started_at: time(row.started_at),
      ended_at: time(row.ended_at),
    })),
    agent_script_timings: scripts.map((row) => ({
      started_at: time(row.started_at),
      ended_at: time(row.ended_at),
      exit_code: row.exit_code,
      stage: row.stage,
      status: row.status,
      display_name: row.display_name,
      workspace_agent_id: row.agent_id,
      workspace_agent_name: row.agent_name,
    })),
    agent_connection_timings: agents.map((row) => ({
      started_at: time(row.created_at),
      ended_at: time(row.first_connected_at),
      stage: 'connect' as const,
      workspace_agent_id: row.id,
      workspace_agent_name: row.name,
    })),
  };
}
