// The reports of connected agents.

import type { ConnectedAgent, SystemTask } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';
import type { AgentIdentity } from '../rows.ts';
import { bump } from './deadlines.ts';

/** Bytes and packets since the last report, and the current number of sessions and connections. */
export interface StatsReport {
  rxBytes: number;
  txBytes: number;
  rxPackets: number;
  txPackets: number;
  vscode: number;
  jetbrains: number;
  reconnectingPty: number;
  ssh: number;
  connections: number;
  protocols: Record<string, number>;
  /** Negative: unknown. */
  latencyMs: number;
}

export interface Usage {
  used: number;
  total: number;
}

/** A value of an agent's metadata. */
export interface MetadataValue {
  value: string;
  error: string;
  at: Date;
}

/** A report of an agent, written together with the reports of others. */
export interface Reported<T> {
  agent: ConnectedAgent<Pick<AgentIdentity, 'id' | 'workspace_id'>>;
  report: T;
}

/**
 * Writes statistics, except those of deleted agents. A workspace with an open session counts as used now, in this
 * minute of its usage, and its deadline moves as its template says.
 */
export async function writeStats(db: Db, items: readonly Reported<StatsReport>[]): Promise<void> {
  const rows = items.map(({ agent, report }) => ({ agent_id: agent.id, ...report, workspaceId: agent.workspace_id }));
  await db`WITH reported AS (
      SELECT * FROM jsonb_to_recordset(${db.json(rows as never)}) AS s (agent_id uuid, "workspaceId" uuid, "rxBytes" bigint,
        "txBytes" bigint, "rxPackets" bigint, "txPackets" bigint, vscode bigint, jetbrains bigint, "reconnectingPty" bigint,
        ssh bigint, connections bigint, protocols jsonb, "latencyMs" float8)),
    busy AS (
      SELECT DISTINCT "workspaceId" AS id FROM reported WHERE vscode + jetbrains + "reconnectingPty" + ssh > 0),
    used AS (
      UPDATE workspaces SET last_used_at = now() WHERE id IN (SELECT id FROM busy)),
    bumped AS (UPDATE workspace_builds b ${bump(db, db`SELECT id FROM busy`)}),
    counted AS (
      INSERT INTO workspace_usage AS u (workspace_id, start_time, ssh, vscode, jetbrains, reconnecting_pty, latency_sum,
        latency_count)
      SELECT w.id, usage_start(now()), CASE WHEN bool_or(ssh > 0) THEN usage_minute(now()) ELSE 0 END,
        CASE WHEN bool_or(vscode > 0) THEN usage_minute(now()) ELSE 0 END,
        CASE WHEN bool_or(jetbrains > 0) THEN usage_minute(now()) ELSE 0 END,
        CASE WHEN bool_or("reconnectingPty" > 0) THEN usage_minute(now()) ELSE 0 END,
        coalesce(sum("latencyMs") FILTER (WHERE "latencyMs" > 0), 0), count(*) FILTER (WHERE "latencyMs" > 0)
      FROM reported JOIN workspaces w ON w.id = "workspaceId"
      WHERE vscode + jetbrains + "reconnectingPty" + ssh > 0
      -- in the same order on every server
      GROUP BY w.id ORDER BY w.id
      ON CONFLICT (workspace_id, start_time) DO UPDATE SET ssh = u.ssh | excluded.ssh, vscode = u.vscode | excluded.vscode,
        jetbrains = u.jetbrains | excluded.jetbrains, reconnecting_pty = u.reconnecting_pty | excluded.reconnecting_pty,
        latency_sum = u.latency_sum + excluded.latency_sum, latency_count = u.latency_count + excluded.latency_count)
    INSERT INTO workspace_agent_stats (agent_id, workspace_id, rx_bytes, tx_bytes, rx_packets, tx_packets,
      session_count_vscode, session_count_jetbrains, session_count_reconnecting_pty, session_count_ssh,
      connection_count, connections_by_proto, connection_median_latency_ms)
    SELECT a.id, s."workspaceId", s."rxBytes", s."txBytes", s."rxPackets", s."txPackets", s.vscode, s.jetbrains,
      s."reconnectingPty", s.ssh, s.connections, s.protocols, s."latencyMs"
    FROM reported s JOIN workspace_agents a ON a.id = s.agent_id`;
}

/** Writes newer values of the metadata that the template declares, and ignores others. */
export async function writeMetadata(
  db: Db,
  items: readonly Reported<ReadonlyMap<string, MetadataValue>>[],
): Promise<void> {
  const rows = items.flatMap(({ agent, report }) =>
    [...report].map(([key, value]) => ({ id: agent.id, key, ...value })),
  );
  await db`UPDATE workspace_agent_metadata m SET value = v.value, error = v.error, collected_at = v.at
    FROM unnest(${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => row.key)}::text[],
      ${rows.map((row) => row.value)}::text[], ${rows.map((row) => row.error)}::text[],
      ${rows.map((row) => row.at.toISOString())}::text[]::timestamptz[]) AS v (id, key, value, error, at)
    WHERE m.workspace_agent_id = v.id AND m.key = v.key AND (m.collected_at IS NULL OR m.collected_at <= v.at)`;
}

