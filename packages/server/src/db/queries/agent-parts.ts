// The parts of an agent that a template declares: apps, scripts with their log sources, metadata, dev containers,
// resource monitors.

import type { WorkspaceAppStatus } from '@ropewalk/contract';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';
import type { AgentIdentity, AppRow, ScriptRow } from '../rows.ts';

export interface LogSourceRow {
  id: string;
  workspace_agent_id: string;
  display_name: string;
  icon: string;
  created_at: Date;
}

export interface MetadataRow {
  key: string;
  display_name: string;
  script: string;
  interval_seconds: number;
  timeout_seconds: number;
  value: string;
  error: string;
  collected_at: Date | null;
}

export interface DevcontainerRow {
  id: string;
  name: string;
  workspace_folder: string;
  config_path: string;
  /** The agent inside, if the build created it. */
  subagent_id: string | null;
}

export interface MonitorRow {
  /** Path of the volume. The empty path is the memory. */
  path: string;
  threshold: number;
  alerting: boolean;
  used: number | null;
  total: number | null;
}

export async function appsOfAgents(db: Db, agentIds: string[]): Promise<AppRow[]> {
  return db<AppRow[]>`SELECT * FROM workspace_apps WHERE agent_id = ANY(${agentIds}) ORDER BY display_order, slug`;
}

export async function scriptsOfAgents(db: Db, agentIds: string[]): Promise<ScriptRow[]> {
  return db<ScriptRow[]>`
    SELECT s.*, t.exit_code, t.status FROM workspace_agent_scripts s
    LEFT JOIN LATERAL (SELECT exit_code, status FROM workspace_agent_script_timings WHERE script_id = s.id
      ORDER BY started_at DESC, ctid DESC LIMIT 1) t ON true
    WHERE s.workspace_agent_id = ANY(${agentIds}) ORDER BY s.display_order, s.created_at`;
}

export async function logSourcesOfAgents(db: Db, agentIds: string[]): Promise<LogSourceRow[]> {
  return db<LogSourceRow[]>`
    SELECT * FROM workspace_agent_log_sources WHERE workspace_agent_id = ANY(${agentIds}) ORDER BY created_at`;
}

export async function metadataOfAgent(db: Db, agentId: string): Promise<MetadataRow[]> {
  return db<
    MetadataRow[]
  >`SELECT key, display_name, script, interval_seconds, timeout_seconds, value, error, collected_at
    FROM workspace_agent_metadata WHERE workspace_agent_id = ${agentId} ORDER BY display_order, key`;
}

export async function devcontainersOfAgent(db: Db, agentId: string): Promise<DevcontainerRow[]> {
  return db<DevcontainerRow[]>`
    SELECT * FROM workspace_agent_devcontainers WHERE workspace_agent_id = ${agentId} ORDER BY name`;
}

export async function monitorsOfAgent(db: Db, agentId: string): Promise<MonitorRow[]> {
  return db<MonitorRow[]>`SELECT path, threshold, alerting, used, total FROM workspace_agent_monitors
    WHERE agent_id = ${agentId} AND enabled ORDER BY path`;
}

/** The shortest time between two alerts, in minutes. */
const QUIET_MINUTES = 30;

/**
 * Stores that a monitor started or stopped alerting, and the current alerts of the agent. Returns whether to notify the
 * owner: an alert that comes again soon after another one is stored only.
 */
export async function setMonitorAlert(
  db: Db,
  agent: ConnectedAgent<AgentIdentity>,
  {
    path,
    alerting,
    used,
    total,
    alerts,
  }: Pick<MonitorRow, 'path' | 'alerting'> & { used: number; total: number; alerts: string },
): Promise<boolean> {
  const [row] = await db<{ notify: boolean }[]>`WITH monitor AS (
      UPDATE workspace_agent_monitors SET alerting = ${alerting}, changed_at = now(), used = ${used},
        total = ${total}, measured_at = now(), quiet_until = CASE
          WHEN ${alerting} AND (quiet_until IS NULL OR quiet_until < now())
            THEN now() + ${QUIET_MINUTES} * interval '1 minute' ELSE quiet_until END
      WHERE agent_id = ${agent.id} AND path = ${path}
      -- it was set just now
      RETURNING alerting AND quiet_until = now() + ${QUIET_MINUTES} * interval '1 minute' AS notify)
    UPDATE workspace_agents SET resource_alerts = ${alerts} FROM monitor WHERE id = ${agent.id} RETURNING notify`;
  return row?.notify ?? false;
}

/** The health of apps that an agent reports. */
export interface AppHealths {
  agent: ConnectedAgent<Pick<AgentIdentity, 'id'>>;
  healths: readonly { id: string; health: AppRow['health'] }[];
}

/** Stores the health of apps that belong to the agents. Returns for each report whether one changed. */
export async function setAppHealths(db: Db, reports: readonly AppHealths[]): Promise<boolean[]> {
  const all = reports.flatMap(({ agent, healths }) => healths.map((app) => ({ ...app, agentId: agent.id })));
  const rows = await db<Pick<AppRow, 'agent_id'>[]>`UPDATE workspace_apps a SET health = u.health
    FROM unnest(${all.map(({ id }) => id)}::uuid[], ${all.map(({ agentId }) => agentId)}::uuid[],
      ${all.map(({ health }) => health)}::text[]) AS u (id, agent_id, health)
    WHERE a.id = u.id AND a.agent_id = u.agent_id AND a.health <> u.health RETURNING a.agent_id`;
  const changed = new Set(rows.map(({ agent_id: id }) => id));
  return reports.map(({ agent }) => changed.has(agent.id));
}

/** The maximum number of statuses kept for each app. */
const MAX_STATUSES = 20;

/** Adds the newest status to an app of the agent. False: the agent has no such app. */
export async function addAppStatus(
  db: Db,
  agent: ConnectedAgent<AgentIdentity>,
  slug: string,
  status: Omit<WorkspaceAppStatus, 'app_id'>,
): Promise<boolean> {
  // one statement, since two concurrent calls would each drop the other's status
  const rows = await db`UPDATE workspace_apps SET statuses = (
      SELECT jsonb_agg(value ORDER BY place) FROM jsonb_array_elements(
        jsonb_build_array(${db.json(status as never)}::jsonb || jsonb_build_object('app_id', id)) || statuses
      ) WITH ORDINALITY AS kept (value, place) WHERE place <= ${MAX_STATUSES})
    WHERE agent_id = ${agent.id} AND slug = ${slug} RETURNING id`;
  return rows.length > 0;
}
