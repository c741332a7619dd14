import type {
  Preset,
  TemplateVersion,
  TemplateVersionParameter,
  TemplateVersionVariable,
  WorkspaceResource,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { versionPresets, versionVariables } from '../../db/queries/template-versions.ts';
import { type ParameterRow, versionParameters } from '../../db/queries/version-contents.ts';
import type { VersionRow } from '../../db/rows.ts';
import { resourcesOfJobs } from '../agent/resources.ts';
import type { Ctx } from '../context/context.ts';
import { findVersion } from '../find/template.ts';
import { toVersions } from './convert.ts';

export async function getVersion(ctx: Ctx, id: string): Promise<TemplateVersion> {
  const [version] = await toVersions(ctx, ctx.sql, [await findVersion(ctx, 'read', id)]);
  return version!;
}

/** A version whose import is over: before that, what it holds is not known. */
async function importedVersion(ctx: Ctx, id: string): Promise<VersionRow> {
  const version = await findVersion(ctx, 'read', id);
  if (['pending', 'running', 'canceling'].includes(version.job_status)) {
    throw new AppError('precondition', "Template version import job hasn't completed!", {
      detail: `The import job is ${version.job_status}.`,
    });
  }
  return version;
}

/** The resources of a workspace of this version, both running and stopped. */
export async function getVersionResources(ctx: Ctx, id: string): Promise<WorkspaceResource[]> {
  const version = await importedVersion(ctx, id);
  return (await resourcesOfJobs(ctx, ctx.sql, [version.job_id])).get(version.job_id) ?? [];
}

export async function getVersionParameters(ctx: Ctx, id: string): Promise<TemplateVersionParameter[]> {
  const version = await importedVersion(ctx, id);
  const rows = await versionParameters(ctx.sql, version.id);
  const { plainText } = await import('../markdown/plain-text.ts');
  return rows.map((row) => toParameter(row, plainText(row.description)));
}

function toParameter(row: ParameterRow, description_plaintext: string): TemplateVersionParameter {
  const monotonic = row.validation_monotonic;
  return {
    name: row.name,
    display_name: row.display_name,
    description: row.description,
    description_plaintext,
    type: row.type,
    form_type: row.form_type as TemplateVersionParameter['form_type'],
    mutable: row.mutable,
    default_value: row.default_value,
    icon: row.icon,
    options: row.options,
    validation_error: row.validation_error,
    validation_regex: row.validation_regex,
    ...(row.validation_min === null ? {} : { validation_min: row.validation_min }),
    ...(row.validation_max === null ? {} : { validation_max: row.validation_max }),
    ...(monotonic === 'increasing' || monotonic === 'decreasing' ? { validation_monotonic: monotonic } : {}),
    required: row.required,
    ephemeral: row.ephemeral,
  };
}

export async function getVersionPresets(ctx: Ctx, id: string): Promise<Preset[]> {
  const version = await findVersion(ctx, 'read', id);
  const rows = await versionPresets(ctx.sql, version.id);
  return rows.map((row) => ({
    ID: row.id,
    Name: row.name,
    Parameters: Object.entries(row.parameters).map(([Name, Value]) => ({ Name, Value })),
    Default: row.is_default,
    DesiredPrebuildInstances: row.desired_instances,
    Description: row.description,
    Icon: row.icon,
  }));
}

/** The Terraform variables of a version. Sensitive values are redacted. Types other than number and bool are text. */
export async function getVersionVariables(ctx: Ctx, id: string): Promise<TemplateVersionVariable[]> {
  const version = await importedVersion(ctx, id);
  const rows = await versionVariables(ctx.sql, version.id);
  return rows.map((row) => ({
    ...row,
    type: row.type === 'number' || row.type === 'bool' ? row.type : 'string',
  }));
}
