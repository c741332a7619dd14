// Sub-agents, for dev containers for example. Their rows are agents with a parent.

import type { WorkspaceApp } from '@ropewalk/contract';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { AgentIdentity } from '../rows.ts';
import type { NewApp } from './resources.ts';

export interface SubAgent {
  id: string;
  name: string;
  token: string;
}

/** Whether the agent `a` is a sub-agent that the workspace created itself, and not the template. */
export const ofSubAgent = (db: Db) => db`(a.parent_id IS NOT NULL AND NOT EXISTS (
  SELECT FROM workspace_agent_devcontainers d WHERE d.workspace_agent_id = a.parent_id AND d.subagent_id = a.id))`;

/** Locks the job of an agent's build, so that its sub-agents are added one after the other, and lists all its agents. */
export async function lockAgentsOfBuild(
  tx: Tx,
  parent: ConnectedAgent<AgentIdentity>,
): Promise<{ name: string; parent_id: string | null }[]> {
  const [job] = await tx<{ id: string }[]>`SELECT id FROM provisioner_jobs
    WHERE id = (SELECT job_id FROM workspace_resources WHERE id = ${parent.resource_id}) FOR NO KEY UPDATE`;
  if (!job) return [];
  return tx<{ name: string; parent_id: string | null }[]>`SELECT a.name, a.parent_id FROM workspace_agents a
    JOIN workspace_resources r ON r.id = a.resource_id WHERE r.job_id = ${job.id} AND NOT a.deleted`;
}

/**
 * Completes a sub-agent that the build of this agent created, and returns it. Undefined: the build created none with this
 * id.
 */
export async function takeSubAgent(
  tx: Tx,
  parent: ConnectedAgent<AgentIdentity>,
  id: string,
  { directory, display_apps }: Pick<NewSubAgent, 'directory' | 'display_apps'>,
): Promise<SubAgent | undefined> {
  const [agent] = await tx<SubAgent[]>`UPDATE workspace_agents a
    SET directory = CASE WHEN ${directory} = '' THEN directory ELSE ${directory} END,
      display_apps = ${display_apps as never}, updated_at = now()
    WHERE id = ${id} AND parent_id = ${parent.id} AND NOT deleted AND ${isOfTemplate(tx)}
    RETURNING id, name, auth_token AS token`;
  return agent;
}

/** Whether the build created the sub-agent `a`, with apps that its template declares. */
const isOfTemplate = (db: Db) => db`EXISTS (SELECT 1 FROM workspace_agent_devcontainers d
  WHERE d.workspace_agent_id = a.parent_id AND d.subagent_id = a.id)`;

/** The maximum number of deleted sub-agents that are kept with their logs. Each list of workspaces reads past all of them. */
const MAX_DELETED = 50;

/** Deletes the rows of sub-agents that were deleted long ago. */
export async function purgeSubAgents(tx: Tx, parent: ConnectedAgent<AgentIdentity>): Promise<void> {
  await tx`DELETE FROM workspace_agents WHERE id = ANY(ARRAY(
    SELECT id FROM workspace_agents WHERE resource_id = ${parent.resource_id} AND parent_id = ${parent.id} AND deleted
    ORDER BY updated_at DESC, id OFFSET ${MAX_DELETED}))`;
}

export interface NewSubAgent extends SubAgent {
  architecture: string;
  operating_system: string;
  directory: string;
  display_apps: string[];
}

/** Adds a sub-agent. */
export async function insertSubAgent(
  tx: Tx,
  parent: ConnectedAgent<AgentIdentity>,
  { token, ...agent }: NewSubAgent,
): Promise<Owned<SubAgent>> {
  const { id, name } = agent;
  await tx`INSERT INTO workspace_agents ${tx({
    ...agent,
    parent_id: parent.id,
    resource_id: parent.resource_id,
    auth_token: token,
    troubleshooting_url: parent.troubleshooting_url,
    connection_timeout_seconds: parent.connection_timeout_seconds,
    display_apps: agent.display_apps as never,
    api_key_scope: parent.api_key_scope,
  })}`;
  return { id, name, token } as Owned<SubAgent>;
}

/** The widest level at which the template of an agent's workspace allows sharing apps and ports. */
export async function widestShareLevel(
  db: Db,
  { workspace_id }: Pick<AgentIdentity, 'workspace_id'>,
): Promise<WorkspaceApp['sharing_level'] | undefined> {
  const [template] = await db<{ max_port_share_level: WorkspaceApp['sharing_level'] }[]>`SELECT t.max_port_share_level
    FROM workspaces w JOIN templates t ON t.id = w.template_id WHERE w.id = ${workspace_id}`;
  return template?.max_port_share_level;
}

/** Adds an app to a new sub-agent. False: it has an app with this slug. */
export async function insertSubAgentApp(tx: Tx, agent: Owned<SubAgent>, app: NewApp): Promise<boolean> {
  const rows = await tx`INSERT INTO workspace_apps ${tx({ ...app, agent_id: agent.id })}
    ON CONFLICT (agent_id, slug) DO NOTHING RETURNING id`;
  return rows.length > 0;
}

export async function subAgentsOf(db: Db, parent: ConnectedAgent<AgentIdentity>): Promise<SubAgent[]> {
  return db<SubAgent[]>`SELECT id, name, auth_token AS token FROM workspace_agents
    WHERE parent_id = ${parent.id} AND NOT deleted ORDER BY created_at, name`;
}

/**
 * Marks a sub-agent as deleted: its token is rejected from now on. One that the build created stays, because its apps and
 * scripts belong to the template. False: the agent has no such sub-agent.
 */
export async function deleteSubAgentRow(db: Db, parent: ConnectedAgent<AgentIdentity>, id: string): Promise<boolean> {
  const rows = await db`UPDATE workspace_agents a SET deleted = NOT ${isOfTemplate(db)}, updated_at = now()
    WHERE id = ${id} AND parent_id = ${parent.id} AND NOT deleted RETURNING id`;
  return rows.length > 0;
}
