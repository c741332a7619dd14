import type { AgentRow } from '../../app/agent/convert.ts';
import type { Db } from '../connect.ts';

/** An agent with the workspace it speaks for. */
export interface AgentIdentity extends AgentRow {
  workspace_id: string;
  workspace_name: string;
  organization_id: string;
  owner_id: string;
  owner_name: string;
  build_number: number;
}

const IDENTITY = (db: Db) => db`
  a.*, w.id AS workspace_id, w.name AS workspace_name, w.organization_id, w.owner_id, u.username AS owner_name, b.build_number
  FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
  JOIN workspace_builds b ON b.job_id = r.job_id JOIN workspaces w ON w.id = b.workspace_id JOIN users u ON u.id = w.owner_id`;

/**
 * Whether a build's agents may speak: those of the latest build, and while a later stop or delete is still running
 * those of the build before it, so that they can send their last logs and lifecycle.
 */
const MAY_SPEAK = (db: Db) => db`NOT w.deleted AND NOT a.deleted AND b.build_number >= (
  SELECT CASE WHEN n.transition <> 'start' AND j.completed_at IS NULL THEN n.build_number - 1 ELSE n.build_number END
  FROM workspace_builds n JOIN provisioner_jobs j ON j.id = n.job_id
  WHERE n.workspace_id = w.id ORDER BY n.build_number DESC LIMIT 1)`;

export async function agentByToken(db: Db, token: string): Promise<AgentIdentity | undefined> {
  const [row] = await db<AgentIdentity[]>`SELECT ${IDENTITY(db)} WHERE a.auth_token = ${token} AND ${MAY_SPEAK(db)}`;
  return row;
}

export async function agentById(db: Db, id: string): Promise<AgentIdentity | undefined> {
  const [row] = await db<AgentIdentity[]>`SELECT ${IDENTITY(db)} WHERE a.id = ${id}`;
  return row;
}

/** The number of a new connection of this agent; later ones are higher. */
export async function countConnection(db: Db, id: string): Promise<number> {
  const [row] = await db<{ connection_number: number }[]>`
    UPDATE workspace_agents SET connection_number = connection_number + 1 WHERE id = ${id} RETURNING connection_number`;
  return row!.connection_number;
}

/** Notes a connection as alive; false once the agent's build is outdated. */
export async function noteAgentAlive(db: Db, id: string): Promise<boolean> {
  const rows = await db`UPDATE workspace_agents a SET last_connected_at = now(), disconnected_at = NULL,
      first_connected_at = coalesce(a.first_connected_at, now())
    FROM workspace_resources r, workspace_builds b, workspaces w
    WHERE a.id = ${id} AND r.id = a.resource_id AND b.job_id = r.job_id AND w.id = b.workspace_id AND ${MAY_SPEAK(db)}
    RETURNING a.id`;
  return rows.length > 0;
}

/** Notes the end of a connection; false where a newer one is there. */
export async function noteAgentGone(db: Db, id: string, number: number): Promise<boolean> {
  const rows = await db`UPDATE workspace_agents SET disconnected_at = now()
    WHERE id = ${id} AND connection_number = ${number} RETURNING id`;
  return rows.length > 0;
}

/** Stored per agent; what is beyond is cut, with head and tail kept by the agent and the cut said. */
export const MOST_LOG_BYTES = 4 * 1024 * 1024;

export interface AgentLogLine {
  createdAt: Date;
  level: string;
  output: string;
}

/** Stores lines and counts them; says whether the agent's log has reached its bound. */
export async function insertAgentLogs(
  db: Db,
  agentId: string,
  sourceId: string,
  lines: AgentLogLine[],
): Promise<{ overflowed: boolean }> {
  const bytes = lines.reduce((sum, line) => sum + line.output.length, 0);
  const [row] = await db<{ logs_length: number; logs_overflowed: boolean }[]>`
    UPDATE workspace_agents SET logs_length = logs_length + ${bytes} WHERE id = ${agentId} RETURNING logs_length, logs_overflowed`;
  if (!row) return { overflowed: false };
  const [head, tail] = row.logs_length - bytes < MOST_LOG_BYTES ? [lines, []] : [[], lines];
  await insertLines(db, agentId, sourceId, head);
  if (tail.length === 0) return { overflowed: false };
  // beyond the bound only the newest lines are kept, and a line says so once
  if (!row.logs_overflowed) {
    await db`UPDATE workspace_agents SET logs_overflowed = true WHERE id = ${agentId}`;
    await insertLines(db, agentId, sourceId, [
      {
        createdAt: new Date(),
        level: 'warn',
        output: 'The log is longer than is kept: from here on only its last lines are.',
      },
    ]);
  }
  await insertLines(db, agentId, sourceId, tail);
  await db`DELETE FROM workspace_agent_logs WHERE agent_id = ${agentId} AND id > (
      SELECT id FROM workspace_agent_logs WHERE agent_id = ${agentId} AND output LIKE 'The log is longer than is kept%' ORDER BY id LIMIT 1)
    AND id <= (SELECT max(id) FROM workspace_agent_logs WHERE agent_id = ${agentId}) - 2000`;
  return { overflowed: true };
}

async function insertLines(db: Db, agentId: string, sourceId: string, lines: AgentLogLine[]): Promise<void> {
  if (lines.length === 0) return;
  await db`INSERT INTO workspace_agent_logs (agent_id, log_source_id, created_at, level, output)
    SELECT ${agentId}::uuid, ${sourceId}::uuid, l.* FROM unnest(${lines.map((l) => l.createdAt.toISOString())}::text[]::timestamptz[],
      ${lines.map((l) => l.level)}::text[], ${lines.map((l) => l.output.replaceAll('\0', '').slice(0, 1024))}::text[]) AS l`;
}
