import type {
  DeleteWorkspaceAgentPortShareRequest,
  UpsertWorkspaceAgentPortShareRequest,
  WorkspaceAgentPortShare,
  WorkspaceAgentPortShares,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import {
  deletePortShare,
  hasAgentNamed,
  maxPortShareLevel,
  portSharesOf,
  upsertPortShare,
} from '../../db/queries/port-shares.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requirePortShareRoom } from '../context/limits.ts';
import { findWorkspace, workspaceObject } from '../find/workspace.ts';
import { narrower } from '../values/share-level.ts';

const invalid = (field: string, detail: string) =>
  new AppError('invalid', 'Invalid port share.', { validations: [{ field, detail }] });

/** The shared ports of a workspace, of all its agents. */
export async function listPortShares(ctx: Ctx, workspaceId: string): Promise<WorkspaceAgentPortShares> {
  const workspace = await findWorkspace(ctx, 'read', workspaceId);
  return { shares: [...(await portSharesOf(ctx.sql, workspace.id))] };
}

/**
 * Shares a port or changes its share level, up to the level that the template allows. Sharing needs the permission to open
 * the port: an administrator who may change a member's workspace could otherwise enter it.
 */
export async function sharePort(
  ctx: Ctx,
  workspaceId: string,
  input: UpsertWorkspaceAgentPortShareRequest,
): Promise<WorkspaceAgentPortShare> {
  const workspace = await findWorkspace(ctx, 'update', workspaceId);
  authorize(ctx, 'application_connect', workspaceObject(workspace));
  const { agent_name, port, share_level, protocol } = input;
  if (port < 1024 || port > 65_535) throw invalid('port', 'Port must be between 1024 and 65535.');
  const widest = await maxPortShareLevel(ctx.sql, workspace.template_id);
  if (narrower(share_level, widest) !== share_level) {
    throw invalid('share_level', `The template allows "${widest}" at most.`);
  }
  if (!(await hasAgentNamed(ctx.sql, workspace.id, agent_name)))
    throw invalid('agent_name', `The workspace has no agent ${JSON.stringify(agent_name)}.`);
  return ctx.sql.begin(async (tx) => {
    await requirePortShareRoom(tx, workspace.id, { agent_name, port });
    const row = await upsertPortShare(tx, workspace, { agent_name, port, share_level, protocol });
    await note(ctx, tx, workspace, { port, agent_name, share_level });
    return row;
  });
}

export async function unsharePort(
  ctx: Ctx,
  workspaceId: string,
  { agent_name, port }: DeleteWorkspaceAgentPortShareRequest,
): Promise<{ message: string }> {
  const workspace = await findWorkspace(ctx, 'update', workspaceId);
  await ctx.sql.begin(async (tx) => {
    if (!(await deletePortShare(tx, workspace, { agent_name, port }))) throw notFound();
    await note(ctx, tx, workspace, { port, agent_name, share_level: 'owner' });
  });
  return { message: 'The port is no longer shared.' };
}

/** Writes the audit row and publishes the event that makes servers check grants again. */
async function note(
  ctx: Ctx,
  tx: Parameters<typeof audit>[1],
  workspace: { id: string; name: string; organization_id: string },
  shared: Record<string, string | number>,
): Promise<void> {
  await audit(ctx, tx, {
    resourceType: 'workspace',
    resourceId: workspace.id,
    target: workspace.name,
    action: 'write',
    organizationId: workspace.organization_id,
    fields: { port_share: shared },
  });
  await ctx.events.publish(tx, 'app_access_changed', { workspace_id: workspace.id });
}
