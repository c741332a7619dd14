import type { CreateTemplateRequest, Template } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkDisplayName, checkName } from '@ropewalk/rules';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { insertTemplate, templateById } from '../../db/queries/templates.ts';
import type { JobStatus } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requireTemplateRoom } from '../context/limits.ts';
import { findInOrganization } from '../find/organization.ts';
import { findTemplate, findVersion } from '../find/template.ts';
import { toTemplates } from './convert.ts';
import { checkDescription, checkTtls } from './validate.ts';

const CAN_SUCCEED: ReadonlySet<JobStatus> = new Set(['pending', 'running', 'succeeded']);

/**
 * Creates a template from a version without a template, whose import may still run, as upstream permits: its load tests
 * create templates so. Nothing is built until it has succeeded. Everyone in the organization may use the template.
 */
export async function createTemplate(ctx: Ctx, organization: string, input: CreateTemplateRequest): Promise<Template> {
  const place = await findInOrganization(ctx, 'create', { type: 'template' }, organization);
  const { organizationId } = place;
  checkName('name', input.name);
  checkDisplayName('display_name', input.display_name ?? '');
  checkDescription(input.description);
  checkTtls(input);
  const version = await findVersion(ctx, 'read', input.template_version_id).catch((err) => {
    if (!(err instanceof AppError) || err.code !== 'not_found') throw err;
    const detail = 'template version does not exist';
    throw new AppError('not_found', 'Template version does not exist.', {
      validations: [{ field: 'template_version_id', detail }],
    });
  });
  if (version.organization_id !== organizationId) throw new AppError('not_found', 'Template version does not exist.');
  if (version.template_id) throw new AppError('invalid', 'The template version already belongs to a template.');
  if (!CAN_SUCCEED.has(version.job_status)) {
    throw new AppError('precondition', 'A template cannot be created from a version whose import did not succeed.', {
      detail: `The import of the version is ${version.job_status}.`,
    });
  }
  const id = crypto.randomUUID();
  const autostart = input.autostart_requirement?.days_of_week;
  try {
    await ctx.sql.begin(async (tx) => {
      await requireTemplateRoom(ctx, tx, organizationId);
      await insertTemplate(tx, place, version, {
        id,
        name: input.name,
        display_name: input.display_name ?? '',
        description: input.description ?? '',
        icon: input.icon ?? '',
        created_by: ctx.actor.kind === 'user' ? ctx.actor.id : version.created_by,
        default_ttl_ms: input.default_ttl_ms ?? 0,
        activity_bump_ms: input.activity_bump_ms ?? 3_600_000,
        failure_ttl_ms: input.failure_ttl_ms ?? 0,
        time_til_autostop_notify_ms: input.time_til_autostop_notify_ms ?? 0,
        time_til_dormant_ms: input.dormant_ttl_ms ?? 0,
        time_til_dormant_autodelete_ms: input.delete_ttl_ms ?? 0,
        autostop_requirement_days: input.autostop_requirement?.days_of_week ?? [],
        autostop_requirement_weeks: input.autostop_requirement?.weeks || 1,
        allow_user_cancel_workspace_jobs: input.allow_user_cancel_workspace_jobs ?? true,
        allow_user_autostart: input.allow_user_autostart ?? true,
        allow_user_autostop: input.allow_user_autostop ?? true,
        require_active_version: input.require_active_version ?? false,
        use_classic_parameter_flow: input.template_use_classic_parameter_flow ?? false,
        max_port_share_level: input.max_port_share_level ?? 'owner',
        cors_behavior: input.cors_behavior ?? 'simple',
        group_acl: input.disable_everyone_group_access ? {} : { [organizationId]: 'use' },
        ...(autostart ? { autostart_days: autostart } : {}),
      });
      await audit(ctx, tx, {
        resourceType: 'template',
        resourceId: id,
        target: input.name,
        action: 'create',
        organizationId,
        status: 201,
        icon: input.icon ?? '',
        after: await templateById(tx, id),
      });
    });
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `Template with name ${JSON.stringify(input.name)} already exists.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
  return (await toTemplates(ctx.sql, [await findTemplate(ctx, 'read', id)]))[0]!;
}
