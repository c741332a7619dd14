import type { ResolveAutostartResponse } from '@ropewalk/contract';
import { isAppError } from '@ropewalk/kit';
import { keptParameters, latestBuild } from '../../db/queries/builds.ts';
import type { Ctx } from '../context/context.ts';
import { findWorkspace } from '../find/workspace.ts';
import { withAnswers } from '../parameters/answers.ts';
import { buildValues } from '../parameters/values.ts';

/** Whether an automatic start on the active version would lack parameters that a person must give. */
export async function resolveAutostart(ctx: Ctx, id: string): Promise<ResolveAutostartResponse> {
  const workspace = await findWorkspace(ctx, 'read', id);
  const build = await latestBuild(ctx.sql, workspace.id);
  const updates = workspace.automatic_updates === 'always' || workspace.require_active_version;
  if (!updates || build!.template_version_id === workspace.template_active_version_id)
    return { parameter_mismatch: false };
  const last = await keptParameters(ctx.sql, build!);
  const choice = {
    versionId: workspace.template_active_version_id,
    ownerId: workspace.owner_id,
    classic: workspace.use_classic_parameter_flow,
    given: [],
    preset: {},
    last,
    trustLast: false,
  };
  try {
    await withAnswers(ctx, (answers) => buildValues(ctx, ctx.sql, answers, choice));
    return { parameter_mismatch: false };
  } catch (err) {
    if (!isAppError(err, 'invalid')) throw err;
    return { parameter_mismatch: true };
  }
}
