import type {
  AITasksPromptsResponse,
  WorkspaceBuild,
  WorkspaceBuildTimings,
  WorkspaceResource,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import { type Allowed, allow, may, readScope } from '../../../authz/authorize.ts';
import { notFound } from '../../../authz/not-found.ts';
import { versionRules } from '../../../db/queries/build-sources.ts';
import { stateOfBuild } from '../../../db/queries/build-states.ts';
import {
  buildById,
  buildByNumber,
  buildNumberOf,
  buildParameters,
  keptParameters,
  latestBuild,
  listBuilds,
  parameterOfBuilds,
} from '../../../db/queries/builds.ts';
import { jobById } from '../../../db/queries/jobs.ts';
import { connectionTimingsOfJob, scriptTimingsOfJob, timingsOfJob } from '../../../db/queries/timings.ts';
import type { BuildRow } from '../../../db/rows.ts';
import { resourcesOfJobs } from '../../agent/resources.ts';
import { audit } from '../../audit-entries/audit.ts';
import type { Ctx } from '../../context/context.ts';
import type { NameValue } from '../../evaluate/parameter-values.ts';
import { templateObject } from '../../find/template.ts';
import { findWorkspace, findWorkspaceByName, ownerIdOf, workspaceObject } from '../../find/workspace.ts';
import { requestCancel } from '../../job/cancel.ts';
import { badQuery, pageOf, queryTime } from '../../lists/search.ts';
import { isUuid } from '../../values/ids.ts';
import { time } from '../../values/time.ts';
import { toBuildAlone, toBuilds } from './convert.ts';

/** Finds a build by id, of a workspace that the actor may read. */
export async function findBuild(ctx: Ctx, id: string): Promise<Allowed<'read', BuildRow>> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const row = await buildById(ctx.sql, id);
  if (!row) throw notFound();
  return allow(ctx, 'read', row, workspaceObject(row));
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
  const ownerId = await ownerIdOf(ctx, user);
  const workspace = await findWorkspaceByName(ctx, 'read', { ownerId, name: workspaceName });
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
  const workspace = await findWorkspace(ctx, 'read', workspaceId, { deleted: true });
  const since = queryTime('since', query.since || undefined);
  const after = query.after_id;
  const newerThan = after === undefined ? undefined : await numberOf(ctx, workspace.id, after);
  return toBuilds(ctx, ctx.sql, await listBuilds(ctx.sql, workspace.id, { ...pageOf(query), since, newerThan }));
}

/** The number of the build after which a page begins. */
async function numberOf({ sql }: Ctx, workspaceId: string, id: string): Promise<number> {
  const number = isUuid(id) ? await buildNumberOf(sql, workspaceId, id) : undefined;
  if (number !== undefined) return number;
  throw badQuery('after_id', 'must be the ID of a build of this workspace');
}

/** `earlier`: whether to add the values of earlier builds for parameters that this build does not have. */
export async function getBuildParameters(ctx: Ctx, id: string, earlier = false): Promise<NameValue[]> {
  const build = await findBuild(ctx, id);
  const values = earlier ? await keptParameters(ctx.sql, build) : await buildParameters(ctx.sql, build.id);
  return values.map(({ name, value }) => ({ name, value }));
}

const MAX_PROMPTS = 100;

/** The prompts of those of the builds that the actor may read and that have one. `ids` has commas between the ids. */
export async function getPrompts(ctx: Ctx, ids: string): Promise<AITasksPromptsResponse> {
  const all = ids.split(',').map((id) => id.trim());
  const detail =
    all.length > MAX_PROMPTS
      ? `must have at most ${MAX_PROMPTS} ids`
      : all.every(isUuid)
        ? undefined
        : 'must be ids of builds with commas between them';
  if (detail) throw new AppError('invalid', 'Invalid build_ids.', { validations: [{ field: 'build_ids', detail }] });
  const prompts = await parameterOfBuilds(ctx.lists, readScope(ctx.actor, 'workspace'), all, PROMPT_PARAMETER);
  return { prompts: Object.fromEntries(prompts) };
}

export async function getBuildResources(ctx: Ctx, id: string): Promise<WorkspaceResource[]> {
  const build = await findBuild(ctx, id);
  return (await resourcesOfJobs(ctx, ctx.sql, [build.job_id])).get(build.job_id) ?? [];
}

/** Terraform's state contains secrets, so only people who may change the template can read it. */
export async function getBuildState(ctx: Ctx, id: string): Promise<Buffer> {
  const build = await findBuild(ctx, id);
  if (!may(ctx.actor, 'update', templateObject(await versionRules(ctx.sql, build.template_id)))) throw notFound();
  return (await stateOfBuild(ctx.sql, id)) ?? Buffer.alloc(0);
}

/** Cancels a build. A pending build ends immediately. A second call for a running build forces its end. */
export async function cancelBuild(
  ctx: Ctx,
  id: string,
  expectStatus: string | undefined,
): Promise<{ message: string }> {
  const build = await findBuild(ctx, id);
  if (expectStatus !== undefined && expectStatus !== 'running' && expectStatus !== 'pending') {
    throw new AppError('invalid', `Invalid expect_status ${JSON.stringify(expectStatus)}: must be running or pending.`);
  }
  const workspace = await findWorkspace(ctx, 'update', build.workspace_id, { deleted: true });
  const cancelable = allow(ctx, 'update', build, workspaceObject(build));
  if (
    !workspace.allow_user_cancel_workspace_jobs &&
    expectStatus !== 'pending' &&
    !may(ctx.actor, 'update', templateObject(await versionRules(ctx.sql, build.template_id)))
  ) {
    throw new AppError('forbidden', 'User is not allowed to cancel workspace builds. Owner role is required.');
  }
  const job = await jobById(ctx.sql, build.job_id);
  await requestCancel(ctx, cancelable, {
    force: job?.job_status === 'canceling',
    expected: expectStatus,
    record: (tx) =>
      audit(ctx, tx, {
        resourceType: 'workspace_build',
        resourceId: build.id,
        target: workspace.name,
        action: 'write',
        organizationId: workspace.organization_id,
        fields: {
          canceled: true,
          workspace_id: workspace.id,
          workspace_name: workspace.name,
          workspace_owner: workspace.owner_name,
          build_number: String(build.build_number),
          build_reason: build.reason,
        },
      }),
  });
  return { message: 'Job has been marked as canceled...' };
}

export async function getWorkspaceTimings(ctx: Ctx, workspaceId: string): Promise<WorkspaceBuildTimings> {
  const workspace = await findWorkspace(ctx, 'read', workspaceId, { deleted: true });
  const build = await latestBuild(ctx.sql, workspace.id);
  return timingsOf(ctx, build!.job_id);
}

export async function getBuildTimings(ctx: Ctx, id: string): Promise<WorkspaceBuildTimings> {
  return timingsOf(ctx, (await findBuild(ctx, id)).job_id);
}

async function timingsOf(ctx: Ctx, jobId: string): Promise<WorkspaceBuildTimings> {
  const { sql } = ctx;
  const [provisioner, scripts, agents] = await Promise.all([
    timingsOfJob(sql, jobId),
    scriptTimingsOfJob(sql, jobId),
    connectionTimingsOfJob(sql, jobId),
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
