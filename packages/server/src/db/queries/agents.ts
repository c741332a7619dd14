import { freshLines, type LogNumber, type LogPositions } from '@platform/wire/log-sequence';
import type { AgentRow } from '../../app/agent/convert.ts';
import type { Db, Sql } from '../connect.ts';

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

/** The agents of a workspace that runs: of its latest build, which is a start that has succeeded. None in other states. */
export async function agentsOfRunning(db: Db, ownerId: string, workspace: string): Promise<AgentIdentity[]> {
  return db<AgentIdentity[]>`SELECT ${IDENTITY(db)} JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE w.owner_id = ${ownerId} AND lower(w.name) = lower(${workspace}) AND NOT w.deleted AND NOT a.deleted
      AND b.transition = 'start' AND j.job_status = 'succeeded'
      AND b.build_number = (SELECT max(n.build_number) FROM workspace_builds n WHERE n.workspace_id = w.id)`;
}

/** The newest agent of a machine, by the cloud's id of it, and what its row says of its right to speak. */
export async function agentByInstance(
  db: Db,
  instanceId: string,
): Promise<{ auth_token: string; job_type: string; may_speak: boolean } | undefined> {
  const [row] = await db<{ auth_token: string; job_type: string; may_speak: boolean }[]>`
    SELECT a.auth_token, j.type AS job_type, coalesce(b.id IS NOT NULL AND ${MAY_SPEAK(db)}, false) AS may_speak
    FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id JOIN provisioner_jobs j ON j.id = r.job_id
    LEFT JOIN workspace_builds b ON b.job_id = j.id LEFT JOIN workspaces w ON w.id = b.workspace_id
    WHERE a.auth_instance_id = ${instanceId} AND NOT a.deleted ORDER BY a.created_at DESC LIMIT 1`;
  return row;
}

/** The number of a new connection of this agent; later ones are higher. `reachable`: it serves streams. */
export async function countConnection(db: Db, id: string, reachable: boolean): Promise<number> {
  const [row] = await db<{ connection_number: number }[]>`UPDATE workspace_agents
    SET connection_number = connection_number + 1, reachable = ${reachable} WHERE id = ${id} RETURNING connection_number`;
  return row!.connection_number;
}

/** A connection of an agent, by countConnection. */
export interface Connected {
  id: string;
  number: number;
}

const connections = (db: Db, agents: readonly Connected[]) => db`unnest(${agents.map(({ id }) => id)}::uuid[],
  ${agents.map(({ number }) => String(number))}::text[]::bigint[]) AS c (id, number)`;

/** Notes connections as alive. Gives back those that end: the agent's build is outdated, or it has a newer connection. */
export async function noteAgentsAlive(db: Db, agents: readonly Connected[]): Promise<Set<string>> {
  const rows = await db<Pick<AgentRow, 'id'>[]>`WITH alive AS (
      UPDATE workspace_agents a SET last_connected_at = now(), disconnected_at = NULL, connect_deadline = NULL,
        first_connected_at = coalesce(a.first_connected_at, now())
      FROM ${connections(db, agents)}, workspace_resources r, workspace_builds b, workspaces w
      WHERE a.id = c.id AND a.connection_number = c.number AND r.id = a.resource_id AND b.job_id = r.job_id
        AND w.id = b.workspace_id AND ${MAY_SPEAK(db)} RETURNING a.id)
    SELECT c.id FROM ${connections(db, agents)} WHERE NOT EXISTS (SELECT 1 FROM alive WHERE alive.id = c.id)`;
  return new Set(rows.map(({ id }) => id));
}

/** Notes the end of connections. Gives back those agents that have no newer one. */
export async function noteAgentsGone(db: Db, agents: readonly Connected[]): Promise<Set<string>> {
  const rows = await db<Pick<AgentRow, 'id'>[]>`UPDATE workspace_agents a SET disconnected_at = now()
    FROM ${connections(db, agents)} WHERE a.id = c.id AND a.connection_number = c.number RETURNING a.id`;
  return new Set(rows.map(({ id }) => id));
}

/** Bytes kept of the beginning of an agent's log, and lines kept of its end. */
const MOST_HEAD = 4 * 1024 * 1024;
const MOST_TAIL = 2_000;
const LONGEST_LINE = 1_024;
/** What each line counts beside its text, as published agents count: empty ones fill a log, too. */
const LINE_COST = 21;

