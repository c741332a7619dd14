import type { Db } from '../connect.ts';

export type WorkspaceCounts = Record<'pending' | 'building' | 'running' | 'failed' | 'stopped', number>;

/** The number of workspaces by the status of their latest build. */
export async function workspaceCounts(db: Db): Promise<WorkspaceCounts> {
  const [row] = await db<WorkspaceCounts[]>`
    SELECT count(*) FILTER (WHERE status = 'pending') AS pending,
      count(*) FILTER (WHERE status IN ('running', 'canceling')) AS building,
      count(*) FILTER (WHERE status = 'succeeded' AND transition = 'start') AS running,
      count(*) FILTER (WHERE status IN ('failed', 'canceled')) AS failed,
      count(*) FILTER (WHERE status = 'succeeded' AND transition = 'stop') AS stopped
    FROM (SELECT DISTINCT ON (w.id) j.job_status AS status, b.transition
      FROM workspaces w JOIN workspace_builds b ON b.workspace_id = w.id JOIN provisioner_jobs j ON j.id = b.job_id
      WHERE NOT w.deleted ORDER BY w.id, b.build_number DESC) latest`;
  return row!;
}

export interface AgentTraffic {
  rx: number;
  tx: number;
  /** Latencies of connections, in ms. -1: unknown. */
  p50: number;
  p95: number;
}

/** Bytes that agents received and sent since this time. */
export async function agentTraffic(db: Db, from: Date): Promise<AgentTraffic> {
  const [row] = await db<AgentTraffic[]>`
    SELECT coalesce(sum(rx_bytes), 0)::bigint AS rx, coalesce(sum(tx_bytes), 0)::bigint AS tx,
      coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY connection_median_latency_ms)
        FILTER (WHERE connection_median_latency_ms > 0), -1) AS p50,
      coalesce(percentile_cont(0.95) WITHIN GROUP (ORDER BY connection_median_latency_ms)
        FILTER (WHERE connection_median_latency_ms > 0), -1) AS p95
    FROM workspace_agent_stats WHERE created_at > ${from}`;
  return row!;
}

export type SessionCounts = Record<'vscode' | 'jetbrains' | 'reconnecting_pty' | 'ssh', number>;

/** Open sessions by kind, from each agent's last report since this time. */
export async function sessionCounts(db: Db, from: Date): Promise<SessionCounts> {
  const [row] = await db<SessionCounts[]>`
    SELECT coalesce(sum(session_count_vscode), 0)::bigint AS vscode,
      coalesce(sum(session_count_jetbrains), 0)::bigint AS jetbrains,
      coalesce(sum(session_count_reconnecting_pty), 0)::bigint AS reconnecting_pty,
      coalesce(sum(session_count_ssh), 0)::bigint AS ssh
    FROM (SELECT DISTINCT ON (agent_id) * FROM workspace_agent_stats WHERE created_at > ${from}
      ORDER BY agent_id, created_at DESC) latest`;
  return row!;
}
