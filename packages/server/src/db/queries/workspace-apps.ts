// Looks up the address of an app or port.

import type { SystemTask } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';
import type { Acls } from '../rows.ts';
import { bump } from './deadlines.ts';
import type { ShareLevel } from './port-shares.ts';
import { ofSubAgent } from './sub-agents.ts';

/** The workspace in an app's URL, with the facts that access to the app depends on. */
export interface AppWorkspace extends Acls {
  id: string;
  name: string;
  owner_id: string;
  owner_name: string;
  organization_id: string;
  template_id: string;
  dormant_at: Date | null;
  max_port_share_level: ShareLevel;
  cors_behavior: 'simple' | 'passthru';
  transition: 'start' | 'stop' | 'delete';
  job_id: string;
  job_status: string;
}

/** By its owner's name (or id) and its own name. */
export async function appWorkspace(db: Db, owner: string, name: string): Promise<AppWorkspace | undefined> {
  const [row] = await db<AppWorkspace[]>`
    SELECT w.id, w.name, w.owner_id, u.username AS owner_name, w.organization_id, w.template_id, w.dormant_at,
      w.user_acl, w.group_acl, t.max_port_share_level, t.cors_behavior,
      b.transition, b.job_id, j.job_status
    FROM users u JOIN workspaces w ON w.owner_id = u.id AND NOT w.deleted JOIN templates t ON t.id = w.template_id
    JOIN LATERAL (SELECT transition, job_id FROM workspace_builds WHERE workspace_id = w.id
      ORDER BY build_number DESC LIMIT 1) b ON true
    JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE NOT u.deleted AND lower(u.username) = lower(${owner}) AND lower(w.name) = lower(${name})`;
  return row;
}

export interface FoundApp {
  agent_id: string;
  agent_name: string;
  slug: string;
  url: string | null;
  command: string | null;
  external: boolean;
  sharing_level: ShareLevel;
  /** Whether the app belongs to a sub-agent, which the workspace created itself, and not to the template. */
  of_sub_agent: boolean;
}

export interface AppAgent {
  id: string;
  name: string;
}

export async function buildAgents(db: Db, jobId: string): Promise<AppAgent[]> {
  return db<AppAgent[]>`SELECT a.id, a.name FROM workspace_resources r JOIN workspace_agents a ON a.resource_id = r.id
    WHERE r.job_id = ${jobId} AND NOT a.deleted ORDER BY a.name`;
}

export async function appsBySlug(db: Db, agentIds: string[], slug: string): Promise<FoundApp[]> {
  return db<FoundApp[]>`SELECT p.agent_id, a.name AS agent_name, p.slug, p.url, p.command, p.external, p.sharing_level,
      ${ofSubAgent(db)} AS of_sub_agent
    FROM workspace_apps p JOIN workspace_agents a ON a.id = p.agent_id
    WHERE p.agent_id = ANY(${agentIds}) AND lower(p.slug) = lower(${slug})`;
}

/**
 * Records that a port or an app of the workspace is used now: that of the workspace unless it was recorded within the
 * last 30 seconds, and with a slug, this minute of the app.
 */
export async function recordAppUse(
  db: Db,
  _by: SystemTask,
  { workspaceId, slug }: { workspaceId: string; slug: string | undefined },
): Promise<void> {
  await db`WITH used AS (
      UPDATE workspaces SET last_used_at = now() WHERE id = ${workspaceId}
        AND (last_used_at IS NULL OR last_used_at < now() - interval '30 seconds')
      RETURNING id),
    bumped AS (UPDATE workspace_builds b ${bump(db, db`SELECT id FROM used`)})
    INSERT INTO workspace_app_usage AS u (workspace_id, start_time, slug, minutes)
    SELECT id, usage_start(now()), ${slug ?? ''}, usage_minute(now()) FROM workspaces
    WHERE id = ${workspaceId} AND ${slug !== undefined}
    ON CONFLICT (workspace_id, start_time, slug) DO UPDATE SET minutes = u.minutes | excluded.minutes`;
}

export interface ReportedUse {
  workspaceId: string;
  agentId: string;
  /** An app's slug or a port. Empty for a terminal. */
  slug: string;
}

/** The reported uses that can be true: the agent runs in the workspace's latest build and has this app, if it is one. */
export async function possibleUses(db: Db, uses: readonly ReportedUse[]): Promise<Omit<ReportedUse, 'agentId'>[]> {
  const rows = await db<{ workspace_id: string; slug: string }[]>`
    SELECT DISTINCT u.workspace_id, coalesce(p.slug, u.slug) AS slug
    FROM unnest(${uses.map(({ workspaceId }) => workspaceId)}::uuid[], ${uses.map(({ agentId }) => agentId)}::uuid[],
      ${uses.map(({ slug }) => slug)}::text[]) AS u (workspace_id, agent_id, slug)
    JOIN workspaces w ON w.id = u.workspace_id AND NOT w.deleted
    JOIN LATERAL (SELECT job_id, transition FROM workspace_builds WHERE workspace_id = w.id
      ORDER BY build_number DESC LIMIT 1) b ON b.transition = 'start'
    JOIN workspace_resources r ON r.job_id = b.job_id
    JOIN workspace_agents a ON a.resource_id = r.id AND a.id = u.agent_id AND NOT a.deleted
    LEFT JOIN workspace_apps p ON p.agent_id = a.id AND lower(p.slug) = lower(u.slug)
    WHERE p.slug IS NOT NULL OR u.slug ~ '^([1-9][0-9]{3,4}s?)?$'`;
  return rows.map((row) => ({ workspaceId: row.workspace_id, slug: row.slug }));
}