export interface AgentLogLine {
  level: string;
  output: string;
}

/** Stores lines, in one statement for as long as the log is not too long; then only its end goes on being kept. */
export async function insertAgentLogs(
  db: Db,
  agentId: string,
  sourceId: string,
  lines: readonly AgentLogLine[],
): Promise<void> {
  const bytes = lines.reduce((sum, line) => sum + line.output.length + LINE_COST, 0);
  const [row] = await db<{ logs_length: number; log_cut_id: number | null }[]>`WITH counted AS (
      UPDATE workspace_agents SET logs_length = logs_length + ${bytes} WHERE id = ${agentId}
      RETURNING logs_length, log_cut_id),
    kept AS (
      INSERT INTO workspace_agent_logs (agent_id, log_source_id, level, output)
      SELECT ${agentId}::uuid, ${sourceId}::uuid, l.level, l.output FROM counted,
        unnest(${lines.map((line) => line.level)}::text[],
          ${lines.map((line) => line.output.replaceAll('\0', '').slice(0, LONGEST_LINE))}::text[])
          WITH ORDINALITY AS l (level, output, number)
      -- of a log that is cut, no more than what is kept of its end
      WHERE counted.log_cut_id IS NULL OR l.number > ${lines.length - MOST_TAIL} ORDER BY l.number)
    SELECT * FROM counted`;
  if (!row || row.logs_length < MOST_HEAD) return;
  if (row.log_cut_id === null) {
    await db`WITH cut AS (
        INSERT INTO workspace_agent_logs (agent_id, log_source_id, level, output)
        SELECT id, ${sourceId}, 'warn', 'The log is longer than is kept: from here on only its last lines are.'
        FROM workspace_agents WHERE id = ${agentId} AND log_cut_id IS NULL RETURNING id)
      UPDATE workspace_agents SET log_cut_id = cut.id, logs_overflowed = true FROM cut WHERE workspace_agents.id = ${agentId}`;
    return;
  }
  await db`DELETE FROM workspace_agent_logs WHERE agent_id = ${agentId} AND id > ${row.log_cut_id} AND id <= (
    SELECT id FROM workspace_agent_logs WHERE agent_id = ${agentId} AND id > ${row.log_cut_id}
    ORDER BY id DESC OFFSET ${MOST_TAIL} LIMIT 1)`;
}

/** How far each source's lines of one life of an agent are stored. */
interface AgentLogPositions {
  run?: string;
  sources?: LogPositions;
}

/**
 * Stores those of an agent's numbered lines that are not stored yet. Of the numbers the origin is the life of the agent:
 * of an earlier one nothing comes any more.
 */
export async function insertNumberedAgentLogs(
  sql: Sql,
  agentId: string,
  sourceId: string,
  lines: readonly AgentLogLine[],
  numbers: readonly LogNumber[],
): Promise<void> {
  await sql.begin(async (tx) => {
    const [row] = await tx<{ log_positions: AgentLogPositions }[]>`
      SELECT log_positions FROM workspace_agents WHERE id = ${agentId} FOR UPDATE`;
    const run = numbers[0]?.origin;
    if (!row || run === undefined) return;
    const known = row.log_positions.run === run ? (row.log_positions.sources ?? {}) : {};
    const ofSource = numbers.map(({ sequence }) => ({ origin: sourceId, sequence }));
    const { fresh, positions } = freshLines(lines, ofSource, known);
    if (fresh.length === 0) return;
    const stored: AgentLogPositions = { run, sources: positions };
    await tx`UPDATE workspace_agents SET log_positions = ${tx.json(stored as never)} WHERE id = ${agentId}`;
    await insertAgentLogs(tx, agentId, sourceId, fresh);
  });
}

/** For lines of no source that the template knows. */
export async function insertLogSource(
  db: Db,
  agentId: string,
  source: { id: string; name: string; icon: string },
): Promise<void> {
  await db`INSERT INTO workspace_agent_log_sources (id, workspace_agent_id, display_name, icon)
    VALUES (${source.id}, ${agentId}, ${source.name}, ${source.icon}) ON CONFLICT DO NOTHING`;
}
