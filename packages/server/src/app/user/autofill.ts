import type { UserParameter } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { lastParametersOf } from '../../db/queries/users.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { isUuid } from '../values/ids.ts';

/** The value that a person last gave for each non-ephemeral parameter in builds of a template. */
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
  return lastParametersOf(ctx.sql, owner.id, templateId);
}
