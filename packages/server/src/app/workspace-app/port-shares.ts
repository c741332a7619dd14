import type {
  DeleteWorkspaceAgentPortShareRequest,
  UpsertWorkspaceAgentPortShareRequest,
  WorkspaceAgentPortShare,
  WorkspaceAgentPortShares,
} from '@platform/contract';
import { AppError } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { findWorkspace, workspaceObject } from '../workspace/find.ts';
import { narrower, type PortShareRow, type ShareLevel } from './find.ts';

const refuse = (field: string, detail: string) =>
  new AppError('invalid', 'Invalid port share.', { validations: [{ field, detail }] });

/** The shared ports of a workspace, of all its agents. */
export async function listPortShares(ctx: Ctx, workspaceId: string): Promise<WorkspaceAgentPortShares> {
  const workspace = await findWorkspace(ctx, workspaceId);
  const shares = await ctx.sql<PortShareRow[]>`
    SELECT workspace_id, agent_name, port, share_level, protocol FROM workspace_agent_port_shares
    WHERE workspace_id = ${workspace.id} ORDER BY agent_name, port`;
  return { shares: [...shares] };
}

/** Shares a port, or changes how it is shared: no wider than the template's author allows. */
export async function sharePort(
  ctx: Ctx,
  workspaceId: string,
  input: UpsertWorkspaceAgentPortShareRequest,
): Promise<WorkspaceAgentPortShare> {
  const workspace = await findWorkspace(ctx, workspaceId);
  authorize(ctx, 'update', workspaceObject(workspace));
  const { agent_name, port, share_level, protocol } = input;
  if (port < 1024 || port > 65_535) throw refuse('port', 'Port must be between 1024 and 65535.');
  const [template] = await ctx.sql<{ max_port_share_level: ShareLevel }[]>`
    SELECT max_port_share_level FROM templates WHERE id = ${workspace.template_id}`;
  const widest = template!.max_port_share_level;
  if (narrower(share_level, widest) !== share_level) {
    throw refuse('share_level', `The template allows "${widest}" at most.`);
  }
  const [agent] = await ctx.sql`SELECT a.id FROM workspace_builds b JOIN workspace_resources r ON r.job_id = b.job_id
    JOIN workspace_agents a ON a.resource_id = r.id AND NOT a.deleted
    WHERE b.workspace_id = ${workspace.id} AND a.name = ${agent_name} ORDER BY b.build_number DESC LIMIT 1`;
  if (!agent) throw refuse('agent_name', `There is no agent ${JSON.stringify(agent_name)} in this workspace.`);
  return ctx.sql.begin(async (tx) => {
    const [row] = await tx<WorkspaceAgentPortShare[]>`
      INSERT INTO workspace_agent_port_shares (workspace_id, agent_name, port, share_level, protocol)
      VALUES (${workspace.id}, ${agent_name}, ${port}, ${share_level}, ${protocol})
      ON CONFLICT (workspace_id, agent_name, port)
      DO UPDATE SET share_level = excluded.share_level, protocol = excluded.protocol
      RETURNING workspace_id, agent_name, port, share_level, protocol`;
    await note(ctx, tx, workspace, { port, agent_name, share_level });
    return row!;
  });
}

export async function unsharePort(
  ctx: Ctx,
  workspaceId: string,
  { agent_name, port }: DeleteWorkspaceAgentPortShareRequest,
): Promise<{ message: string }> {
  const workspace = await findWorkspace(ctx, workspaceId);
  authorize(ctx, 'update', workspaceObject(workspace));
  await ctx.sql.begin(async (tx) => {
    const gone = await tx`DELETE FROM workspace_agent_port_shares
      WHERE workspace_id = ${workspace.id} AND agent_name = ${agent_name} AND port = ${port}`;
    if (gone.count === 0) throw notFound();
    await note(ctx, tx, workspace, { port, agent_name, share_level: 'owner' });
  });
  return { message: 'The port is no longer shared.' };
}

/** Written down, and told to who lets people through. */
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
