import { AppError, errorText } from '@ropewalk/kit';
import { ParameterFormType, type RichParameter } from '@ropewalk/wire/proto/provisioner';
import type { CompletedJob_TemplateImport } from '@ropewalk/wire/proto/provisionerd';
import type { Tx } from '../../db/connect.ts';
import type { Owned } from '../../db/owned.ts';
import { fileData, setNamesWorkspaceTags } from '../../db/queries/files.ts';
import { noteInJobLog } from '../../db/queries/job-logs.ts';
import { workerApiVersion } from '../../db/queries/job-ownership.ts';
import {
  insertParameter,
  insertPreset,
  insertTerraformValues,
  type NewParameter,
  setHasAiTask,
  versionOfJob,
} from '../../db/queries/version-contents.ts';
import type { JobRow } from '../../db/rows.ts';
import { together } from '../../db/together.ts';
import type { Services } from '../context/context.ts';
import { storeExternalAuth } from '../external-auth/for-template.ts';
import { imageAddress } from '../values/image-address.ts';
import { mentionsTags, requirementOf } from './engines.ts';
import { keepModuleFiles, mentionsParameters } from './module-files.ts';
import { insertModules, insertResources } from './resources.ts';

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
  'The server did not receive the files of the fetched modules. It cannot determine which secrets of the owner they read, ' +
  "so every build of this version gets the owner's session token and git SSH key.";

/**
 * Stores the results of an import in its template version.
 * @throws AppError `invalid` for names that the platform does not allow
 */
export async function storeImport(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  done: CompletedJob_TemplateImport,
): Promise<void> {
  const version = versionOfJob(job);
  await insertResources(tx, job, 'start', done.startResources);
  await insertResources(tx, job, 'stop', done.stopResources);
  await insertModules(tx, job, 'start', done.startModules);
  // daemons from API 1.15 on report the modules once for both
  await insertModules(tx, job, 'stop', done.stopModules.length > 0 ? done.stopModules : done.startModules);
  await together(done.richParameters.map((parameter) => insertParameter(tx, version, toParameter(parameter))));
  for (const preset of done.presets) {
    await insertPreset(tx, version, {
      name: preset.name,
      description: preset.description,
      icon: imageAddress(preset.icon),
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
  await storeExternalAuth(services, tx, job, done);
  await setHasAiTask(tx, version, done.hasAiTasks);
  await storeTerraformValues(tx, job, done);
}

async function storeTerraformValues(tx: Tx, job: Owned<JobRow>, done: CompletedJob_TemplateImport): Promise<void> {
  const modules = await keepModuleFiles(tx, done);
  if (modules.missing) await noteInJobLog(tx, job, 'warn', MODULES_MISSING);
  const plan = done.plan.length > 0 ? parsePlan(done.plan) : {};
  const apiVersion = await workerApiVersion(tx, job);
  const archive = await fileData(tx, job.file_id);
  const required = await requirementOf(
    [archive, modules.archive].filter((data) => data !== undefined),
    job.required_version,
  );
  const version = versionOfJob(job);
  if (modules.fileId && modules.archive)
    await setNamesWorkspaceTags(tx, version, modules.fileId, mentionsTags(modules.archive));
  await insertTerraformValues(tx, version, {
    cached_plan: plan,
    module_files_id: modules.fileId ?? null,
    has_parameters: modules.parameters || archive === undefined || mentionsParameters(archive),
    modules_session_token: modules.secrets.sessionToken,
    modules_ssh_key: modules.secrets.sshKey,
    modules_oidc_token: modules.secrets.oidcToken,
    provisionerd_version: apiVersion ?? '',
    required_version: required.text,
    terraform_range: required.range,
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
    icon: imageAddress(parameter.icon),
    options: parameter.options.map(({ name, description, value, icon }) => ({
      name,
      description,
      value,
      icon: imageAddress(icon),
    })),
    validation_regex: parameter.validationRegex,
    validation_min: parameter.validationMin ?? null,
    validation_max: parameter.validationMax ?? null,
    validation_monotonic: parameter.validationMonotonic,
    validation_error: parameter.validationError,
    display_order: parameter.order,
  };
}
