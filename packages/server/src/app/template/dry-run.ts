import type {
  CreateTemplateVersionDryRunRequest,
  MatchedProvisioners,
  ProvisionerJob,
  WorkspaceResource,
} from '@platform/contract';
import { AppError, checkName } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import { countMatching } from '../../db/queries/daemons.ts';
import { insertJob, type JobRow, jobById } from '../../db/queries/jobs.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { requestCancel } from '../job/cancel.ts';
import { jobAsPublished, toMatched } from '../job/convert.ts';
import { announcePending } from '../job/post.ts';
import { withAnswers } from '../work/answers.ts';
import { resourcesOfJobs } from '../workspace/resources.ts';
import { resolveParameters, versionParameters } from '../workspace-build/parameters.ts';
import { findVersion } from './find.ts';

/** Plans a workspace without making it, so that one sees its resources. Whoever may make the workspace may. */
export async function createDryRun(
  ctx: Ctx,
  versionId: string,
  input: CreateTemplateVersionDryRunRequest,
): Promise<ProvisionerJob> {
  const version = await findVersion(ctx, 'read', versionId);
  const actorId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  authorize(ctx, 'create', { type: 'workspace', organizationId: version.organization_id, ownerId: actorId });
  const imported = (await jobById(ctx.sql, version.job_id))!;
  if (imported.job_status !== 'succeeded') {
    throw new AppError('precondition', 'The template version must have been imported successfully.', {
      detail: `Its import is ${imported.job_status}.`,
    });
  }
  if (input.workspace_name) checkName('workspace_name', input.workspace_name);
  const declared = await versionParameters(ctx.sql, version.id);
  const parameters = await withAnswers(ctx, async (answers) =>
    resolveParameters(answers, declared, input.rich_parameter_values ?? [], {}, undefined),
  );
  const id = crypto.randomUUID();
  await ctx.sql.begin(async (tx) => {
    const job = await insertJob(tx, {
      id,
      organization_id: version.organization_id,
      initiator_id: actorId,
      type: 'template_version_dry_run',
      file_id: imported.file_id,
      input: {
        template_version_id: version.id,
        workspace_name: input.workspace_name ?? '',
        rich_parameter_values: parameters,
      },
      tags: imported.tags,
    });
    await announcePending(ctx, tx, job);
  });
  return jobAsPublished(ctx, ctx.sql, id);
}

/** The job of a dry run of this version, for whoever may do this with the workspace that it stands for. */
export async function findDryRun(ctx: Ctx, versionId: string, jobId: string, action: Action = 'read'): Promise<JobRow> {
  const version = await findVersion(ctx, 'read', versionId);
  if (!isUuid(jobId)) throw new AppError('invalid', `Invalid UUID "${jobId}".`);
  const job = await jobById(ctx.sql, jobId);
  if (job?.type !== 'template_version_dry_run' || job.input.template_version_id !== version.id) {
    throw notFound();
  }
  authorize(ctx, action, { type: 'workspace', organizationId: job.organization_id, ownerId: job.initiator_id });
  return job;
}

export async function getDryRun(ctx: Ctx, versionId: string, jobId: string): Promise<ProvisionerJob> {
  return jobAsPublished(ctx, ctx.sql, (await findDryRun(ctx, versionId, jobId)).id);
}

export async function cancelDryRun(ctx: Ctx, versionId: string, jobId: string): Promise<{ message: string }> {
  const job = await findDryRun(ctx, versionId, jobId, 'update');
  await requestCancel(ctx, job.id, { force: job.job_status === 'canceling' });
  return { message: 'Job has been marked as canceled...' };
}

export async function getDryRunResources(ctx: Ctx, versionId: string, jobId: string): Promise<WorkspaceResource[]> {
  const job = await findDryRun(ctx, versionId, jobId);
  if (!job.completed_at) throw new AppError('precondition', "Job hasn't completed!");
  return (await resourcesOfJobs(ctx, ctx.sql, [job.id])).get(job.id) ?? [];
}

export async function getDryRunMatched(ctx: Ctx, versionId: string, jobId: string): Promise<MatchedProvisioners> {
  const job = await findDryRun(ctx, versionId, jobId);
  return toMatched(await countMatching(ctx.sql, job.organization_id, job.tags));
}
