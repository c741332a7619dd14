import type { WorkspaceAgentLog } from '@ropewalk/contract';
import { freshLines, type LogNumber, type LogPositions } from '@ropewalk/wire/log-sequence';
import type { ConnectedAgent, SystemTask } from '../../authz/proofs.ts';
import type { Db, Sql } from '../connect.ts';
import type { AgentIdentity } from '../rows.ts';
import type { LogSourceRow } from './agent-parts.ts';

export interface AgentLogRow {
  id: number;
  created_at: Date;
  level: WorkspaceAgentLog['level'];
  output: string;
  log_source_id: string;
}

/** A page of an agent's log. */
export async function agentLogs(
  db: Db,
  agentId: string,
  { after = 0, before, limit = 100_000 }: { after?: number | undefined; before?: number | undefined; limit?: number },
): Promise<AgentLogRow[]> {
  return db<AgentLogRow[]>`SELECT id, created_at, level, output, log_source_id FROM workspace_agent_logs
    WHERE agent_id = ${agentId} AND id > ${after} AND (${before ?? null}::bigint IS NULL OR id < ${before ?? null}::bigint)
    ORDER BY id LIMIT ${limit}`;
}

/** How many bytes of the beginning and how many lines of the end of an agent's log are kept. */
const MAX_HEAD = 4 * 1024 * 1024;
const MAX_TAIL = 2_000;
const LONGEST_LINE = 1_024;
/** Bytes that each line counts in addition to its text, as in upstream's agents, so that empty lines count, too. */
const LINE_COST = 21;

export interface AgentLogLine {
  level: string;
  output: string;
}

/** Stores lines, in one statement while the log is short. Beyond the limit, only the end of the log is kept. */
export async function insertAgentLogs(
  db: Db,
  { id: agentId }: ConnectedAgent<AgentIdentity>,
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
      -- of a cut log, only as many lines as its end keeps
      WHERE counted.log_cut_id IS NULL OR l.number > ${lines.length - MAX_TAIL} ORDER BY l.number)
    SELECT * FROM counted`;
  if (!row || row.logs_length < MAX_HEAD) return;
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
    ORDER BY id DESC OFFSET ${MAX_TAIL} LIMIT 1)`;
}

/** How far each source's lines are stored for one run of an agent. */
interface AgentLogPositions {
  run?: string;
  sources?: LogPositions;
}

/**
 * Stores those of an agent's numbered lines that are not stored yet. The origin of the numbers is the agent's run. An
 * earlier run sends nothing more.
 */
export async function insertNumberedAgentLogs(
  sql: Sql,
  agent: ConnectedAgent<AgentIdentity>,
  sourceId: string,
  lines: readonly AgentLogLine[],
  numbers: readonly LogNumber[],
): Promise<void> {
  await sql.begin(async (tx) => {
    const [row] = await tx<{ log_positions: AgentLogPositions }[]>`
      SELECT log_positions FROM workspace_agents WHERE id = ${agent.id} FOR UPDATE`;
    const run = numbers[0]?.origin;
    if (!row || run === undefined) return;
    const known = row.log_positions.run === run ? (row.log_positions.sources ?? {}) : {};
    const ofSource = numbers.map(({ sequence }) => ({ origin: sourceId, sequence }));
    const { fresh, positions } = freshLines(lines, ofSource, known);
    if (fresh.length === 0) return;
    const stored: AgentLogPositions = { run, sources: positions };
    await tx`UPDATE workspace_agents SET log_positions = ${tx.json(stored as never)} WHERE id = ${agent.id}`;
    await insertAgentLogs(tx, agent, sourceId, fresh);
  });
}

/** Adds a log source for lines whose source the template does not declare, unless the agent has it. */
export async function insertLogSource(
  db: Db,
  agent: ConnectedAgent<AgentIdentity>,
  source: { id: string; name: string; icon: string },
): Promise<void> {
  await db`INSERT INTO workspace_agent_log_sources (id, workspace_agent_id, display_name, icon)
    VALUES (${source.id}, ${agent.id}, ${source.name}, ${source.icon}) ON CONFLICT DO NOTHING`;
}

/** Adds or renames a log source of an agent. Undefined if the agent has `most` others. */
export async function upsertLogSource(
  db: Db,
  agent: ConnectedAgent<AgentIdentity>,
  source: { id: string; name: string; icon: string },
  most: number,
): Promise<LogSourceRow | undefined> {
  const [row] = await db<LogSourceRow[]>`
    INSERT INTO workspace_agent_log_sources (id, workspace_agent_id, display_name, icon)
    SELECT ${source.id}::uuid, ${agent.id}::uuid, ${source.name}, ${source.icon}
    WHERE (SELECT count(*) FROM workspace_agent_log_sources WHERE workspace_agent_id = ${agent.id} AND id <> ${source.id}) < ${most}
    ON CONFLICT (workspace_agent_id, id) DO UPDATE SET display_name = excluded.display_name, icon = excluded.icon RETURNING *`;
  return row;
}

/** Agents with logs that were last connected before this time and do not belong to their workspace's latest build. */
export async function agentsWithOldLogs(db: Db, { before, most }: { before: Date; most: number }): Promise<string[]> {
  const rows = await db<{ id: string }[]>`
    SELECT a.id FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id
    WHERE a.logs_length > 0 AND coalesce(a.last_connected_at, a.created_at) < ${before} AND EXISTS (
      SELECT 1 FROM workspace_builds n WHERE n.workspace_id = b.workspace_id AND n.build_number > b.build_number)
    LIMIT ${most}`;
  return rows.map(({ id }) => id);
}

/** Deletes the first lines of an agent that writes no more. Returns how many. Without any left, its log is empty. */
export async function deleteAgentLogs(db: Db, _task: SystemTask, agentId: string, most: number): Promise<number> {
  const [row] = await db<{ count: number }[]>`
    WITH gone AS (
      DELETE FROM workspace_agent_logs WHERE id = ANY (ARRAY(
        SELECT id FROM workspace_agent_logs WHERE agent_id = ${agentId} ORDER BY id LIMIT ${most})) RETURNING 1),
    emptied AS (
      UPDATE workspace_agents SET logs_length = 0 WHERE id = ${agentId} AND (SELECT count(*) FROM gone) < ${most})
    SELECT count(*) FROM gone`;
  return row!.count;
}
