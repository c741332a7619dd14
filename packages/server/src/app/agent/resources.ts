import type { WorkspaceAgent, WorkspaceResource } from '@ropewalk/contract';
import { may } from '../../authz/authorize.ts';
import type { Db } from '../../db/connect.ts';
import { appsOfAgents, logSourcesOfAgents, scriptsOfAgents } from '../../db/queries/agent-parts.ts';
import { agentsWhere } from '../../db/queries/agents.ts';
import { type ResourcePlace, type ResourceRow, resourcesMade } from '../../db/queries/resources.ts';
import { workspacesOfAgents } from '../../db/queries/workspaces.ts';
import type { Ctx } from '../context/context.ts';
import { derpMap } from '../tailnet/derp-map.ts';
import { time } from '../values/time.ts';
import { toAgent } from './convert.ts';
import { asksForToken } from './external-apps.ts';
import { evidenceFor } from './health.ts';

/** What the agents of a job depend on, apart from their rows: who sees them, where and when. */
type Viewing = Pick<Ctx, 'actor' | 'accessUrl' | 'clock' | 'config' | 'relayRegions' | 'proxyRelays'>;

function byKey<T, K extends keyof T>(rows: readonly T[], key: K): Map<T[K], T[]> {
  return Map.groupBy(rows, (row) => row[key]);
}

/** The agents of these jobs, or agents by id, with apps, scripts and log sources, in a few queries for any number. */
export async function readAgents(
  ctx: Viewing,
  db: Db,
  where: { jobIds: string[] } | { agentIds: string[] },
): Promise<WorkspaceAgent[]> {
  const agents = await agentsWhere(db, where);
  if (agents.length === 0) return [];
  const ids = agents.map((agent) => agent.id);
  const [apps, scripts, sources, evidence] = await Promise.all([
    appsOfAgents(db, ids),
    scriptsOfAgents(db, ids),
    logSourcesOfAgents(db, ids),
    evidenceFor(db, agents, ctx.clock.now()),
  ]);
  const appsOf = byKey(apps, 'agent_id');
  // only for apps with their own hosts, and for links that ask for a token
  const concerned = new Set(apps.filter((app) => app.subdomain || asksForToken(app)).map((app) => app.agent_id));
  const workspaces = await workspacesOfAgents(db, [...concerned]);
  const scriptsOf = byKey(scripts, 'workspace_agent_id');
  const sourcesOf = byKey(sources, 'workspace_agent_id');
  const relays = derpMap(ctx);
  return agents.map((agent) =>
    toAgent(
      agent,
      {
        apps: appsOf.get(agent.id) ?? [],
        workspace: workspaces.get(agent.id),
        viewer: ctx,
        scripts: scriptsOf.get(agent.id) ?? [],
        logSources: sourcesOf.get(agent.id) ?? [],
        evidence: evidence.get(agent.id),
        relays,
        isShared: isShared(ctx, agent),
        fallbackTroubleshootingUrl: ctx.config.agentFallbackTroubleshootingUrl,
      },
      ctx.clock,
    ),
  );
}

/**
 * Whether the viewer sees a resource only because its workspace is shared. Values that the template's author marks as
 * sensitive, and variables of agents, are for the owner and for people with a role.
 */
function isShared(
  { actor }: Viewing,
  { workspace_owner_id: owner, workspace_organization_id: place }: ResourcePlace,
): boolean {
  if (actor.kind !== 'user' || owner === null || place === null || owner === actor.id) return false;
  return (
    !may(actor, 'read', { type: 'workspace' }) && !may(actor, 'read', { type: 'workspace', organizationId: place })
  );
}

/** The resources of jobs, by job. Resources with agents come first. */
export async function resourcesOfJobs(
  ctx: Viewing,
  db: Db,
  jobIds: string[],
  transition?: 'start' | 'stop',
): Promise<Map<string, WorkspaceResource[]>> {
  if (jobIds.length === 0) return new Map();
  const [rows, made] = await Promise.all([resourcesMade(db, jobIds, transition), readAgents(ctx, db, { jobIds })]);
  const agents = byKey(made, 'resource_id');
  const resources = rows.map((row) => ({
    job: row.job_id,
    resource: toResource(row, agents.get(row.id) ?? [], isShared(ctx, row)),
  }));
  resources.sort((a, b) => Number(Boolean(b.resource.agents?.length)) - Number(Boolean(a.resource.agents?.length)));
  return new Map(
    [...Map.groupBy(resources, ({ job }) => job)].map(([job, list]) => [job, list.map(({ resource }) => resource)]),
  );
}

function toResource(row: ResourceRow, agents: WorkspaceAgent[], hidesSensitive: boolean): WorkspaceResource {
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
    // clients hide sensitive values until a person asks
    metadata: row.metadata.map(({ key, value, sensitive }) => ({
      key,
      value: sensitive && hidesSensitive ? '' : value,
      sensitive,
    })),
    daily_cost: row.daily_cost,
  };
}
