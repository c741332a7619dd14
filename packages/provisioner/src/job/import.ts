import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { loadModule } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import {
  DataUploadType,
  LogLevel,
  MetadataSchema,
  type VariableValue,
  WorkspaceTransition,
} from '@ropewalk/wire/proto/provisioner';
import {
  type AcquiredJob_TemplateImport,
  type CompletedJob,
  CompletedJobSchema,
} from '@ropewalk/wire/proto/provisionerd';
import type { PlanFile } from '../resources/model.ts';
import { describePlan } from '../resources/resources.ts';
import type { Env } from '../terraform/env.ts';
import { readModules } from '../terraform/modules.ts';
import type { Prepared } from '../terraform/prepare.ts';
import { providerEnv } from '../terraform/provider-env.ts';
import { retryWithNewer } from './change-engine.ts';
import type { JobContext } from './context.ts';
import { freezeVersion } from './freeze.ts';
import {
  type Beside,
  type CommandOptions,
  type JobTerraform,
  planFile,
  type ShownPlan,
  usesPlugins,
  variableArgs,
} from './job-terraform.ts';
import { presetWarnings } from './preset-warnings.ts';

/** The maximum number of bytes of a message. A larger one closes the stream. */
const MAX_MESSAGE = 4 << 20;

/** The maximum number of names of left out links in the log. */
const MAX_NAMED = 20;

/** The names of the steps in errors. */
const START = 'template import provision for start';
const STOP = 'template import provision for stop';

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
  const startEnv = envFor(WorkspaceTransition.START);
  const stopEnv = envFor(WorkspaceTransition.STOP);
  const accessUrl = request.metadata?.coderUrl ?? '';
  const warn = (text: string) => shipper.say(LogLevel.WARN, text);

  const planned = await planTransitions(ctx, terraform, variables, { start: startEnv, stop: stopEnv }).catch((err) =>
    retryWithNewer(ctx, err),
  );
  const { entry, graph } = planned.prepared;
  ctx.step = START;
  const modules = await readModules(entry);
  ctx.step = '';
  const files = await freezeVersion(ctx, planned.prepared, modules);
  ctx.step = START;
  const start = describePlan(planned.start.plan, graph, warn);
  ctx.step = STOP;
  const stop = describePlan(planned.stop.plan, graph, () => {});
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

interface Planned {
  prepared: Prepared;
  start: ShownPlan;
  stop: ShownPlan;
}

/**
 * Prepares the template and plans its start and its stop. If no provider runs as a separate process, the graph and
 * both plans run at the same time. Their log and their errors are those of one after the other.
 */
async function planTransitions(
  ctx: JobContext,
  terraform: JobTerraform,
  values: VariableValue[],
  envs: { start: Env; stop: Env },
): Promise<Planned> {
  const variables = variableArgs(values);
  const plan = (
    name: 'start' | 'stop',
    { lock = true, ...more }: Pick<CommandOptions, 'logAfter' | 'onEnded'> & { lock?: boolean } = {},
  ) =>
    terraform.run(
      'plan',
      [
        ...['-no-color', '-input=false', '-json', '-refresh=true', `-out=${planFile(name)}`],
        ...(lock ? [] : ['-lock=false']),
        ...variables.args,
      ],
      { stage: 'plan', providerEnv: envs[name], env: variables.env, ...more },
    );
  const graphed = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  // without early plans, nobody waits for them
  for (const { promise } of [graphed, started]) promise.catch(() => {});
  let early: { start: Promise<void>; stop: Promise<void> } | undefined;
  const beside = async (): Promise<Beside | undefined> => {
    // large providers need much memory, and each command starts its own
    if (early || usesPlugins(ctx.session.templateDir)) return undefined;
    const ends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const onEnded = ends.map(({ resolve }) => resolve);
    early = {
      start: plan('start', { logAfter: graphed.promise, onEnded: onEnded[0] }),
      // the other plan holds the lock of the state, which neither changes
      stop: plan('stop', { logAfter: started.promise, onEnded: onEnded[1], lock: false }),
    };
    // one that cannot start ends, too
    early.start.catch(onEnded[0]);
    early.stop.catch(onEnded[1]);
    return { ended: Promise.all(ends.map(({ promise }) => promise)) };
  };
  const show = (name: 'start' | 'stop') => terraform.showPlan(planFile(name), envs[name]);
  try {
    ctx.step = START;
    ctx.shipper.stage('Detecting persistent resources');
    const prepared = await terraform.prepare(envs.start, { beside });
    await beside();
    graphed.resolve();
    await (early?.start ?? plan('start'));
    ctx.shipper.stage('Detecting ephemeral resources');
    started.resolve();
    // `terraform show` of a saved plan needs no lock, so it runs at the same time as the next plan
    const planAndShowStop = async () => {
      await (early?.stop ?? plan('stop'));
      return show('stop');
    };
    const [start, stop] = await Promise.allSettled([show('start'), planAndShowStop()]);
    if (start.status === 'rejected') throw start.reason;
    ctx.step = STOP;
    if (stop.status === 'rejected') throw stop.reason;
    return { prepared, start: start.value, stop: stop.value };
  } catch (err) {
    graphed.reject(err);
    started.reject(err);
    await Promise.allSettled([early?.start, early?.stop]);
    throw err;
  }
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