export async function writeUsage(db: Db, items: readonly Reported<ReadonlyMap<string, Usage>>[]): Promise<void> {
  const rows = items.flatMap(({ agent, report }) =>
    [...report].map(([path, usage]) => ({ id: agent.id, path, ...usage })),
  );
  await db`UPDATE workspace_agent_monitors m SET used = v.used, total = v.total, measured_at = now()
    FROM unnest(${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => row.path)}::text[],
      ${rows.map((row) => String(row.used))}::text[]::bigint[], ${rows.map((row) => String(row.total))}::text[]::bigint[])
      AS v (id, path, used, total)
    WHERE m.agent_id = v.id AND m.path = v.path`;
}

/**
 * The maximum number of runs kept for each script and stage. Lists of workspaces read them to explain why an agent did not start.
 */
const MAX_TIMINGS = 200;

/** A run of a script that an agent reports. */
export interface ScriptTiming {
  agent: ConnectedAgent<Pick<AgentIdentity, 'id'>>;
  scriptId: string;
  start: Date;
  end: Date;
  exitCode: number;
  stage: string;
  status: string;
}

/** Adds runs of scripts of these agents, and deletes the oldest runs. Each agent may occur once. */
export async function insertScriptTimings(db: Db, timings: readonly ScriptTiming[]): Promise<void> {
  const rows = timings.map(({ agent, ...timing }) => ({ agentId: agent.id, ...timing }));
  // the deletion does not see the new run, which counts as one
  await db`WITH reported AS (
      SELECT s.id, c.start, c."end", c."exitCode", c.stage, c.status
      FROM jsonb_to_recordset(${db.json(rows as never)}) AS c ("agentId" uuid, "scriptId" uuid, start timestamptz,
        "end" timestamptz, "exitCode" integer, stage text, status text)
      JOIN workspace_agent_scripts s ON s.id = c."scriptId" AND s.workspace_agent_id = c."agentId"),
    trimmed AS (
      DELETE FROM workspace_agent_script_timings WHERE ctid = ANY(ARRAY(SELECT old.ctid FROM reported c CROSS JOIN LATERAL (
        SELECT ctid FROM workspace_agent_script_timings WHERE script_id = c.id AND stage = c.stage
        ORDER BY started_at DESC, ctid DESC OFFSET ${MAX_TIMINGS - 1}) old)))
    INSERT INTO workspace_agent_script_timings (script_id, started_at, ended_at, exit_code, stage, status)
    SELECT id, start, "end", "exitCode", stage, status FROM reported`;
}

export interface ReportedConnection {
  id: string;
  ended: boolean;
  type: string;
  at: Date;
  ip: string;
  statusCode: number;
  reason: string;
}

/** Stores that a connection to a workspace began or ended. A stored end stays. */
export async function upsertConnection(
  db: Db,
  agent: ConnectedAgent<AgentIdentity>,
  reported: ReportedConnection,
): Promise<void> {
  await db`INSERT INTO connection_logs ${db({
    id: crypto.randomUUID(),
    connect_time: reported.at,
    organization_id: agent.organization_id,
    workspace_owner_id: agent.owner_id,
    workspace_id: agent.workspace_id,
    workspace_name: agent.workspace_name,
    agent_name: agent.name,
    type: reported.type,
    ip: reported.ip,
    code: reported.ended ? reported.statusCode : null,
    connection_id: reported.id,
    disconnect_time: reported.ended ? reported.at : null,
    disconnect_reason: reported.ended ? reported.reason : null,
  })} ON CONFLICT (connection_id, workspace_id, agent_name) WHERE connection_id IS NOT NULL DO UPDATE SET
    -- the agent knows the editor that uses SSH
    type = excluded.type,
    disconnect_time = coalesce(connection_logs.disconnect_time, excluded.disconnect_time),
    disconnect_reason = coalesce(connection_logs.disconnect_reason, excluded.disconnect_reason),
    code = coalesce(connection_logs.code, excluded.code)`;
}

/** Deletes at most this many old statistics. Returns how many it deleted. */
export async function purgeStats(
  db: Db,
  _task: SystemTask,
  { days, most }: { days: number; most: number },
): Promise<number> {
  const { count } = await db`DELETE FROM workspace_agent_stats WHERE id = ANY(ARRAY(SELECT id FROM workspace_agent_stats
    WHERE created_at < now() - ${days} * interval '1 day' ORDER BY created_at LIMIT ${most}))`;
  return count;
}

/** Deletes usage that began longer ago. Returns how many half hours of workspaces it deleted. */
export async function purgeUsage(
  db: Db,
  _task: SystemTask,
  { days, most }: { days: number; most: number },
): Promise<number> {
  const old = db`SELECT ctid FROM workspace_usage
    WHERE start_time < now() - ${days} * interval '1 day' ORDER BY start_time LIMIT ${most}`;
  const oldOfApps = db`SELECT ctid FROM workspace_app_usage
    WHERE start_time < now() - ${days} * interval '1 day' ORDER BY start_time LIMIT ${most}`;
  const { count } = await db`DELETE FROM workspace_usage WHERE ctid = ANY(ARRAY(${old}))`;
  const { count: ofApps } = await db`DELETE FROM workspace_app_usage WHERE ctid = ANY(ARRAY(${oldOfApps}))`;
  return Math.max(count, ofApps);
}
