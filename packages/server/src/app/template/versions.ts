import type { ArchiveTemplateVersionsResponse, PatchTemplateVersionRequest, TemplateVersion } from '@platform/contract';
import { AppError, checkVersionName } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { type Db, isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { jobById } from '../../db/queries/jobs.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { requestCancel } from '../job/cancel.ts';
import { findOrganization } from '../organization/find.ts';
import { pageOf } from '../search.ts';
import { toVersions } from './convert.ts';
import {
  findTemplate,
  findTemplateByName,
  findVersion,
  type TemplateRow,
  templateObject,
  type VersionRow,
  versionColumns,
  versionObject,
} from './find.ts';

export interface VersionPage {
  after_id?: string;
  include_archived?: boolean;
  limit?: number;
  offset?: number;
}

/** A template's versions, oldest first. */
export async function listVersions(ctx: Ctx, templateId: string, query: VersionPage): Promise<TemplateVersion[]> {
  const template = await findTemplate(ctx, templateId);
  const { sql } = ctx;
  const page = pageOf(query);
  const afterId = query.after_id ?? null;
  if (afterId !== null) {
    const known = isUuid(afterId)
      ? await sql`SELECT 1 FROM template_versions WHERE id = ${afterId} AND template_id = ${template.id}`
      : [];
    if (known.length === 0) throw new AppError('invalid', `Record at "after_id" (${afterId}) does not exist.`);
  }
  const rows = await sql<VersionRow[]>`SELECT ${versionColumns(sql)} WHERE v.template_id = ${template.id}
    AND (${query.include_archived ?? false} OR NOT v.archived)
    AND (${afterId}::uuid IS NULL
      OR (v.created_at, v.id) > (SELECT a.created_at, a.id FROM template_versions a WHERE a.id = ${afterId}::uuid))
    ORDER BY v.created_at, v.id LIMIT ${page.limit} OFFSET ${page.offset}`;
  return toVersions(ctx, sql, rows);
}

async function versionByName(db: Db, template: TemplateRow, name: string): Promise<VersionRow> {
  const [row] = await db<VersionRow[]>`SELECT ${versionColumns(db)}
    WHERE v.template_id = ${template.id} AND lower(v.name) = lower(${name})`;
  if (!row) throw notFound();
  return row;
}

async function published(ctx: Ctx, row: VersionRow): Promise<TemplateVersion> {
  return (await toVersions(ctx, ctx.sql, [row]))[0]!;
}

export async function getVersionByName(ctx: Ctx, templateId: string, name: string): Promise<TemplateVersion> {
  return published(ctx, await versionByName(ctx.sql, await findTemplate(ctx, templateId), name));
}

/** A version by the names of its organization, template and itself; or the one that was made before it. */
export async function getVersionByNames(
  ctx: Ctx,
  {
    organization,
    templatename,
    templateversionname,
  }: Record<'organization' | 'templatename' | 'templateversionname', string>,
  { previous = false } = {},
): Promise<TemplateVersion> {
  const { id } = await findOrganization(ctx.sql, organization);
  const version = await versionByName(ctx.sql, await findTemplateByName(ctx, id, templatename), templateversionname);
  if (!previous) return published(ctx, version);
  const [before] = await ctx.sql<VersionRow[]>`SELECT ${versionColumns(ctx.sql)}
    WHERE v.template_id = ${version.template_id} AND (v.created_at, v.id) < (
      SELECT a.created_at, a.id FROM template_versions a WHERE a.id = ${version.id})
    ORDER BY v.created_at DESC, v.id DESC LIMIT 1`;
  if (!before) {
    throw new AppError('not_found', `No previous template version found for ${JSON.stringify(version.name)}.`);
  }
  return published(ctx, before);
}

async function noteWrite(ctx: Ctx, db: Db, version: VersionRow, fields: Record<string, unknown>): Promise<void> {
  await audit(ctx, db, {
    resourceType: 'template_version',
    resourceId: version.id,
    target: version.name,
    action: 'write',
    organizationId: version.organization_id,
    fields,
  });
}

/** Gives a version another name or message. */
export async function updateVersion(
  ctx: Ctx,
  id: string,
  input: PatchTemplateVersionRequest,
): Promise<TemplateVersion> {
  const version = await findVersion(ctx, id);
  authorize(ctx, 'update', versionObject(version));
  const name = input.name || version.name;
  if (name !== version.name) checkVersionName('name', name);
  const message = input.message ?? version.message;
  if (message.length > 1_048_576) throw new AppError('invalid', 'The message is too long.');
  try {
    await ctx.sql.begin(async (tx) => {
      await tx`UPDATE template_versions SET name = ${name}, message = ${message}, updated_at = now() WHERE id = ${version.id}`;
      await noteWrite(ctx, tx, version, { name });
    });
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `A template version with name ${JSON.stringify(name)} already exists.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
  return published(ctx, await findVersion(ctx, version.id));
}

/** Makes an imported version the one that new workspaces get. */
export async function promoteVersion(ctx: Ctx, templateId: string, versionId: string): Promise<{ message: string }> {
  const template = await findTemplate(ctx, templateId);
  authorize(ctx, 'update', templateObject(template));
  await ctx.sql.begin(async (tx) => {
    // an archiving of the same version waits, or is seen
    await tx`SELECT 1 FROM templates WHERE id = ${template.id} FOR UPDATE`;
    const [version] = await tx<VersionRow[]>`SELECT ${versionColumns(tx)} WHERE v.id = ${versionId} FOR UPDATE OF v`;
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
    await tx`UPDATE templates SET active_version_id = ${version.id}, updated_at = now() WHERE id = ${template.id}`;
    await audit(ctx, tx, {
      resourceType: 'template',
      resourceId: template.id,
      target: template.name,
      action: 'write',
      organizationId: template.organization_id,
      fields: { active_version_id: version.id },
    });
  });
  return { message: 'Updated the active template version!' };
}

/** Versions of a template that nothing needs: not active, of no workspace's latest build, their import at its end. */
async function archiveUnused(
  db: Db,
  templateId: string,
  only: { versionId?: string; failed?: boolean },
): Promise<string[]> {
  await db`SELECT 1 FROM templates WHERE id = ${templateId} FOR UPDATE`;
  const rows = await db<{ id: string }[]>`
    UPDATE template_versions v SET archived = true, updated_at = now()
    FROM provisioner_jobs j, templates t
    WHERE j.id = v.job_id AND t.id = v.template_id AND t.id = ${templateId} AND NOT v.archived
      AND v.id <> t.active_version_id AND j.completed_at IS NOT NULL
      AND (${only.versionId ?? null}::uuid IS NULL OR v.id = ${only.versionId ?? null}::uuid)
      AND (NOT ${only.failed ?? false} OR j.job_status <> 'succeeded')
      AND NOT EXISTS (
        SELECT 1 FROM workspaces w JOIN LATERAL (
          SELECT b.template_version_id FROM workspace_builds b WHERE b.workspace_id = w.id
          ORDER BY b.build_number DESC LIMIT 1) latest ON true
        WHERE w.template_id = t.id AND NOT w.deleted AND latest.template_version_id = v.id)
    RETURNING v.id`;
  return rows.map((row) => row.id);
}

/** Archives the template's unused versions: those whose import failed, or `all`. */
export async function archiveUnusedVersions(
  ctx: Ctx,
  templateId: string,
  { all = false },
): Promise<ArchiveTemplateVersionsResponse> {
  const template = await findTemplate(ctx, templateId);
  authorize(ctx, 'update', templateObject(template));
  return ctx.sql.begin(async (tx) => {
    const archived = await archiveUnused(tx, template.id, { failed: !all });
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
  const version = await findVersion(ctx, id);
  authorize(ctx, 'update', versionObject(version));
  if (version.archived) return { message: 'Template version already archived' };
  const templateId = version.template_id;
  if (!templateId) throw new AppError('invalid', 'Cannot archive a template version that belongs to no template.');
  await ctx.sql.begin(async (tx) => {
    if ((await archiveUnused(tx, templateId, { versionId: version.id })).length === 0) {
      throw new AppError('invalid', 'Unable to archive the template version.', {
        detail: 'It is the active version, used by a workspace, or still being imported.',
      });
    }
    await noteWrite(ctx, tx, version, { archived: true });
  });
  return { message: `Archived template version ${version.name}` };
}

export async function unarchiveVersion(ctx: Ctx, id: string): Promise<{ message: string }> {
  const version = await findVersion(ctx, id);
  authorize(ctx, 'update', versionObject(version));
  if (!version.archived) return { message: 'Template version is not archived' };
  await ctx.sql.begin(async (tx) => {
    await tx`UPDATE template_versions SET archived = false, updated_at = now() WHERE id = ${version.id}`;
    await noteWrite(ctx, tx, version, { archived: false });
  });
  return { message: `Unarchived template version ${version.name}` };
}

/** Cancels a version's import; a second time, ends it without waiting for its daemon. */
export async function cancelVersion(ctx: Ctx, id: string): Promise<{ message: string }> {
  const version = await findVersion(ctx, id);
  authorize(ctx, 'update', versionObject(version));
  const job = await jobById(ctx.sql, version.job_id);
  await requestCancel(ctx, version.job_id, { force: job?.job_status === 'canceling' });
  return { message: 'Job has been marked as canceled...' };
}
