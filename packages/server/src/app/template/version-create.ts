import type { CreateTemplateVersionRequest, TemplateVersion } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkVersionName } from '@ropewalk/rules';
import { allow } from '../../authz/authorize.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { insertVersion, type VersionPlace } from '../../db/queries/template-versions.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requireVersionRoom } from '../context/limits.ts';
import { readableFile } from '../file/files.ts';
import { authorizeInOrganization, locateOrganization } from '../find/organization.ts';
import { findTemplate, findVersion, templateObject } from '../find/template.ts';
import { lookAtFile } from '../job/engines.ts';
import { announcePending, postJob } from '../job/post.ts';
import { mutateTags } from '../job/tags.ts';
import { beginInTurn } from '../lists/turns.ts';
import { randomText } from '../values/token.ts';
import { toVersions } from './convert.ts';
import { exampleArchive } from './examples.ts';
import { namedTags } from './named-tags.ts';
import { findReplaced, type Replaced, retireReplaced } from './version-replace.ts';

/**
 * Creates a version of a template (or one without a template) from an uploaded archive, and has a daemon import it. With
 * `replaces`, it takes the place of a version whose import waits, in the same transaction. `stored` is an archive that the
 * server stored for this version, instead of one that the request names.
 */
export async function createVersion(
  ctx: Ctx,
  organization: string,
  request: CreateTemplateVersionRequest,
  stored?: string,
): Promise<TemplateVersion> {
  const { organizationId } = await locateOrganization(ctx, organization);
  const replaced = request.replaces ? await findReplaced(ctx, organizationId, request.replaces) : undefined;
  const input = { ...replaced?.request, ...request };
  const templateId = replaced ? replaced.version.template_id : input.template_id;
  const template = templateId ? await findTemplate(ctx, 'read', templateId) : undefined;
  if (template && template.organization_id !== organizationId)
    throw new AppError('not_found', 'Template does not exist.');
  const place: VersionPlace = template
    ? allow(ctx, 'update', template, templateObject(template))
    : authorizeInOrganization(ctx, 'create', { type: 'template', organizationId });
  const name = input.name || `version-${randomText(8).toLowerCase()}`;
  checkVersionName('name', name);
  const message = input.message ?? '';
  if (message.length > 1_048_576)
    throw new AppError('invalid', 'The message is too long: the limit is 1,048,576 characters.');
  const fileId = stored ?? (await sourceFile(ctx, request, replaced));
  const actorId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  const versionId = crypto.randomUUID();
  const jobId = crypto.randomUUID();
  const tags = mutateTags(actorId, input.tags ?? {});
  const { namesTags } = await lookAtFile(ctx.sql, place, fileId);
  const given = input.user_variable_values ?? [];
  const activeVersionId = template?.active_version_id;
  const named = namesTags ? await namedTags(ctx, { fileId, organizationId, activeVersionId, given }) : {};
  try {
    const post = async (tx: Tx) => {
      if (replaced) await retireReplaced(ctx, tx, replaced.version);
      await requireVersionRoom(ctx, tx, { templateId: template?.id, creatorId: actorId });
      const job = await postJob(ctx, tx, place, {
        id: jobId,
        initiator_id: actorId,
        type: 'template_version_import',
        file_id: fileId,
        provisioner: replaced?.job.provisioner ?? input.provisioner,
        input: {
          template_version_id: versionId,
          user_variable_values: given,
          ...(Object.keys(named).length > 0 ? { named_tags: named } : {}),
        },
        tags,
      });
      await insertVersion(tx, place, { id: versionId, name, message, job_id: jobId, created_by: actorId });
      await audit(ctx, tx, {
        resourceType: 'template_version',
        resourceId: versionId,
        target: name,
        action: 'create',
        organizationId,
        status: 201,
        after: { id: versionId, name, template_id: template?.id, created_by: actorId },
      });
      await announcePending(ctx, tx, job);
    };
    await beginInTurn(ctx, post, JSON.stringify(tags));
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError(
      'conflict',
      `A template version with name ${JSON.stringify(name)} already exists for this template.`,
      {
        validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
      },
    );
  }
  return (await toVersions(ctx, ctx.sql, [await findVersion(ctx, 'read', versionId)]))[0]!;
}

async function sourceFile(
  ctx: Ctx,
  { file_id: fileId, example_id: exampleId }: CreateTemplateVersionRequest,
  replaced: Replaced | undefined,
): Promise<string> {
  if ([fileId, exampleId, replaced].filter(Boolean).length !== 1) {
    throw new AppError('invalid', 'Give either file_id or example_id.', {
      validations: [{ field: 'file_id', detail: 'exactly one of file_id and example_id is required' }],
    });
  }
  if (replaced) return replaced.job.file_id;
  if (!fileId) return exampleArchive(ctx, exampleId!);
  const file = await readableFile(ctx, fileId);
  if (!file)
    throw new AppError('not_found', 'File not found.', {
      validations: [{ field: 'file_id', detail: 'file not found' }],
    });
  return file.id;
}
