import type { InvalidatePresetsResponse } from '@ropewalk/contract';
import { invalidatePools } from '../../db/queries/prebuilds.ts';
import { templateById } from '../../db/queries/templates.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findTemplate } from '../find/template.ts';

/**
 * Replaces the prebuilt workspaces of a template's active version, for example because what their scripts download has
 * changed. Those that people have claimed stay.
 */
export async function invalidatePrebuilds(ctx: Ctx, templateId: string): Promise<InvalidatePresetsResponse> {
  const template = await findTemplate(ctx, 'update', templateId);
  return ctx.sql.begin(async (tx) => {
    const invalidated = await invalidatePools(tx, template, ctx.clock.now());
    await audit(ctx, tx, {
      resourceType: 'template',
      resourceId: template.id,
      target: template.name,
      action: 'write',
      organizationId: template.organization_id,
      icon: template.icon,
      before: template,
      after: await templateById(tx, template.id),
      fields: { invalidated_presets: invalidated.map(({ preset_name: name }) => name) },
    });
    await ctx.events.publish(tx, 'object_changed', { kind: 'template', id: template.id });
    return { invalidated };
  });
}
