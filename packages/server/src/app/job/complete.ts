import { AppError, errorText } from '@platform/kit';
import { ParameterFormType, type RichParameter, type Timing, TimingState } from '@platform/wire/proto/provisioner';
import type {
  CompletedJob,
  CompletedJob_TemplateImport,
  CompletedJob_WorkspaceBuild,
  FailedJob,
} from '@platform/wire/proto/provisionerd';
import type { Tx } from '../../db/connect.ts';
import { buildOfJob, insertOrphanState, setBuildWarning } from '../../db/queries/build-states.ts';
import { completeBuild, setSidebarApp, workspaceOfBuild } from '../../db/queries/builds.ts';
import { noteInJobLog } from '../../db/queries/job-logs.ts';
import {
  finishJob,
  type Owned,
  type Ownership,
  ownershipState,
  workerApiVersion,
} from '../../db/queries/job-ownership.ts';
import type { JobRow } from '../../db/queries/jobs.ts';
import { insertJobTimings } from '../../db/queries/timings.ts';
import {
  insertParameter,
  insertPreset,
  insertTerraformValues,
  type NewParameter,
  setHasAiTask,
  versionOfJob,
} from '../../db/queries/version-contents.ts';
import { markWorkspaceDeleted } from '../../db/queries/workspaces.ts';
import { askToReinit } from '../agent/reinit.ts';
import type { Services } from '../context.ts';
import { storeExternalAuth } from '../template/external-auth.ts';
import { checkJobBounds } from './bounds.ts';
import { keepModuleFiles } from './module-files.ts';
import { appOfJob, insertModules, insertResources } from './resources.ts';
import { offerState, readState, refusalReason, refusalText, type StateObserver } from './state.ts';

const FORM_TYPES: Record<number, string> = {
  [ParameterFormType.DEFAULT]: '',
  [ParameterFormType.FORM_ERROR]: 'error',
  [ParameterFormType.RADIO]: 'radio',
  [ParameterFormType.DROPDOWN]: 'dropdown',
  [ParameterFormType.INPUT]: 'input',
  [ParameterFormType.TEXTAREA]: 'textarea',
  [ParameterFormType.SLIDER]: 'slider',
  [ParameterFormType.CHECKBOX]: 'checkbox',
  [ParameterFormType.SWITCH]: 'switch',
  [ParameterFormType.TAGSELECT]: 'tag-select',
  [ParameterFormType.MULTISELECT]: 'multi-select',
};

const MODULES_MISSING =
  'The server did not get the files of the fetched modules. It cannot tell which secrets of the owner they read, so ' +
  "that every build of this version gets the owner's session token and git SSH key.";

/** Why a worker's write was rejected. Published daemons compare the texts. */
export async function notOwned(services: Services, own: Ownership): Promise<AppError> {
  const job = await ownershipState(services.sql, own);
  if (!job) return new AppError('not_found', 'job not found');
  if (job.mine && job.completed) return new AppError('conflict', 'job already completed');
  if (!job.started) return new AppError('conflict', "job isn't running yet");
  return new AppError('conflict', "you don't own this job");
}

/** A completed build came with a state that must not replace the known one. */
class RefusedState extends AppError {
  constructor(message: string) {
    super('invalid', message);
    this.name = 'RefusedState';
  }
}

/**
 * Ends a job with what it made, all or nothing. What the platform can't carry (a bad agent name, say) ends the job as
 * failed with that reason; a build's state is kept in any case.
 */
export async function completeJob(
  services: Services,
  own: Ownership,
  done: CompletedJob,
  observer?: StateObserver,
): Promise<void> {
  const { sql } = services;
  try {
    await sql.begin(async (tx) => {
      const job = await finishJob(tx, own, {});
      if (!job) throw await notOwned(services, own);
      checkJobBounds(done);
      await store(services, tx, job, done, observer);
      await announce(services, tx, job);
    });
  } catch (err) {
    if (!(err instanceof AppError) || err.code !== 'invalid') throw err;
    // counted already
    const rest = err instanceof RefusedState ? undefined : observer;
    await failOwned(
      services,
      own,
      errorText(err),
      '',
      done.type.case === 'workspaceBuild' ? done.type.value : undefined,
      rest,
    );
  }
}

