import type { WorkspaceAgent, WorkspaceResource } from '@platform/contract';
import type { Db } from '../../db/connect.ts';
import { type AgentRow, type AppRow, type LogSourceRow, type ScriptRow, toAgent } from '../agent/convert.ts';
import { evidenceFor } from '../agent/health.ts';
import type { Services } from '../context.ts';
import { time } from '../user/convert.ts';

interface ResourceRow {
  id: string;
  job_id: string;
  transition: 'start' | 'stop' | 'delete';
  type: string;
  name: string;
  hide: boolean;
  icon: string;
  daily_cost: number;
  metadata: { key: string; value: string; sensitive: boolean }[];
  created_at: Date;
}

function byKey<T, K extends keyof T>(rows: readonly T[], key: K): Map<T[K], T[]> {
  return Map.groupBy(rows, (row) => row[key]);
}

/** Agents of what these jobs made (or by id) with their apps, scripts and log sources: a few queries for any number. */
export async function agentsWhere(
  services: Pick<Services, 'clock' | 'config'>,
  db: Db,
  where: { jobIds: string[] } | { agentIds: string[] },
): Promise<WorkspaceAgent[]> {
  const agents = await db<AgentRow[]>`
    SELECT * FROM workspace_agents WHERE NOT deleted AND
      ${'jobIds' in where ? db`resource_id IN (SELECT id FROM workspace_resources WHERE job_id = ANY(${where.jobIds}))` : db`id = ANY(${where.agentIds})`}
    ORDER BY display_order, name`;
  if (agents.length === 0) return [];
  const ids = agents.map((agent) => agent.id);
  const [apps, scripts, sources, evidence] = await Promise.all([
    db<AppRow[]>`SELECT * FROM workspace_apps WHERE agent_id = ANY(${ids})`,
    db<
      ScriptRow[]
    >`SELECT * FROM workspace_agent_scripts WHERE workspace_agent_id = ANY(${ids}) ORDER BY display_order, created_at`,
    db<
      LogSourceRow[]
    >`SELECT * FROM workspace_agent_log_sources WHERE workspace_agent_id = ANY(${ids}) ORDER BY created_at`,
    evidenceFor(db, agents, services.clock.now()),
  ]);
  const appsOf = byKey(apps, 'agent_id');
  const workspaces = await workspacesOf(db, apps);
  const scriptsOf = byKey(scripts, 'workspace_agent_id');
  const sourcesOf = byKey(sources, 'workspace_agent_id');
  return agents.map((agent) =>
    toAgent(
      agent,
      {
        apps: appsOf.get(agent.id) ?? [],
        workspace: workspaces.get(agent.id),
        scripts: scriptsOf.get(agent.id) ?? [],
        logSources: sourcesOf.get(agent.id) ?? [],
        evidence: evidence.get(agent.id),
        fallbackTroubleshootingUrl: services.config.agentFallbackTroubleshootingUrl,
      },
      services.clock,
    ),
  );
}

/** The workspaces of agents that have apps with hosts of their own, by agent; asked only where there are such. */
async function workspacesOf(db: Db, apps: readonly AppRow[]): Promise<Map<string, { name: string; owner: string }>> {
  const ids = [...new Set(apps.filter((app) => app.subdomain).map((app) => app.agent_id))];
  if (ids.length === 0) return new Map();
  const rows = await db<{ id: string; name: string; owner: string }[]>`
    SELECT a.id, w.name, u.username AS owner FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id JOIN workspaces w ON w.id = b.workspace_id
    JOIN users u ON u.id = w.owner_id WHERE a.id = ANY(${ids})`;
  return new Map(rows.map(({ id, name, owner }) => [id, { name, owner }]));
}

/** What jobs found or made, by job, computational resources (those with agents) first. */
export async function resourcesOfJobs(
  services: Pick<Services, 'clock' | 'config'>,
  db: Db,
  jobIds: string[],
  transition?: 'start' | 'stop',
): Promise<Map<string, WorkspaceResource[]>> {
  if (jobIds.length === 0) return new Map();
  const [rows, made] = await Promise.all([
    db<ResourceRow[]>`SELECT * FROM workspace_resources WHERE job_id = ANY(${jobIds})
      ${transition ? db`AND transition = ${transition}` : db``} ORDER BY type, name`,
    agentsWhere(services, db, { jobIds }),
  ]);
  const agents = byKey(made, 'resource_id');
  const resources = rows.map((row) => ({ job: row.job_id, resource: toResource(row, agents.get(row.id) ?? []) }));
  resources.sort((a, b) => Number(Boolean(b.resource.agents?.length)) - Number(Boolean(a.resource.agents?.length)));
  return new Map(
    [...Map.groupBy(resources, ({ job }) => job)].map(([job, list]) => [job, list.map(({ resource }) => resource)]),
  );
}

function toResource(row: ResourceRow, agents: WorkspaceAgent[]): WorkspaceResource {
  return {
    id: row.id,
    created_at: time(row.created_at),
    job_id: row.job_id,
    workspace_transition: row.transition,
    type: row.type,
    name: row.name,
    hide: row.hide,
    icon: row.icon,
    agents,
    // who may read the workspace may read what it shows; clients hide what is sensitive until it is asked for
    metadata: row.metadata.map(({ key, value, sensitive }) => ({ key, value, sensitive })),
    daily_cost: row.daily_cost,
  };
}
