import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { loadModule } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import { DataUploadType, LogLevel, MetadataSchema, WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import {
  type AcquiredJob_TemplateImport,
  type CompletedJob,
  CompletedJobSchema,
} from '@ropewalk/wire/proto/provisionerd';
import type { PlanFile } from '../resources/model.ts';
import { describe, describePlan } from '../resources/resources.ts';
import { readModules } from '../terraform/modules.ts';
import { providerEnv } from '../terraform/provider-env.ts';
import { retryWithNewer } from './change-engine.ts';
import type { JobContext } from './context.ts';
import { freezeVersion } from './freeze.ts';
import type { JobTerraform } from './job-terraform.ts';
import { planTransitions, START, STOP } from './plan-transitions.ts';
import { presetWarnings } from './preset-warnings.ts';

/** The maximum number of bytes of a message. A larger one closes the stream. */
const MAX_MESSAGE = 4 << 20;

/** The maximum number of names of left out links in the log. */
const MAX_NAMED = 20;

/** Reads a template, plans its start and its stop, and returns everything that the server stores about the version. */
export async function runImport(
  ctx: JobContext,
  terraform: JobTerraform,
  request: AcquiredJob_TemplateImport,
): Promise<CompletedJob> {
  const { session, job, shipper } = ctx;
  const skipped = await session.unpack(job.templateSourceArchive);
  shipper.stage('Parsing template parameters');
  if (skipped.length > 0) {
    const shown = skipped.slice(0, MAX_NAMED).map((name) => JSON.stringify(name));
    const rest = skipped.length > MAX_NAMED ? [`${skipped.length - MAX_NAMED} more`] : [];
    const names = new Intl.ListFormat('en').format([...shown, ...rest]);
    shipper.say(
      LogLevel.WARN,
      `The template is imported without its links: ${names}. Replace them by copies of the files.`,
    );
  }
  ctx.step = 'run parse';
  const parsed = await parse(ctx);
  ctx.step = 'update job';
  await shipper.flush();
  const { variableValues: variables } = await ctx.port.update({
    templateVariables: parsed.variables,
    userVariableValues: request.userVariableValues,
    readme: parsed.readme,
    workspaceTags: parsed.workspaceTags,
  });

  const envFor = (transition: WorkspaceTransition) =>
    providerEnv({
      metadata: create(MetadataSchema, {
        coderUrl: request.metadata?.coderUrl ?? '',
        workspaceOwnerGroups: request.metadata?.workspaceOwnerGroups ?? [],
        workspaceTransition: transition,
      }),
      initScripts: ctx.initScripts,
    });
  const accessUrl = request.metadata?.coderUrl ?? '';
  const warn = (text: string) => shipper.say(LogLevel.WARN, text);

  const planned = await planTransitions(
    ctx,
    terraform,
    { values: variables, declared: parsed.variables },
    { start: envFor(WorkspaceTransition.START), stop: envFor(WorkspaceTransition.STOP) },
  ).catch((err) => retryWithNewer(ctx, err));
  const { entry, graph } = planned.prepared;
  ctx.step = START;
  const modules = await readModules(entry);
  ctx.step = '';
  const files = await freezeVersion(ctx, planned.prepared, modules);
  ctx.step = START;
  const start = describePlan(planned.start.plan, graph, warn);
  ctx.step = STOP;
  const stop = describe(planned.stop, graph, () => {});
  ctx.step = '';

  const archives = [job.templateSourceArchive, files?.archive].filter((archive) => archive !== undefined);
  const imported = {
    archives,
    plan: planned.start.plan,
    presets: start.presets,
    variables,
    declared: parsed.variables,
    accessUrl,
  };
  for (const text of await presetWarnings(imported)) warn(text);

  const completed = create(CompletedJobSchema, {
    jobId: job.jobId,
    type: {
      case: 'templateImport',
      value: {
        startResources: start.resources,
        stopResources: stop.resources,
        richParameters: start.parameters,
        externalAuthProvidersNames: start.externalAuth.map(({ id }) => id),
        externalAuthProviders: start.externalAuth,
        startModules: modules,
        stopModules: modules,
        presets: start.presets,
        plan: Buffer.from(planned.start.json),
        moduleFiles: files?.archive ?? new Uint8Array(),
        moduleFilesHash: files?.hash ?? new Uint8Array(),
        hasAiTasks: start.hasAiTasks,
      },
    },
  });
  return fit(ctx, completed, planned.start.plan);
}

async function parse({ session, shipper }: JobContext) {
  const dir = session.templateDir;
  const files: Record<string, Uint8Array> = {};
  for (const entry of await readdir(dir, { withFileTypes: true }))
    if (entry.isFile() && (/\.tf(\.json)?$/.test(entry.name) || entry.name === 'README.md'))
      files[entry.name] = await readFile(join(dir, entry.name));
  const module = loadModule(files);
  shipper.resumeStage('Parse parameters');
  const errors = module.diagnostics.map(({ file, line, message }) => `${file}:${line}: ${message}`);
  for (const text of errors) shipper.say(LogLevel.ERROR, text);
  if (errors.length > 0) throw new AppError('invalid', `load module: ${errors.slice(0, 10).join('; ')}`);
  return {
    variables: module.variables.map(({ default: defaultValue, ...variable }) => ({
      ...variable,
      defaultValue: defaultValue ?? '',
    })),
    workspaceTags: module.workspaceTags,
    readme: files['README.md'] ?? new Uint8Array(),
  };
}

/** Uploads the module files before the message, in pieces, if they would make the message too large. */
async function fit({ port, shipper }: JobContext, completed: CompletedJob, plan: PlanFile): Promise<CompletedJob> {
  if (toBinary(CompletedJobSchema, completed).length <= MAX_MESSAGE || completed.type.case !== 'templateImport')
    return completed;
  const value = completed.type.value;
  if (value.moduleFiles.length > 0) {
    await port.upload({
      type: DataUploadType.UPLOAD_TYPE_MODULE_FILES,
      data: value.moduleFiles,
      hash: value.moduleFilesHash,
    });
    value.moduleFiles = new Uint8Array();
  }
  if (toBinary(CompletedJobSchema, completed).length > MAX_MESSAGE) {
    // Forms use the plan, but need its configuration least.
    const { planned_values, prior_state } = plan;
    value.plan = Buffer.from(JSON.stringify({ planned_values, prior_state }));
  }
  if (toBinary(CompletedJobSchema, completed).length > MAX_MESSAGE) {
    shipper.say(
      LogLevel.WARN,
      `The plan is too large to store (${value.plan.length} bytes), so dynamic parameters may have no values.`,
    );
    value.plan = new Uint8Array();
  }
  return completed;
}
