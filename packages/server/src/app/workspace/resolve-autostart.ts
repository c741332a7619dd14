import type { ResolveAutostartResponse } from '@platform/contract';
import { buildParameters, latestBuild } from '../../db/queries/builds.ts';
import { resolveParameters, versionParameters } from '../build/parameters.ts';
import type { Ctx } from '../context.ts';
import { findWorkspace } from './find.ts';

/** Whether an automatic start on the active version would miss parameters that only a person can give. */
export async function resolveAutostart(ctx: Ctx, id: string): Promise<ResolveAutostartResponse> {
  const workspace = await findWorkspace(ctx, id);
  const build = await latestBuild(ctx.sql, workspace.id);
  const updates = workspace.automatic_updates === 'always' || workspace.require_active_version;
  if (!updates || build!.template_version_id === workspace.template_active_version_id)
    return { parameter_mismatch: false };
  const parameters = await versionParameters(ctx.sql, workspace.template_active_version_id);
  try {
    resolveParameters(parameters, [], {}, await buildParameters(ctx.sql, build!.id));
    return { parameter_mismatch: false };
  } catch {
    return { parameter_mismatch: true };
  }
}
