import type { ResolveAutostartResponse } from '@platform/contract';
import { isAppError } from '@platform/kit';
import { buildParameters, latestBuild } from '../../db/queries/builds.ts';
import { versionParameters } from '../../db/queries/version-contents.ts';
import type { Ctx } from '../context.ts';
import { withAnswers } from '../work/answers.ts';
import { resolveParameters } from '../workspace-build/parameters.ts';
import { findWorkspace } from './find.ts';

/** Whether an automatic start on the active version would lack parameters that a person must give. */
export async function resolveAutostart(ctx: Ctx, id: string): Promise<ResolveAutostartResponse> {
  const workspace = await findWorkspace(ctx, 'read', id);
  const build = await latestBuild(ctx.sql, workspace.id);
  const updates = workspace.automatic_updates === 'always' || workspace.require_active_version;
  if (!updates || build!.template_version_id === workspace.template_active_version_id)
    return { parameter_mismatch: false };
  const parameters = await versionParameters(ctx.sql, workspace.template_active_version_id);
  const last = await buildParameters(ctx.sql, build!.id);
  try {
    await withAnswers(ctx, async (answers) => resolveParameters(answers, parameters, [], {}, last));
    return { parameter_mismatch: false };
  } catch (err) {
    if (!isAppError(err, 'invalid')) throw err;
    return { parameter_mismatch: true };
  }
}
