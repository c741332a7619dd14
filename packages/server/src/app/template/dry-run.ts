import type {
  CreateTemplateVersionDryRunRequest,
  MatchedProvisioners,
  ProvisionerJob,
  WorkspaceResource,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkName } from '@ropewalk/rules';
import { type Allowed, allow, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import type { Tx } from '../../db/connect.ts';
import { countMatching } from '../../db/queries/daemons.ts';
import { jobById } from '../../db/queries/jobs.ts';
import type { JobRow } from '../../db/rows.ts';
import { resourcesOfJobs } from '../agent/resources.ts';
import type { Ctx } from '../context/context.ts';
import { findVersion } from '../find/template.ts';
import { requestCancel } from '../job/cancel.ts';
import { toApiJob, toMatched } from '../job/convert.ts';
import { announcePending, postJob } from '../job/post.ts';
import { beginInTurn } from '../lists/turns.ts';
import { withAnswers } from '../parameters/answers.ts';
import { buildValues } from '../parameters/values.ts';
import { isUuid } from '../values/ids.ts';

/** Plans a workspace without creating it, to show its resources. Requires the permission to create the workspace. */
export async function createDryRun(
  ctx: Ctx,
  versionId: string,
  input: CreateTemplateVersionDryRunRequest,
): Promise<ProvisionerJob> {
  const version = await findVersion(ctx, 'read', versionId);
  const actorId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  const place = authorize(ctx, 'create', {
    type: 'workspace',
    organizationId: version.organization_id,
    ownerId: actorId,
  });
  const imported = (await jobById(ctx.sql, version.job_id))!;
  if (imported.job_status !== 'succeeded') {
    throw new AppError('precondition', 'The template version must have been imported successfully.', {
      detail: `The import of the version is ${imported.job_status}.`,
    });
  }
  if (input.workspace_name) checkName('workspace_name', input.workspace_name);
  const choice = {
    versionId: version.id,
    ownerId: actorId,
    // a version without a template will be one of a template with dynamic parameters
    classic: version.use_classic_parameter_flow ?? false,
    given: input.rich_parameter_values ?? [],
    preset: {},
    last: undefined,
    trustLast: false,
  };
  const parameters = await withAnswers(ctx, (answers) => buildValues(ctx, ctx.sql, answers, choice));
  const id = crypto.randomUUID();
  const post = async (tx: Tx) => {
    const job = await postJob(ctx, tx, place, {
      id,
      initiator_id: actorId,
      type: 'template_version_dry_run',
      file_id: imported.file_id,
      template_version_id: version.id,
      input: {
        template_version_id: version.id,
        workspace_name: input.workspace_name ?? '',
        rich_parameter_values: parameters,
      },
      tags: imported.tags,
    });
    await announcePending(ctx, tx, job);
  };
  await beginInTurn(ctx, post, JSON.stringify(imported.tags));
  return toApiJob(ctx, ctx.sql, id);
}

/** A dry run, that is, its job. It is canceled like the job of a build. */
type DryRun = JobRow & { job_id: string };

/** Finds the job of a dry run of this version, for actors who may do this with the planned workspace. */
export async function findDryRun<A extends Action>(
  ctx: Ctx,
  action: A,
  versionId: string,
  jobId: string,
): Promise<Allowed<A, DryRun>> {
  const version = await findVersion(ctx, 'read', versionId);
  if (!isUuid(jobId)) throw new AppError('invalid', `Invalid UUID "${jobId}".`);
  const job = await jobById(ctx.sql, jobId);
  if (job?.type !== 'template_version_dry_run' || job.input.template_version_id !== version.id) {
    throw notFound();
  }
  const { organization_id: organizationId, initiator_id: ownerId } = job;
  return allow(ctx, action, { ...job, job_id: job.id }, { type: 'workspace', organizationId, ownerId });
}

export async function getDryRun(ctx: Ctx, versionId: string, jobId: string): Promise<ProvisionerJob> {
  return toApiJob(ctx, ctx.sql, (await findDryRun(ctx, 'read', versionId, jobId)).id);
}

export async function cancelDryRun(ctx: Ctx, versionId: string, jobId: string): Promise<{ message: string }> {
  const job = await findDryRun(ctx, 'update', versionId, jobId);
  await requestCancel(ctx, job, { force: job.job_status === 'canceling' });
  return { message: 'Job has been marked as canceled...' };
}

export async function getDryRunResources(ctx: Ctx, versionId: string, jobId: string): Promise<WorkspaceResource[]> {
  const job = await findDryRun(ctx, 'read', versionId, jobId);
  if (!job.completed_at) throw new AppError('precondition', "Job hasn't completed!");
  return (await resourcesOfJobs(ctx, ctx.sql, [job.id])).get(job.id) ?? [];
}

export async function getDryRunMatched(ctx: Ctx, versionId: string, jobId: string): Promise<MatchedProvisioners> {
  const job = await findDryRun(ctx, 'read', versionId, jobId);
  return toMatched(await countMatching(ctx.sql, job));
}
