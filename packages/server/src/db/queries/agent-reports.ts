import type { StatsReport, Usage, Value } from '../../app/agent/reports.ts';
import type { Db } from '../connect.ts';

/**
 * Of agents that are gone meanwhile nothing is written. A workspace with a session in it counts as used now, and its
 * deadline moves on as its template says.
 */
export async function writeStats(db: Db, items: Map<string, StatsReport & { workspaceId: string }>): Promise<void> {
  const rows = [...items].map(([agent_id, report]) => ({ agent_id, ...report }));
  await db`WITH reported AS (
      SELECT * FROM jsonb_to_recordset(${db.json(rows as never)}) AS s (agent_id uuid, "workspaceId" uuid, "rxBytes" bigint,
        "txBytes" bigint, "rxPackets" bigint, "txPackets" bigint, vscode bigint, jetbrains bigint, "reconnectingPty" bigint,
        ssh bigint, connections bigint, protocols jsonb, "latencyMs" float8)),
    busy AS (
      SELECT DISTINCT "workspaceId" AS id FROM reported WHERE vscode + jetbrains + "reconnectingPty" + ssh > 0),
    used AS (
      UPDATE workspaces SET last_used_at = now() WHERE id IN (SELECT id FROM busy)),
    bumped AS (
      UPDATE workspace_builds b SET
        deadline = least(greatest(b.deadline, now() + t.activity_bump_ms * interval '1 millisecond'), b.max_deadline)
      FROM busy, workspaces w, templates t
      WHERE w.id = busy.id AND t.id = w.template_id AND b.workspace_id = w.id AND b.transition = 'start'
        AND b.deadline IS NOT NULL AND t.activity_bump_ms > 0
        AND b.build_number = (SELECT max(n.build_number) FROM workspace_builds n WHERE n.workspace_id = w.id))
    INSERT INTO workspace_agent_stats (agent_id, workspace_id, rx_bytes, tx_bytes, rx_packets, tx_packets,
      session_count_vscode, session_count_jetbrains, session_count_reconnecting_pty, session_count_ssh,
      connection_count, connections_by_proto, connection_median_latency_ms)
    SELECT a.id, s."workspaceId", s."rxBytes", s."txBytes", s."rxPackets", s."txPackets", s.vscode, s.jetbrains,
      s."reconnectingPty", s.ssh, s.connections, s.protocols, s."latencyMs"
    FROM reported s JOIN workspace_agents a ON a.id = s.agent_id`;
}

/** Newer values of what the template asks for; others are not kept. */
export async function writeMetadata(db: Db, items: Map<string, Map<string, Value>>): Promise<void> {
  const rows = [...items].flatMap(([id, values]) => [...values].map(([key, value]) => ({ id, key, ...value })));
  await db`UPDATE workspace_agent_metadata m SET value = v.value, error = v.error, collected_at = v.at
    FROM unnest(${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => row.key)}::text[],
      ${rows.map((row) => row.value)}::text[], ${rows.map((row) => row.error)}::text[],
      ${rows.map((row) => row.at.toISOString())}::text[]::timestamptz[]) AS v (id, key, value, error, at)
    WHERE m.workspace_agent_id = v.id AND m.key = v.key AND (m.collected_at IS NULL OR m.collected_at <= v.at)`;
}

export async function writeUsage(db: Db, items: Map<string, Map<string, Usage>>): Promise<void> {
  const rows = [...items].flatMap(([id, paths]) => [...paths].map(([path, usage]) => ({ id, path, ...usage })));
  await db`UPDATE workspace_agent_monitors m SET used = v.used, total = v.total, measured_at = now()
    FROM unnest(${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => row.path)}::text[],
      ${rows.map((row) => String(row.used))}::text[]::bigint[], ${rows.map((row) => String(row.total))}::text[]::bigint[])
      AS v (id, path, used, total)
    WHERE m.agent_id = v.id AND m.path = v.path`;
}

/** Runs that are kept of each script and stage: lists of workspaces look at them for why an agent did not start. */
const MOST_TIMINGS = 200;

export interface ScriptTiming {
  scriptId: string;
  start: Date;
  end: Date;
  exitCode: number;
  stage: string;
  status: string;
}

/** Notes a run of a script of this agent's, and forgets the oldest ones. */
export async function insertScriptTiming(db: Db, agentId: string, timing: ScriptTiming): Promise<void> {
  const { scriptId, start, end, exitCode, stage, status } = timing;
  const { count } = await db`INSERT INTO workspace_agent_script_timings
      (script_id, started_at, ended_at, exit_code, stage, status)
    SELECT id, ${start}, ${end}, ${exitCode}, ${stage}, ${status}
    FROM workspace_agent_scripts WHERE id = ${scriptId} AND workspace_agent_id = ${agentId}`;
  if (count === 0) return;
  await db`DELETE FROM workspace_agent_script_timings WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM workspace_agent_script_timings WHERE script_id = ${scriptId} AND stage = ${stage}
    ORDER BY started_at DESC, ctid DESC OFFSET ${MOST_TIMINGS}))`;
}
