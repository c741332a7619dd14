import type { UpdateWorkspaceBuildStateRequest } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { allow, may } from '../../../authz/authorize.ts';
import { notFound } from '../../../authz/not-found.ts';
import { versionRules } from '../../../db/queries/build-sources.ts';
import { setState } from '../../../db/queries/build-states.ts';
import { audit } from '../../audit-entries/audit.ts';
import type { Ctx } from '../../context/context.ts';
import { templateObject } from '../../find/template.ts';
import { findWorkspace } from '../../find/workspace.ts';
import { givenState, lockUnchanged } from './create.ts';
import { stateFields } from './insert.ts';
import { findBuild } from './read.ts';

/**
 * Replaces the state of a build without a new build, for people who may update the template. The next build begins with
 * the state of the latest one. @throws AppError `invalid` for bytes that are not a complete state, `conflict` while the
 * build runs
 */
export async function replaceBuildState(
  ctx: Ctx,
  id: string,
  input: UpdateWorkspaceBuildStateRequest,
): Promise<undefined> {
  const found = await findBuild(ctx, id);
  const template = templateObject(await versionRules(ctx.sql, found.template_id));
  if (!may(ctx.actor, 'update', template)) throw notFound();
  const build = allow(ctx, 'update', found, template);
  const workspace = await findWorkspace(ctx, 'read', build.workspace_id);
  const state = givenState(input.state);
  await ctx.sql.begin(async (tx) => {
    await lockUnchanged(tx, workspace);
    if (!(await setState(tx, build, state))) {
      throw new AppError('conflict', 'The build has not ended. Wait for its end, or cancel it.');
    }
    await audit(ctx, tx, {
      resourceType: 'workspace_build',
      resourceId: build.id,
      target: workspace.name,
      action: 'write',
      organizationId: workspace.organization_id,
      fields: {
        ...stateFields(state),
        workspace_id: workspace.id,
        workspace_name: workspace.name,
        workspace_owner: workspace.owner_name,
        build_number: String(build.build_number),
      },
    });
  });
}
