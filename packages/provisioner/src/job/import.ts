import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { loadModule } from '@ropewalk/hcl';
import { AppError, errorText } from '@ropewalk/kit';
import { DataUploadType, LogLevel, MetadataSchema, WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import {
  type AcquiredJob_TemplateImport,
  type CompletedJob,
  CompletedJobSchema,
} from '@ropewalk/wire/proto/provisionerd';
import { type PlanFile, readPlan } from '../resources/model.ts';
import { describe } from '../resources/resources.ts';
import { archiveModules, type ModuleFiles, readModules } from '../terraform/modules.ts';
import { providerEnv } from '../terraform/provider-env.ts';
import { retryWithNewer } from './change-engine.ts';
import { freezeVersion } from './freeze.ts';
import { planTransitions } from './import-plans.ts';
import { presetWarnings } from './judge-presets.ts';
import { prefixed } from './prefixed.ts';
import type { Stages } from './stages.ts';

/** The maximum number of bytes of a message. A larger one closes the stream. */
const MAX_MESSAGE = 4 << 20;

/** The maximum number of names of left out links in the log. */
const MAX_NAMED = 20;

/** Reads a template, plans its start and its stop, and returns everything that the server stores about the version. */
export async function runImport(stages: Stages, request: AcquiredJob_TemplateImport): Promise<CompletedJob> {
  const { ctx, shipper } = stages;
  const { session, job } = ctx;
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
  const parsed = await prefixed('run parse', () => parse(stages));
  const variables = await prefixed('update job', async () => {
    await shipper.flush();
    const reply = await ctx.port.update({
      templateVariables: parsed.variables,
      userVariableValues: request.userVariableValues,
      readme: parsed.readme,
      workspaceTags: parsed.workspaceTags,
    });
    return reply.variableValues;
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
  const startEnv = envFor(WorkspaceTransition.START);
  const stopEnv = envFor(WorkspaceTransition.STOP);
  const accessUrl = request.metadata?.coderUrl ?? '';
  const warn = (text: string) => shipper.say(LogLevel.WARN, text);

  const planned = await planTransitions(stages, variables, { start: startEnv, stop: stopEnv }).catch((err) =>
    retryWithNewer(ctx, shipper, err),
  );
  const prepared = await prefixed('template import provision for start', async () => {
    const { entry, graph } = planned.prepared;
    return { graph, modules: await readModules(entry), files: await moduleFiles(stages, entry) };
  });
  await freezeVersion(stages, planned.prepared, prepared);
  const start = await prefixed('template import provision for start', async () =>
    describe(readPlan(planned.start.plan), prepared.graph, warn),
  );
  const stop = await prefixed('template import provision for stop', async () =>
    describe(readPlan(planned.stop.plan), prepared.graph, () => {}),
  );

  const archives = [job.templateSourceArchive, prepared.files?.archive].filter((archive) => archive !== undefined);
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
        startModules: prepared.modules,
        stopModules: prepared.modules,
        presets: start.presets,
        plan: Buffer.from(planned.start.json),
        moduleFiles: prepared.files?.archive ?? new Uint8Array(),
        moduleFilesHash: prepared.files?.hash ?? new Uint8Array(),
        hasAiTasks: start.hasAiTasks,
      },
    },
  });
  return fit(stages, completed, planned.start.plan);
}

/**
 * Archives the fetched modules. The template works without the archive, so a failure is only a warning, as upstream.
 */
async function moduleFiles({ ctx, shipper }: Stages, dir: string): Promise<ModuleFiles | undefined> {
  try {
    return await archiveModules(dir, { uid: ctx.session.entry.user?.uid, templateDir: ctx.session.templateDir });
  } catch (err) {
    shipper.say(LogLevel.WARN, `Cannot archive the fetched modules: ${errorText(err)}`);
    return undefined;
  }
}

/** Uploads the module files before the message, in pieces, if they would make the message too large. */
async function fit({ ctx, shipper }: Stages, completed: CompletedJob, plan: PlanFile): Promise<CompletedJob> {
  if (toBinary(CompletedJobSchema, completed).length <= MAX_MESSAGE || completed.type.case !== 'templateImport')
    return completed;
  const value = completed.type.value;
  if (value.moduleFiles.length > 0) {
    await ctx.port.upload({
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

async function parse({ ctx, shipper }: Stages) {
  const dir = ctx.session.templateDir;
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
