// The figures of workspaces and their agents that metrics show.

import type { Sql, Tx } from '../connect.ts';
import type { AgentNetwork, JobStatus } from '../rows.ts';
import { agentStatus } from './agents.ts';
import { STATEMENT_TIMEOUT } from './figures.ts';

export interface AgentFigure {
  username: string;
  workspace_name: string;
  template_name: string;
  template_version: string;
  agent_name: string;
  status: string;
  lifecycle_state: string;
  network: AgentNetwork | null;
  apps: { name: string; health: string }[];
}

export interface LatestBuildFigure {
  status: JobStatus;
  template_name: string;
  template_version: string;
  workspace_owner: string;
  workspace_transition: string;
  count: number;
}

/** The latest build of each workspace, and its agents. At most `most` of each. */
export async function readWorkspaceFigures(
  sql: Sql,
  most: number,
): Promise<{ agents: AgentFigure[]; builds: LatestBuildFigure[] }> {
  return sql.begin('READ ONLY', async (tx) => {
    await tx`SELECT set_config('statement_timeout', ${STATEMENT_TIMEOUT}, true)`;
    return { agents: await readAgents(tx, most), builds: await readBuilds(tx, most) };
  }) as Promise<{ agents: AgentFigure[]; builds: LatestBuildFigure[] }>;
}

const latest = (tx: Tx) => tx`
  SELECT w.name AS workspace_name, u.username, t.name AS template_name, v.name AS template_version, b.job_id, b.transition
  FROM workspaces w JOIN users u ON u.id = w.owner_id JOIN templates t ON t.id = w.template_id
  JOIN LATERAL (SELECT job_id, transition, template_version_id FROM workspace_builds b WHERE b.workspace_id = w.id
    ORDER BY build_number DESC LIMIT 1) b ON true
  JOIN template_versions v ON v.id = b.template_version_id WHERE NOT w.deleted`;

function readAgents(tx: Tx, most: number): Promise<AgentFigure[]> {
  return tx<AgentFigure[]>`
    SELECT l.username, l.workspace_name, l.template_name, l.template_version, a.name AS agent_name,
      ${agentStatus(tx)} AS status, a.lifecycle_state, a.network,
      coalesce((SELECT jsonb_agg(jsonb_build_object('name', p.slug, 'health', p.health) ORDER BY p.slug)
        FROM workspace_apps p WHERE p.agent_id = a.id), '[]') AS apps
    FROM (${latest(tx)}) l JOIN workspace_resources r ON r.job_id = l.job_id
    JOIN workspace_agents a ON a.resource_id = r.id AND NOT a.deleted
    WHERE l.transition = 'start' ORDER BY l.username, l.workspace_name, a.name LIMIT ${most}`;
}

function readBuilds(tx: Tx, most: number): Promise<LatestBuildFigure[]> {
  return tx<LatestBuildFigure[]>`
    SELECT j.job_status AS status, l.template_name, l.template_version, l.username AS workspace_owner,
      l.transition AS workspace_transition, count(*)
    FROM (${latest(tx)}) l JOIN provisioner_jobs j ON j.id = l.job_id
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC, 2, 3, 4 LIMIT ${most}`;
}

/** The labels that statistics of agents can have. */
export const STATS_LABELS = ['agent_name', 'template_name', 'username', 'workspace_name'] as const;
export type StatsLabel = (typeof STATS_LABELS)[number];

export interface AgentStatsFigure extends Record<StatsLabel, string> {
  /** Bytes of the reports after `after`. */
  rx_bytes: number;
  tx_bytes: number;
  connections: number;
  /** In ms. Null: unknown. */
  latency: number | null;
  ssh: number;
  vscode: number;
  jetbrains: number;
  reconnecting_pty: number;
  /** The last report among them. */
  last: number;
}

/**
 * The latest statistics of agents that have reported lately, summed by these labels. Reports with a number up to `after`
 * count no bytes; with null, none of them do.
 */
export async function readAgentStats(
  sql: Sql,
  { by, after, most }: { by: readonly StatsLabel[]; after: number | null; most: number },
): Promise<AgentStatsFigure[]> {
  return sql.begin('READ ONLY', async (tx) => {
    await tx`SELECT set_config('statement_timeout', ${STATEMENT_TIMEOUT}, true)`;
    const wanted = [...by];
    return tx<AgentStatsFigure[]>`
      SELECT CASE WHEN 'agent_name' = ANY(${wanted}::text[]) THEN a.name ELSE '' END AS agent_name,
        CASE WHEN 'template_name' = ANY(${wanted}::text[]) THEN t.name ELSE '' END AS template_name,
        CASE WHEN 'username' = ANY(${wanted}::text[]) THEN u.username ELSE '' END AS username,
        CASE WHEN 'workspace_name' = ANY(${wanted}::text[]) THEN w.name ELSE '' END AS workspace_name,
        coalesce(sum(s.rx_bytes) FILTER (WHERE s.id > ${after}::bigint), 0)::bigint AS rx_bytes,
        coalesce(sum(s.tx_bytes) FILTER (WHERE s.id > ${after}::bigint), 0)::bigint AS tx_bytes,
        coalesce(sum(s.connection_count) FILTER (WHERE s.newest), 0)::bigint AS connections,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY s.connection_median_latency_ms)
          FILTER (WHERE s.newest AND s.connection_median_latency_ms > 0) AS latency,
        coalesce(sum(s.session_count_ssh) FILTER (WHERE s.newest), 0)::bigint AS ssh,
        coalesce(sum(s.session_count_vscode) FILTER (WHERE s.newest), 0)::bigint AS vscode,
        coalesce(sum(s.session_count_jetbrains) FILTER (WHERE s.newest), 0)::bigint AS jetbrains,
        coalesce(sum(s.session_count_reconnecting_pty) FILTER (WHERE s.newest), 0)::bigint AS reconnecting_pty,
        max(s.id) AS last
      FROM (
        SELECT *, created_at > now() - interval '2 minutes'
          AND id = max(id) OVER (PARTITION BY agent_id) AS newest
        FROM workspace_agent_stats WHERE created_at > now() - interval '10 minutes') s
      JOIN workspace_agents a ON a.id = s.agent_id JOIN workspaces w ON w.id = s.workspace_id
      JOIN users u ON u.id = w.owner_id JOIN templates t ON t.id = w.template_id
      GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT ${most}`;
  }) as unknown as Promise<AgentStatsFigure[]>;
}

/** The names that statistics of these agents are labelled with, by id. Agents of deleted workspaces are left out. */
export async function readAgentNames(sql: Sql, ids: string[]): Promise<Map<string, Record<StatsLabel, string>>> {
  return sql.begin('READ ONLY', async (tx) => {
    await tx`SELECT set_config('statement_timeout', ${STATEMENT_TIMEOUT}, true)`;
    const rows = await tx<({ id: string } & Record<StatsLabel, string>)[]>`
      SELECT a.id, a.name AS agent_name, t.name AS template_name, u.username, w.name AS workspace_name
      FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
      JOIN workspace_builds b ON b.job_id = r.job_id JOIN workspaces w ON w.id = b.workspace_id
      JOIN users u ON u.id = w.owner_id JOIN templates t ON t.id = w.template_id
      WHERE a.id = ANY (${ids}::text[]::uuid[]) AND NOT w.deleted`;
    return new Map(rows.map(({ id, ...names }) => [id, names]));
  });
}
