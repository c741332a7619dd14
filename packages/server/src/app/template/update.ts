import type { Template, UpdateTemplateMeta } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkDisplayName, checkName } from '@ropewalk/rules';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import {
  countWorkspacesOf,
  lockTemplate,
  markTemplateDeleted,
  removeEveryone,
  templateById,
  touchWorkspacesOf,
  updateTemplateRow,
} from '../../db/queries/templates.ts';
import type { TemplateRow } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findTemplate } from '../find/template.ts';
import { notifyTemplateDeleted, notifyTemplateDeprecated } from '../notification/templates-changed.ts';
import { toTemplates } from './convert.ts';
import { applySchedule } from './schedule.ts';
import { checkDescription, checkTtls } from './validate.ts';

/**
 * Changes a template's settings. Absent fields stay. One exception: upstream's clients omit zero and false fields when
 * they send a whole record, which has both the autostart and the autostop requirement.
 */
export async function updateTemplate(ctx: Ctx, id: string, given: UpdateTemplateMeta): Promise<Template> {
  const template = await findTemplate(ctx, 'update', id);
  const input = given.autostart_requirement && given.autostop_requirement ? { ...ZERO, ...given } : given;
  if (input.name) checkName('name', input.name);
  checkDisplayName('display_name', input.display_name ?? '');
  checkDescription(input.description);
  checkTtls(input);
  const changed = changes(template, input);
  try {
    await ctx.sql.begin(async (tx) => {
      if (Object.keys(changed).length > 0) {
        await updateTemplateRow(tx, template, changed);
      }
      if (input.disable_everyone_group_access) {
        await ctx.events.publish(tx, 'app_access_changed', { template_id: template.id });
        await removeEveryone(tx, template);
      }
      if (input.update_workspace_last_used_at) {
        await touchWorkspacesOf(tx, template);
      }
      await applySchedule(ctx, tx, template, changed, { restartDormancy: input.update_workspace_dormant_at ?? false });
      if (changed.max_port_share_level !== undefined || changed.cors_behavior !== undefined) {
        await ctx.events.publish(tx, 'app_access_changed', { template_id: template.id });
      }
      if (changed.deprecated) await notifyTemplateDeprecated(ctx, tx, template, changed.deprecated);
      await audit(ctx, tx, {
        resourceType: 'template',
        resourceId: template.id,
        target: changed.name ?? template.name,
        action: 'write',
        organizationId: template.organization_id,
        icon: template.icon,
        before: template,
        after: await templateById(tx, template.id),
      });
    });
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `Template with name ${JSON.stringify(input.name)} already exists.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
  return (await toTemplates(ctx.sql, [await findTemplate(ctx, 'read', template.id)]))[0]!;
}

const ZERO: UpdateTemplateMeta = {
  default_ttl_ms: 0,
  activity_bump_ms: 0,
  failure_ttl_ms: 0,
  time_til_dormant_ms: 0,
  time_til_dormant_autodelete_ms: 0,
  allow_user_autostart: false,
  allow_user_autostop: false,
  allow_user_cancel_workspace_jobs: false,
  require_active_version: false,
};

/** The columns that change. */
function changes(template: TemplateRow, input: UpdateTemplateMeta): Partial<TemplateRow> {
  const wanted: Partial<TemplateRow> = {};
  const set = <K extends keyof TemplateRow>(column: K, value: TemplateRow[K] | undefined) => {
    if (value !== undefined && JSON.stringify(value) !== JSON.stringify(template[column])) wanted[column] = value;
  };
  set('name', input.name || undefined);
  set('display_name', input.display_name);
  set('description', input.description);
  set('icon', input.icon);
  set('deprecated', input.deprecation_message);
  set('default_ttl_ms', input.default_ttl_ms);
  set('activity_bump_ms', input.activity_bump_ms);
  set('failure_ttl_ms', input.failure_ttl_ms);
  set('time_til_autostop_notify_ms', input.time_til_autostop_notify_ms);
  set('time_til_dormant_ms', input.time_til_dormant_ms);
  set('time_til_dormant_autodelete_ms', input.time_til_dormant_autodelete_ms);
  if (input.autostop_requirement) {
    set('autostop_requirement_days', input.autostop_requirement.days_of_week ?? []);
    set('autostop_requirement_weeks', input.autostop_requirement.weeks || 1);
  }
  if (input.autostart_requirement) set('autostart_days', input.autostart_requirement.days_of_week ?? []);
  set('allow_user_autostart', input.allow_user_autostart);
  set('allow_user_autostop', input.allow_user_autostop);
  set('allow_user_cancel_workspace_jobs', input.allow_user_cancel_workspace_jobs);
  set('require_active_version', input.require_active_version);
  set('use_classic_parameter_flow', input.use_classic_parameter_flow);
  set('max_port_share_level', input.max_port_share_level);
  set('cors_behavior', input.cors_behavior);
  set('disable_module_cache', input.disable_module_cache);
  return wanted;
}

/** Deletes a template without workspaces. Its versions stay for the record of old builds. */
export async function deleteTemplate(ctx: Ctx, id: string): Promise<{ message: string }> {
  const template = await findTemplate(ctx, 'delete', id);
  await ctx.sql.begin(async (tx) => {
    // serializes with the creation of a workspace
    await lockTemplate(tx, template.id);
    const count = await countWorkspacesOf(tx, template.id);
    if (count > 0) {
      throw new AppError('invalid', 'All workspaces must be deleted before a template can be removed.', {
        detail: `Workspaces of this template: ${count}.`,
      });
    }
    await markTemplateDeleted(tx, template);
    await notifyTemplateDeleted(ctx, tx, template);
    await audit(ctx, tx, {
      resourceType: 'template',
      resourceId: template.id,
      target: template.name,
      action: 'delete',
      organizationId: template.organization_id,
      icon: template.icon,
      before: template,
    });
  });
  return { message: 'Template has been deleted!' };
}