async function store(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  done: CompletedJob,
  observer: StateObserver | undefined,
): Promise<void> {
  switch (done.type.case) {
    case 'templateImport':
      return storeImport(tx, job, done.type.value);
    case 'workspaceBuild':
      return storeBuild(services, tx, job, done.type.value, observer);
    case 'templateDryRun':
      await insertResources(tx, job, 'start', done.type.value.resources);
      await insertModules(tx, job, 'start', done.type.value.modules);
      return;
    default:
      throw new AppError('invalid', 'The daemon completed the job without saying of which type it is.');
  }
}

async function storeImport(tx: Tx, job: Owned<JobRow>, done: CompletedJob_TemplateImport): Promise<void> {
  const version = versionOfJob(job);
  await insertResources(tx, job, 'start', done.startResources);
  await insertResources(tx, job, 'stop', done.stopResources);
  await insertModules(tx, job, 'start', done.startModules);
  await insertModules(tx, job, 'stop', done.stopModules);
  for (const parameter of done.richParameters) await insertParameter(tx, version, toParameter(parameter));
  for (const preset of done.presets) {
    await insertPreset(tx, version, {
      name: preset.name,
      description: preset.description,
      icon: preset.icon,
      is_default: preset.default,
      desired_instances: preset.prebuild?.instances || null,
      prebuild_ttl_seconds: preset.prebuild?.expirationPolicy?.ttl || null,
      prebuild_time_zone: preset.prebuild?.scheduling?.timezone ?? '',
      prebuild_schedules: (preset.prebuild?.scheduling?.schedule ?? []).map(({ cron, instances }) => ({
        cron,
        instances,
      })),
      parameters: Object.fromEntries(preset.parameters.map(({ name, value }) => [name, value])),
    });
  }
  const prebuilt = done.presets.filter(({ prebuild }) => (prebuild?.instances ?? 0) > 0).map(({ name }) => name);
  if (prebuilt.length > 0) {
    const output = `Presets ask for prebuilt workspaces (${prebuilt.join(', ')}): this server makes none yet.`;
    await noteInJobLog(tx, job, 'warn', output);
  }
  await storeExternalAuth(tx, job, done);
  await setHasAiTask(tx, version, done.hasAiTasks);
  await storeTerraformValues(tx, job, done);
}

async function storeTerraformValues(tx: Tx, job: Owned<JobRow>, done: CompletedJob_TemplateImport): Promise<void> {
  const modules = await keepModuleFiles(tx, done);
  if (modules.missing) await noteInJobLog(tx, job, 'warn', MODULES_MISSING);
  const plan = done.plan.length > 0 ? parsePlan(done.plan) : {};
  const apiVersion = await workerApiVersion(tx, job);
  await insertTerraformValues(tx, versionOfJob(job), {
    cached_plan: plan,
    module_files_id: modules.fileId ?? null,
    modules_session_token: modules.secrets.sessionToken,
    modules_ssh_key: modules.secrets.sshKey,
    provisionerd_version: apiVersion ?? '',
  });
}

function parsePlan(bytes: Uint8Array): object {
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8')) as object;
  } catch (err) {
    throw new AppError('invalid', `The daemon sent a plan that is not JSON: ${errorText(err)}`, { cause: err });
  }
}

function toParameter(parameter: RichParameter): NewParameter {
  return {
    name: parameter.name,
    display_name: parameter.displayName,
    description: parameter.description,
    type: parameter.type,
    form_type: FORM_TYPES[parameter.formType] ?? '',
    mutable: parameter.mutable,
    ephemeral: parameter.ephemeral,
    required: parameter.required,
    default_value: parameter.defaultValue,
    icon: parameter.icon,
    options: parameter.options.map(({ name, description, value, icon }) => ({ name, description, value, icon })),
    validation_regex: parameter.validationRegex,
    validation_min: parameter.validationMin ?? null,
    validation_max: parameter.validationMax ?? null,
    validation_monotonic: parameter.validationMonotonic,
    validation_error: parameter.validationError,
    display_order: parameter.order,
  };
}

/** What a person reads at the end of a build log whose agent cannot start yet. */
const WAITING_TEXT =
  'The server is still building the coder executable. The agent downloads it and connects when it is ready, in about half a minute.';

