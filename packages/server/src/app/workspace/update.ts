import type {
  PostWorkspaceUsageRequest,
  UpdateWorkspaceDormancy,
  UpdateWorkspaceRequest,
  Workspace,
} from '@platform/contract';
import { AppError, checkName } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { toWorkspace } from './convert.ts';
import { findWorkspace, type WorkspaceRow, workspaceObject } from './find.ts';

/** A change of a workspace with its audit entry, and a word to who watches. */
export async function changeWorkspace(
  ctx: Ctx,
  workspace: WorkspaceRow,
  change: (tx: Tx) => Promise<unknown>,
): Promise<void> {
  await ctx.sql.begin(async (tx) => {
    await change(tx);
    await tx`UPDATE workspaces SET updated_at = now() WHERE id = ${workspace.id}`;
    await audit(ctx, tx, {
      resourceType: 'workspace',
      resourceId: workspace.id,
      target: workspace.name,
      action: 'write',
      organizationId: workspace.organization_id,
    });
    await ctx.events.publish(tx, 'workspace_changed', { workspace_id: workspace.id, owner_id: workspace.owner_id });
  });
}

export async function renameWorkspace(ctx: Ctx, id: string, input: UpdateWorkspaceRequest): Promise<void> {
  const workspace = await findWorkspace(ctx, id);
  authorize(ctx, 'update', workspaceObject(workspace));
  const name = input.name ?? workspace.name;
  if (name === workspace.name) return;
  if (!ctx.config.allowWorkspaceRenames) throw new AppError('invalid', 'Workspace renames are not allowed.');
  checkName('name', name);
  try {
    await changeWorkspace(ctx, workspace, (tx) => tx`UPDATE workspaces SET name = ${name} WHERE id = ${id}`);
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `The workspace ${JSON.stringify(name)} already exists.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
}

/** Puts a workspace to sleep for good, or wakes it. */
export async function setDormancy(ctx: Ctx, id: string, input: UpdateWorkspaceDormancy): Promise<Workspace> {
  const workspace = await findWorkspace(ctx, id);
  authorize(ctx, 'update', workspaceObject(workspace));
  await changeWorkspace(
    ctx,
    workspace,
    (tx) => tx`UPDATE workspaces w SET dormant_at = CASE WHEN ${input.dormant ?? false} THEN now() END,
      last_used_at = CASE WHEN ${input.dormant ?? false} THEN last_used_at ELSE now() END,
      deleting_at = CASE WHEN ${input.dormant ?? false} AND t.time_til_dormant_autodelete_ms > 0
        THEN now() + t.time_til_dormant_autodelete_ms * interval '1 millisecond' END
      FROM templates t WHERE w.id = ${id} AND t.id = w.template_id`,
  );
  return toWorkspace(ctx, await findWorkspace(ctx, id));
}

export async function setFavorite(ctx: Ctx, id: string, favorite: boolean): Promise<void> {
  const workspace = await findWorkspace(ctx, id);
  if (ctx.actor.kind !== 'user' || ctx.actor.id !== workspace.owner_id) {
    throw new AppError('forbidden', 'You can only favorite workspaces that you own.');
  }
  authorize(ctx, 'update', workspaceObject(workspace));
  if (favorite) {
    await ctx.sql`INSERT INTO workspace_favorites (user_id, workspace_id) VALUES (${ctx.actor.id}, ${id}) ON CONFLICT DO NOTHING`;
  } else {
    await ctx.sql`DELETE FROM workspace_favorites WHERE user_id = ${ctx.actor.id} AND workspace_id = ${id}`;
  }
}

/** Notes that a workspace is in use, which moves its end by the template's activity bump. */
export async function noteUsage(ctx: Ctx, id: string, _input: PostWorkspaceUsageRequest): Promise<void> {
  const workspace = await findWorkspace(ctx, id);
  authorize(ctx, 'update', workspaceObject(workspace));
  await ctx.sql`UPDATE workspaces SET last_used_at = now() WHERE id = ${id}`;
  await ctx.sql`
    UPDATE workspace_builds b SET deadline = least(greatest(b.deadline, now() + t.activity_bump_ms * interval '1 millisecond'), b.max_deadline)
    FROM workspaces w, templates t
    WHERE w.id = ${id} AND t.id = w.template_id AND b.workspace_id = w.id AND b.transition = 'start' AND b.deadline IS NOT NULL
      AND b.build_number = (SELECT max(build_number) FROM workspace_builds WHERE workspace_id = ${id})`;
}
