import type {
  PostWorkspaceUsageRequest,
  UpdateWorkspaceDormancy,
  UpdateWorkspaceRequest,
  Workspace,
} from '@ropewalk/contract';
import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { AppError } from '@ropewalk/kit';
import { checkName } from '@ropewalk/rules';
import { type Allowed, allow } from '../../authz/authorize.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { bumpDeadline } from '../../db/queries/builds.ts';
import {
  activateWorkspace,
  auditedWorkspace,
  deleteFavorite,
  insertFavorite,
  setDormant,
  setLastUsed,
  setWorkspaceName,
  touchWorkspace,
} from '../../db/queries/workspaces.ts';
import type { WorkspaceRow } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findWorkspace, workspaceObject } from '../find/workspace.ts';
import { initiatorOf } from '../notification/accounts.ts';
import { notifyMadeDormant } from '../notification/schedules.ts';
import { toWorkspace } from './convert.ts';

/** Changes a workspace, adds the audit entry and notifies its watchers. */
export async function changeWorkspace(
  ctx: Ctx,
  workspace: Allowed<'update' | 'share', WorkspaceRow>,
  change: (tx: Tx) => Promise<unknown>,
  fields: Record<string, unknown> = {},
): Promise<void> {
  await ctx.sql.begin(async (tx) => {
    const before = await auditedWorkspace(tx, workspace.id);
    await change(tx);
    await touchWorkspace(tx, workspace);
    await audit(ctx, tx, {
      resourceType: 'workspace',
      resourceId: workspace.id,
      target: workspace.name,
      action: 'write',
      organizationId: workspace.organization_id,
      fields,
      before,
      after: await auditedWorkspace(tx, workspace.id),
    });
    await ctx.events.publish(tx, 'workspace_changed', { workspace_id: workspace.id, owner_id: workspace.owner_id });
  });
}

export async function renameWorkspace(ctx: Ctx, id: string, input: UpdateWorkspaceRequest): Promise<void> {
  const workspace = await findWorkspace(ctx, 'update', id);
  const name = input.name ?? workspace.name;
  if (name === workspace.name) return;
  if (!ctx.config.allowWorkspaceRenames) throw new AppError('invalid', 'Workspace renames are not allowed.');
  checkName('name', name);
  try {
    await changeWorkspace(ctx, workspace, (tx) => setWorkspaceName(tx, workspace, name));
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `The workspace ${JSON.stringify(name)} already exists.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
}

/** Makes a workspace dormant, or active again. */
export async function setDormancy(ctx: Ctx, id: string, input: UpdateWorkspaceDormancy): Promise<Workspace> {
  const workspace = await findWorkspace(ctx, 'update', id);
  const dormant = input.dormant ?? false;
  // a second time would postpone the deletion
  if (dormant && workspace.dormant_at !== null) return toWorkspace(ctx, workspace);
  // nobody could claim it, and it would still count in its pool
  if (dormant && workspace.owner_id === PREBUILDS_USER_ID)
    throw new AppError('conflict', 'An unclaimed prebuilt workspace cannot be dormant. Delete it instead.');
  await changeWorkspace(ctx, workspace, async (tx) => {
    if (!dormant) {
      await activateWorkspace(tx, workspace, ctx.clock.now());
      return;
    }
    const times = await setDormant(tx, workspace, ctx.clock.now());
    await ctx.events.publish(tx, 'app_access_changed', { workspace_id: workspace.id });
    const byOther = ctx.actor.kind !== 'user' || ctx.actor.id !== workspace.owner_id;
    if (byOther) await notifyMadeDormant(ctx, tx, { ...workspace, ...times }, initiatorOf(ctx));
  });
  return toWorkspace(ctx, await findWorkspace(ctx, 'read', id));
}

export async function setFavorite(ctx: Ctx, id: string, favorite: boolean): Promise<void> {
  const found = await findWorkspace(ctx, 'read', id);
  if (ctx.actor.kind !== 'user' || ctx.actor.id !== found.owner_id) {
    throw new AppError('forbidden', 'You can only favorite workspaces that you own.');
  }
  const workspace = allow(ctx, 'update', found, workspaceObject(found));
  await ctx.sql.begin(async (tx) => {
    if (favorite) await insertFavorite(tx, workspace);
    else await deleteFavorite(tx, workspace);
    await audit(ctx, tx, {
      resourceType: 'workspace',
      resourceId: workspace.id,
      target: workspace.name,
      action: 'write',
      organizationId: workspace.organization_id,
      before: { favorite: found.favorite },
      after: { favorite },
    });
  });
  ctx.events.publishSoon('workspace_changed', { workspace_id: workspace.id, owner_id: workspace.owner_id });
}

/** Records that a workspace is in use, which moves its deadline by the template's activity bump. */
export async function noteUsage(ctx: Ctx, id: string, _input: PostWorkspaceUsageRequest): Promise<void> {
  const workspace = await findWorkspace(ctx, 'update', id);
  await setLastUsed(ctx.sql, workspace);
  await bumpDeadline(ctx.sql, workspace);
}