async function storeBuild(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  done: CompletedJob_WorkspaceBuild,
  observer: StateObserver | undefined,
): Promise<void> {
  // an orphaned workspace keeps its state: nothing else names what it consists of
  const refused = job.input.orphan ? undefined : await offerState(tx, buildOfJob(job), done.state, 'complete');
  if (refused) {
    // What the build made or destroyed is not known: it cannot count as done, least of all a deletion.
    observer?.stateRefused('complete', refused);
    throw new RefusedState(refusalText(refused));
  }
  const build = await completeBuild(tx, buildOfJob(job), {
    dailyCost: done.resources.reduce((sum, resource) => sum + resource.dailyCost, 0),
    hasAiTask: done.aiTasks.length > 0,
  });
  await insertResources(tx, job, build.transition, done.resources, { build: true });
  if (services.agentsWait() && build.transition === 'start' && done.resources.some(({ agents }) => agents.length > 0)) {
    await noteInJobLog(tx, job, 'info', WAITING_TEXT);
  }
  const sidebarApp = done.aiTasks[0]?.sidebarApp?.id;
  if (sidebarApp) {
    await setSidebarApp(tx, build, await appOfJob(tx, job.id, sidebarApp));
  }
  await insertModules(tx, job, build.transition, done.modules);
  await insertTimings(tx, job, done.timings);
  if (job.input.prebuilt_stage === 'claim') await askToReinit(services, tx, build.workspace_id);
  if (build.transition === 'delete') {
    await markWorkspaceDeleted(tx, build);
  }
}

const MOST_TIMINGS = 100_000;
const STAGES = new Set(['init', 'plan', 'graph', 'apply']);

async function insertTimings(tx: Tx, job: Owned<JobRow>, timings: Timing[]): Promise<void> {
  const at = (time: { seconds: bigint; nanos: number }) => new Date(Number(time.seconds) * 1000 + time.nanos / 1e6);
  const given = timings.flatMap(({ start, end, stage, source, action, resource, state }) =>
    start && end && STAGES.has(stage) && state !== TimingState.STARTED
      ? [{ started_at: at(start), ended_at: at(end), stage, source, action, resource }]
      : [],
  );
  // an impossible time is no reason to lose what was built
  const isTime = (date: Date) => !Number.isNaN(date.getTime());
  const rows = given.filter(({ started_at: from, ended_at: to }) => isTime(from) && isTime(to)).slice(0, MOST_TIMINGS);
  await insertJobTimings(tx, job, rows);
}

/** Of the text that a failed job keeps; its log has the rest. */
const LONGEST_ERROR = 65_536;

/** Ends a job as failed for its owner. A build's state, if the daemon has one, is kept; none means: keep the one before. */
export async function failJob(
  services: Services,
  own: Ownership,
  failed: FailedJob,
  observer?: StateObserver,
): Promise<void> {
  const build = failed.type.case === 'workspaceBuild' ? failed.type.value : undefined;
  // others than published clients know tell nobody anything
  const code = failed.errorCode === 'REQUIRED_TEMPLATE_VARIABLES' ? failed.errorCode : '';
  const error = failed.error.slice(0, LONGEST_ERROR) || 'The job failed without a reason.';
  await failOwned(services, own, error, code, build, observer);
}

async function failOwned(
  services: Services,
  own: Ownership,
  error: string,
  errorCode: string,
  build: { state: Uint8Array; timings: Timing[] } | undefined,
  observer: StateObserver | undefined,
): Promise<void> {
  await services.sql.begin(async (tx) => {
    const job = await finishJob(tx, own, { error, errorCode });
    if (!job) throw await notOwned(services, own);
    if (job.type === 'workspace_build' && build) {
      if (build.state.length > 0) await keepState(services, tx, job, build.state, observer);
      await insertTimings(tx, job, build.timings);
    }
    await announce(services, tx, job);
  });
}

/** Stores the state that a failed build left; if it must not replace the known one, it is kept beside it. */
async function keepState(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  bytes: Uint8Array,
  observer: StateObserver | undefined,
): Promise<void> {
  const build = buildOfJob(job);
  const refused = await offerState(tx, build, bytes, 'fail');
  if (!refused) return;
  observer?.stateRefused('fail', refused);
  services.log.warn('did not store the state of a failed build', { job_id: job.id, reason: refused });
  const state = readState(bytes);
  if (state) await insertOrphanState(tx, build, state, refusalReason(refused));
  else await setBuildWarning(tx, build, refusalText(refused));
}

/** Wakes those who watch a job that has ended. */
export async function announce(services: Services, tx: Tx, job: JobRow): Promise<void> {
  await services.events.publish(tx, 'job_changed', { job_id: job.id, end: true });
  if (job.type === 'workspace_build') {
    const row = await workspaceOfBuild(tx, job.input.workspace_build_id!);
    if (row) await services.events.publish(tx, 'workspace_changed', { ...row, agents_outdated: true });
  }
}
