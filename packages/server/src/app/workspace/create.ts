import type { CreateWorkspaceRequest, Workspace } from '@platform/contract';
import { AppError, checkName } from '@platform/kit';
import { authorize, may } from '../../authz/authorize.ts';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { getOrganization } from '../organization/read.ts';
import { findUser } from '../user/find.ts';
import { withAnswers } from '../work/answers.ts';
import { checkVersion, insertBuild } from '../workspace-build/create.ts';
import { resolveParameters, versionParameters } from '../workspace-build/parameters.ts';
import { toWorkspace } from './convert.ts';
import { type WorkspaceRow, workspaceColumns } from './find.ts';
import { checkAutostart, checkTtl } from './schedule.ts';

interface TemplateRow {
  id: string;
  organization_id: string;
  name: string;
  active_version_id: string;
  require_active_version: boolean;
  deprecated: string;
  default_ttl_ms: number;
  allow_user_autostop: boolean;
  allow_user_autostart: boolean;
  user_acl: Record<string, string>;
  group_acl: Record<string, string>;
}

/**
 * Makes a workspace of a template (or of one of its versions) for a person, and starts it. Where an organization is
 * named the template must be one of its.
 */
export async function createWorkspace(
  ctx: Ctx,
  user: string,
  input: CreateWorkspaceRequest,
  organization?: string,
): Promise<Workspace> {
  const within = organization === undefined ? undefined : await getOrganization(ctx, organization);
  const owner = await findUser(ctx, 'read', user);
  checkName('name', input.name);
  const versionId = input.template_version_id;
  const template = await chosenTemplate(ctx, input.template_id, versionId);
  authorize(ctx, 'use', {
    type: 'template',
    organizationId: template.organization_id,
    acl: { users: template.user_acl, groups: template.group_acl },
  });
  authorize(ctx, 'create', { type: 'workspace', ownerId: owner.id, organizationId: template.organization_id });
  if (within && within.id !== template.organization_id) {
    throw new AppError('invalid', `Template "${template.name}" is not one of the organization "${within.name}".`, {
      validations: [
        {
          field: versionId ? 'template_version_id' : 'template_id',
          detail: 'must be of a template of the organization in the path',
        },
      ],
    });
  }
  if (template.deprecated) {
    throw new AppError(
      'invalid',
      `Template "${template.name}" has been deprecated, and cannot be used to create a new workspace.`,
      {
        detail: template.deprecated,
      },
    );
  }
  if (!(template.organization_id in owner.organizations)) {
    throw new AppError('invalid', `${owner.username} is not a member of the template's organization.`);
  }
  const autostart = checkAutostart(input.autostart_schedule, template);
  const ttl = input.ttl_ms === undefined ? template.default_ttl_ms || null : checkTtl(input.ttl_ms, template);
  const workspaceId = crypto.randomUUID();
  const row = await withAnswers(ctx, (answers) =>
    ctx.sql.begin(async (tx) => {
      const chosen = versionId ?? template.active_version_id;
      // one that is being deleted is waited for, and is then gone
      const [still] = await tx`SELECT 1 FROM templates WHERE id = ${template.id} AND NOT deleted FOR SHARE`;
      if (!still) throw new AppError('not_found', 'Template not found.');
      if (
        template.require_active_version &&
        chosen !== template.active_version_id &&
        !may(ctx.actor, 'update', { type: 'template', organizationId: template.organization_id })
      ) {
        throw new AppError('forbidden', 'Template requires using the active version.');
      }
      await checkVersion(tx, chosen, template.id);
      const presetId = input.template_version_preset_id;
      const [preset] = presetId
        ? await tx<{ parameters: Record<string, string> }[]>`
          SELECT parameters FROM template_version_presets WHERE id = ${presetId} AND template_version_id = ${chosen}`
        : [];
      if (presetId && !preset) throw new AppError('invalid', 'The preset is not one of this template version.');
      const parameters = resolveParameters(
        answers,
        await versionParameters(tx, chosen),
        input.rich_parameter_values ?? [],
        preset?.parameters ?? {},
        undefined,
      );
      try {
        await tx`INSERT INTO workspaces (id, owner_id, organization_id, template_id, name, autostart_schedule, ttl_ms, automatic_updates,
          last_used_at)
        VALUES (${workspaceId}, ${owner.id}, ${template.organization_id}, ${template.id}, ${input.name}, ${autostart},
          ${ttl}, ${input.automatic_updates ?? 'never'}, now())`;
      } catch (err) {
        if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
        throw new AppError('conflict', `Workspace ${JSON.stringify(input.name)} already exists.`, {
          validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
        });
      }
      await audit(ctx, tx, {
        resourceType: 'workspace',
        resourceId: workspaceId,
        target: input.name,
        action: 'create',
        organizationId: template.organization_id,
        status: 201,
      });
      const made = {
        id: workspaceId,
        name: input.name,
        owner_id: owner.id,
        organization_id: template.organization_id,
      };
      await insertBuild(ctx, tx, answers, made, {
        transition: 'start',
        versionId: chosen,
        parameters,
        presetId,
        reason: 'initiator',
        logLevel: '',
      });
      const [workspace] = await tx<WorkspaceRow[]>`SELECT ${workspaceColumns(tx, ctx)} WHERE w.id = ${workspaceId}`;
      return workspace!;
    }),
  );
  return toWorkspace(ctx, row);
}

async function chosenTemplate(
  ctx: Ctx,
  templateId: string | undefined,
  versionId: string | undefined,
): Promise<TemplateRow> {
  if (Boolean(templateId) === Boolean(versionId)) {
    throw new AppError('invalid', 'Give either template_id or template_version_id.', {
      validations: [{ field: 'template_id', detail: 'exactly one of template_id and template_version_id is required' }],
    });
  }
  const [row] = await ctx.sql<TemplateRow[]>`
    SELECT t.* FROM templates t WHERE NOT t.deleted AND
      ${templateId ? ctx.sql`t.id = ${templateId}` : ctx.sql`t.id = (SELECT template_id FROM template_versions WHERE id = ${versionId!})`}`;
  const field = templateId ? 'template_id' : 'template_version_id';
  if (!row)
    throw new AppError('invalid', 'Template not found.', { validations: [{ field, detail: 'template not found' }] });
  return row;
}
