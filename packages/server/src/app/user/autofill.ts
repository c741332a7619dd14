import type { UserParameter } from '@platform/contract';
import { AppError } from '@platform/kit';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { findUser } from './find.ts';

/** What a person gave last for each lasting parameter in his builds of a template. */
export async function autofillParameters(
  ctx: Ctx,
  user: string,
  templateId: string | undefined,
): Promise<UserParameter[]> {
  const owner = await findUser(ctx, 'read_personal', user);
  if (!templateId || !isUuid(templateId)) {
    throw new AppError('invalid', 'Invalid query parameters.', {
      validations: [{ field: 'template_id', detail: 'must be a valid UUID' }],
    });
  }
  return ctx.sql<UserParameter[]>`SELECT DISTINCT ON (p.name) p.name, p.value
    FROM workspace_build_parameters p
    JOIN workspace_builds b ON b.id = p.workspace_build_id
    JOIN workspaces w ON w.id = b.workspace_id
    JOIN template_version_parameters t ON t.template_version_id = b.template_version_id AND t.name = p.name
    WHERE w.owner_id = ${owner.id} AND w.template_id = ${templateId} AND b.transition = 'start' AND NOT t.ephemeral
    ORDER BY p.name, b.created_at DESC`;
}
