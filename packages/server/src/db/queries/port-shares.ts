import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';

export type ShareLevel = 'owner' | 'authenticated' | 'organization' | 'public';

export interface PortShareRow {
  workspace_id: string;
  agent_name: string;
  port: number;
  share_level: ShareLevel;
  protocol: 'http' | 'https';
}

const COLUMNS = (db: Db) => db`workspace_id, agent_name, port, share_level, protocol`;

export async function portShare(
  db: Db,
  workspaceId: string,
  agentName: string,
  port: number,
): Promise<PortShareRow | undefined> {
  const [row] = await db<PortShareRow[]>`SELECT ${COLUMNS(db)} FROM workspace_agent_port_shares
    WHERE workspace_id = ${workspaceId} AND agent_name = ${agentName} AND port = ${port}`;
  return row;
}

/** By agent and port. */
export async function portSharesOf(db: Db, workspaceId: string): Promise<PortShareRow[]> {
  return db<PortShareRow[]>`SELECT ${COLUMNS(db)} FROM workspace_agent_port_shares
    WHERE workspace_id = ${workspaceId} ORDER BY agent_name, port`;
}

/** The widest share level that the template allows. */
export async function maxPortShareLevel(db: Db, templateId: string): Promise<ShareLevel> {
  const [row] = await db<{ max_port_share_level: ShareLevel }[]>`
    SELECT max_port_share_level FROM templates WHERE id = ${templateId}`;
  return row!.max_port_share_level;
}

/** Whether any build of the workspace has an agent of this name that was not deleted. */
export async function hasAgentNamed(db: Db, workspaceId: string, name: string): Promise<boolean> {
  const rows = await db`SELECT a.id FROM workspace_builds b JOIN workspace_resources r ON r.job_id = b.job_id
    JOIN workspace_agents a ON a.resource_id = r.id AND NOT a.deleted
    WHERE b.workspace_id = ${workspaceId} AND a.name = ${name} ORDER BY b.build_number DESC LIMIT 1`;
  return rows.length > 0;
}

/** A workspace that the actor may update. */
type Workspace = Allowed<'update', { id: string }>;

/** Shares a port, or changes its share level and protocol. */
export async function upsertPortShare(
  tx: Tx,
  workspace: Workspace,
  { agent_name, port, share_level, protocol }: Omit<PortShareRow, 'workspace_id'>,
): Promise<PortShareRow> {
  const [row] = await tx<PortShareRow[]>`
    INSERT INTO workspace_agent_port_shares (workspace_id, agent_name, port, share_level, protocol)
    VALUES (${workspace.id}, ${agent_name}, ${port}, ${share_level}, ${protocol})
    ON CONFLICT (workspace_id, agent_name, port)
    DO UPDATE SET share_level = excluded.share_level, protocol = excluded.protocol
    RETURNING ${COLUMNS(tx)}`;
  return row!;
}

/** Returns whether the port was shared. */
export async function deletePortShare(
  tx: Tx,
  workspace: Workspace,
  { agent_name, port }: Pick<PortShareRow, 'agent_name' | 'port'>,
): Promise<boolean> {
  const { count } = await tx`DELETE FROM workspace_agent_port_shares
    WHERE workspace_id = ${workspace.id} AND agent_name = ${agent_name} AND port = ${port}`;
  return count > 0;
}
