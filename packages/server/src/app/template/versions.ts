import type { ArchiveTemplateVersionsResponse, PatchTemplateVersionRequest, TemplateVersion } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkVersionName } from '@ropewalk/rules';
import { notFound } from '../../authz/not-found.ts';
import { type Db, isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { jobById } from '../../db/queries/jobs.ts';
import {
  archiveUnusedVersions as archiveUnused,
  archiveUnusedVersion,
  clearVersionArchived,
  versionByName as findByName,
  isVersionOf,
  lockVersion,
  previousVersion,
  setVersionName,
  versionsOfTemplate,
} from '../../db/queries/template-versions.ts';
import { lockTemplate, setActiveVersion } from '../../db/queries/templates.ts';
import type { TemplateRow, VersionRow } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { locateOrganization } from '../find/organization.ts';
import { findTemplate, findTemplateByName, findVersion } from '../find/template.ts';
import { requestCancel } from '../job/cancel.ts';
import { pageOf } from '../lists/search.ts';
import { isUuid } from '../values/ids.ts';
import { toVersions } from './convert.ts';

export interface VersionPage {
  after_id?: string;
  include_archived?: boolean;
  limit?: number;
  offset?: number;
}

/** A template's versions, oldest first. */
export async function listVersions(ctx: Ctx, templateId: string, query: VersionPage): Promise<TemplateVersion[]> {
  const template = await findTemplate(ctx, 'read', templateId);
  const { sql } = ctx;
  const page = pageOf(query);
  const afterId = query.after_id ?? null;
  if (afterId !== null && !(isUuid(afterId) && (await isVersionOf(sql, afterId, template.id)))) {
    throw new AppError('invalid', `Record at "after_id" (${afterId}) does not exist.`);
  }
  const filter = { archived: query.include_archived ?? false, afterId, ...page };
  return toVersions(ctx, sql, await versionsOfTemplate(sql, template.id, filter));
}

async function versionByName(db: Db, template: TemplateRow, name: string): Promise<VersionRow> {
  const row = await findByName(db, template.id, name);
  if (!row) throw notFound();
  return row;
}

async function toApiVersion(ctx: Ctx, row: VersionRow): Promise<TemplateVersion> {
  return (await toVersions(ctx, ctx.sql, [row]))[0]!;
}

export async function getVersionByName(ctx: Ctx, templateId: string, name: string): Promise<TemplateVersion> {
  return toApiVersion(ctx, await versionByName(ctx.sql, await findTemplate(ctx, 'read', templateId), name));
}

/** Finds a version by the names of its organization, its template and itself, or the version created before it. */
export async function getVersionByNames(
  ctx: Ctx,
  {
    organization,
    templatename,
    templateversionname,
  }: Record<'organization' | 'templatename' | 'templateversionname', string>,
  { previous = false } = {},
): Promise<TemplateVersion> {
  const { organizationId } = await locateOrganization(ctx, organization);
  const template = await findTemplateByName(ctx, organizationId, templatename);
  const version = await versionByName(ctx.sql, template, templateversionname);
  if (!previous) return toApiVersion(ctx, version);
  const before = await previousVersion(ctx.sql, version);
  if (!before) {
    throw new AppError('not_found', `No previous template version found for ${JSON.stringify(version.name)}.`);
  }
  return toApiVersion(ctx, before);
}

/** Adds the audit entry of a change of a version. */
export async function noteWrite(
  ctx: Ctx,
  db: Db,
  version: VersionRow,
  changed: Partial<VersionRow>,
  fields = {},
): Promise<void> {
  await audit(ctx, db, {
    resourceType: 'template_version',
    resourceId: version.id,
    target: version.name,
    action: 'write',
    organizationId: version.organization_id,
    before: version,
    after: { ...version, ...changed },
    fields,
  });
}

/** Changes a version's name or message. */
export async function updateVersion(
  ctx: Ctx,
  id: string,
  input: PatchTemplateVersionRequest,
): Promise<TemplateVersion> {
  const version = await findVersion(ctx, 'update', id);
  const name = input.name || version.name;
  if (name !== version.name) checkVersionName('name', name);
  const message = input.message ?? version.message;
  if (message.length > 1_048_576)
    throw new AppError('invalid', 'The message is too long: the limit is 1,048,576 characters.');
  try {
    await ctx.sql.begin(async (tx) => {
      await setVersionName(tx, version, { name, message });
      await noteWrite(ctx, tx, version, { name });
    });
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `A template version with name ${JSON.stringify(name)} already exists.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
  return toApiVersion(ctx, await findVersion(ctx, 'read', version.id));
}

/** Makes an imported version the active one, which new workspaces get. */
export async function promoteVersion(ctx: Ctx, templateId: string, versionId: string): Promise<{ message: string }> {
  const template = await findTemplate(ctx, 'update', templateId);
  await ctx.sql.begin(async (tx) => {
    // serializes with the archiving of the same version
    await lockTemplate(tx, template.id);
    const version = await lockVersion(tx, versionId);
    if (!version) throw new AppError('not_found', 'Template version not found.');
    if (version.template_id !== template.id) {
      throw new AppError('invalid', "The provided template version doesn't belong to the specified template.");
    }
    if (version.archived) throw new AppError('invalid', 'The provided template version is archived.');
    if (version.job_status !== 'succeeded') {
      throw new AppError('invalid', 'Only versions that have been built successfully can be promoted.', {
        detail: `The import of this version is ${version.job_status}.`,
      });
    }
    await setActiveVersion(tx, template, version.id);
    await audit(ctx, tx, {
      resourceType: 'template',
      resourceId: template.id,
      target: template.name,
      action: 'write',
      organizationId: template.organization_id,
      icon: template.icon,
      before: template,
      after: { ...template, active_version_id: version.id },
    });
  });
  return { message: 'Updated the active template version!' };
}

/** Archives the template's unused versions: those whose import failed, or with `all`, every one. */
export async function archiveUnusedVersions(
  ctx: Ctx,
  templateId: string,
  { all = false },
): Promise<ArchiveTemplateVersionsResponse> {
  const template = await findTemplate(ctx, 'update', templateId);
  return ctx.sql.begin(async (tx) => {
    const archived = await archiveUnused(tx, template, { failedOnly: !all });
    if (archived.length > 0) {
      await audit(ctx, tx, {
        resourceType: 'template',
        resourceId: template.id,
        target: template.name,
        action: 'write',
        organizationId: template.organization_id,
        fields: { archived_versions: archived },
      });
    }
    return { template_id: template.id, archived_ids: archived };
  });
}

export async function archiveVersion(ctx: Ctx, id: string): Promise<{ message: string }> {
  const version = await findVersion(ctx, 'update', id);
  if (version.archived) return { message: 'Template version already archived' };
  if (!version.template_id)
    throw new AppError('invalid', 'Cannot archive a template version that belongs to no template.');
  await ctx.sql.begin(async (tx) => {
    if (!(await archiveUnusedVersion(tx, version))) {
      throw new AppError('invalid', 'Unable to archive the template version.', {
        detail: 'It is the active version, a workspace uses it, or its import is still running.',
      });
    }
    await noteWrite(ctx, tx, version, { archived: true });
  });
  return { message: `Archived template version ${version.name}` };
}

export async function unarchiveVersion(ctx: Ctx, id: string): Promise<{ message: string }> {
  const version = await findVersion(ctx, 'update', id);
  if (!version.archived) return { message: 'Template version is not archived' };
  await ctx.sql.begin(async (tx) => {
    await clearVersionArchived(tx, version);
    await noteWrite(ctx, tx, version, { archived: false });
  });
  return { message: `Unarchived template version ${version.name}` };
}

/** Cancels a version's import. A second call ends it without waiting for its daemon. */
export async function cancelVersion(ctx: Ctx, id: string): Promise<{ message: string }> {
  const version = await findVersion(ctx, 'update', id);
  const job = await jobById(ctx.sql, version.job_id);
  const record = (tx: Db) => noteWrite(ctx, tx, version, {}, { canceled: true });
  await requestCancel(ctx, version, { force: job?.job_status === 'canceling', record });
  return { message: 'Job has been marked as canceled...' };
}
