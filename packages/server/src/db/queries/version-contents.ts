// The results of the import of a template version.

import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import type { Db, Tx } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { JobRow, Tags } from '../rows.ts';

export interface ParameterRow {
  name: string;
  display_name: string;
  description: string;
  type: 'string' | 'number' | 'bool' | 'list(string)';
  form_type: string;
  mutable: boolean;
  ephemeral: boolean;
  required: boolean;
  default_value: string;
  icon: string;
  options: { name: string; description: string; value: string; icon: string }[];
  validation_regex: string;
  validation_min: number | null;
  validation_max: number | null;
  validation_monotonic: string;
  validation_error: string;
  display_order: number;
}

export async function versionParameters(db: Db, versionId: string): Promise<ParameterRow[]> {
  return db<ParameterRow[]>`SELECT * FROM template_version_parameters WHERE template_version_id = ${versionId}
    ORDER BY display_order, lower(name), name`;
}

/** The tags of a version's import, and whether its files may name tags for workspaces. */
export async function versionTags(db: Db, versionId: string): Promise<{ tags: Tags; names_tags: boolean } | undefined> {
  // files of older servers were not searched
  const [version] = await db<{ tags: Tags; names_tags: boolean }[]>`
    SELECT j.tags, EXISTS (SELECT FROM files f WHERE f.id IN (j.file_id, t.module_files_id)
      AND coalesce(f.names_workspace_tags, position('coder_workspace_tags'::bytea IN f.data) > 0)) AS names_tags
    FROM template_versions tv JOIN provisioner_jobs j ON j.id = tv.job_id
    LEFT JOIN template_version_terraform_values t ON t.template_version_id = tv.id WHERE tv.id = ${versionId}`;
  return version;
}

export interface VariableValue {
  name: string;
  type: string;
  value: string;
  /** Whether somebody set the value. Otherwise it is the default, which Terraform reads from the template's files. */
  given: boolean;
  sensitive: boolean;
}

/** The variables of a version with their values, including sensitive ones: for builds, never for people. */
export async function variableValues(db: Db, versionId: string): Promise<VariableValue[]> {
  return db<VariableValue[]>`SELECT name, type, value, given, sensitive FROM template_version_variables
    WHERE template_version_id = ${versionId}`;
}

/**
 * The values that somebody set in the active version of the template that a version belongs to. A value that equals its
 * default is left out, because a changed default must take effect.
 */
export async function activeVariableValues(db: Db, versionId: string): Promise<{ name: string; value: string }[]> {
  return db<{ name: string; value: string }[]>`
    SELECT v.name, v.value FROM template_versions tv
    JOIN templates t ON t.id = tv.template_id JOIN template_version_variables v ON v.template_version_id = t.active_version_id
    WHERE tv.id = ${versionId} AND v.given AND v.value <> v.default_value`;
}

/** A version whose import the writer owns. */
export type OwnedVersion = Owned<{ version_id: string }>;

/** The version that a running job imports. Undefined: the job is not an import. */
export async function importedVersion(tx: Tx, job: Owned<{ id: string }>): Promise<OwnedVersion | undefined> {
  const [version] = await tx<OwnedVersion[]>`SELECT id AS version_id FROM template_versions WHERE job_id = ${job.id}`;
  return version;
}

/** The version of an import that has just ended. */
export function versionOfJob(job: Owned<Pick<JobRow, 'input'>>): OwnedVersion {
  return { version_id: job.input.template_version_id! } as OwnedVersion;
}

export async function setReadme(tx: Tx, version: OwnedVersion, readme: string): Promise<void> {
  await tx`UPDATE template_versions SET readme = ${readme} WHERE id = ${version.version_id}`;
}

export async function setHasAiTask(tx: Tx, version: OwnedVersion, hasAiTask: boolean): Promise<void> {
  await tx`UPDATE template_versions SET has_ai_task = ${hasAiTask}, updated_at = now() WHERE id = ${version.version_id}`;
}

/** Whether a version has tasks and no parameter for their prompt. */
export async function takesPromptItself(db: Db, versionId: string): Promise<boolean> {
  const found = await db`SELECT 1 FROM template_versions v WHERE id = ${versionId} AND has_ai_task AND NOT EXISTS (
    SELECT 1 FROM template_version_parameters WHERE template_version_id = v.id AND name = ${PROMPT_PARAMETER})`;
  return found.length > 0;
}

/** A tag as the daemon reports it. In a rolling upgrade, servers of older versions evaluate these. */
export async function upsertWorkspaceTag(tx: Tx, version: OwnedVersion, key: string, value: string): Promise<void> {
  await tx`INSERT INTO template_version_workspace_tags (template_version_id, key, value) VALUES (${version.version_id}, ${key}, ${value})
    ON CONFLICT (template_version_id, key) DO UPDATE SET value = excluded.value`;
}

export async function upsertVariable(
  tx: Tx,
  version: OwnedVersion,
  variable: VariableValue & { description: string; default_value: string; required: boolean; position: number },
): Promise<void> {
  await tx`INSERT INTO template_version_variables ${tx({ ...variable, template_version_id: version.version_id })}
    ON CONFLICT (template_version_id, name) DO UPDATE SET value = excluded.value, given = excluded.given`;
}

export type NewParameter = Omit<ParameterRow, 'type'> & { type: string };

export async function insertParameter(tx: Tx, version: OwnedVersion, parameter: NewParameter): Promise<void> {
  await tx`INSERT INTO template_version_parameters ${tx({
    ...parameter,
    template_version_id: version.version_id,
    options: tx.json(parameter.options) as never,
  })}`;
}

export interface NewPreset {
  name: string;
  description: string;
  icon: string;
  is_default: boolean;
  desired_instances: number | null;
  prebuild_ttl_seconds: number | null;
  prebuild_time_zone: string;
  prebuild_schedules: { cron: string; instances: number }[];
  parameters: Record<string, string>;
}

export async function insertPreset(tx: Tx, version: OwnedVersion, preset: NewPreset): Promise<void> {
  await tx`INSERT INTO template_version_presets ${tx({
    ...preset,
    template_version_id: version.version_id,
    prebuild_schedules: tx.json(preset.prebuild_schedules) as never,
    parameters: tx.json(preset.parameters) as never,
  })}`;
}

/** Stores the import results that later builds of a version need. */
export async function insertTerraformValues(
  tx: Tx,
  version: OwnedVersion,
  values: {
    cached_plan: object;
    module_files_id: string | null;
    has_parameters: boolean;
    modules_session_token: boolean;
    modules_ssh_key: boolean;
    modules_oidc_token: boolean;
    provisionerd_version: string;
    required_version: string;
    terraform_range: string | null;
  },
): Promise<void> {
  await tx`INSERT INTO template_version_terraform_values ${tx({
    ...values,
    template_version_id: version.version_id,
    cached_plan: tx.json(values.cached_plan as never) as never,
  })}`;
}
