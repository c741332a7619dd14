import { create } from '@bufbuild/protobuf';
import { LogLevel, MetadataSchema, WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import {
  type AcquiredJob_TemplateDryRun,
  type CompletedJob,
  CompletedJobSchema,
} from '@ropewalk/wire/proto/provisionerd';
import { describePlan } from '../resources/resources.ts';
import { readModules } from '../terraform/modules.ts';
import { providerEnv } from '../terraform/provider-env.ts';
import type { JobContext } from './context.ts';
import type { JobTerraform } from './job-terraform.ts';

/** Plans a start with given parameters and returns the resources that it would create. Changes nothing. */
export async function runDryRun(
  ctx: JobContext,
  terraform: JobTerraform,
  request: AcquiredJob_TemplateDryRun,
): Promise<CompletedJob> {
  const { session, job, shipper } = ctx;
  await session.unpack(job.templateSourceArchive);
  const given = request.metadata ?? create(MetadataSchema);
  const metadata = create(MetadataSchema, {
    ...given,
    coderUrl: given.coderUrl || 'http://localhost:3000',
    workspaceTransition: WorkspaceTransition.START,
    workspaceName: given.workspaceName || 'dryrun',
    workspaceOwner: given.workspaceOwner || job.userName || 'dryrunner',
    workspaceId: given.workspaceId || crypto.randomUUID(),
    workspaceOwnerId: given.workspaceOwnerId || crypto.randomUUID(),
  });
  const env = providerEnv({ metadata, parameters: request.richParameterValues, initScripts: ctx.initScripts });
  shipper.stage('Detecting persistent resources');
  ctx.step = 'run dry-run provision job';
  const { graph, entry } = await terraform.prepare(env);
  await terraform.plan('dry-run', { variables: request.variableValues, providerEnv: env });
  const { plan } = await terraform.showPlan('dry-run', env);
  const { resources } = describePlan(plan, graph, (text) => shipper.say(LogLevel.WARN, text));
  const modules = await readModules(entry);
  return create(CompletedJobSchema, {
    jobId: job.jobId,
    type: { case: 'templateDryRun', value: { resources, modules } },
  });
}
