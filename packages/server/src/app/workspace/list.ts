import type { Workspace, WorkspacesResponse } from '@platform/contract';
import { readScope } from '../../authz/authorize.ts';
import type { Sql } from '../../db/connect.ts';
import { shareReads } from '../../db/share.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { pageOf, parseSearch, searchBool } from '../search.ts';
import { sharedAnswer } from '../shared-answer.ts';
import { resolveUser } from '../user/get.ts';
import { toWorkspace, toWorkspaces } from './convert.ts';
import { findWorkspace, findWorkspaceByName, type WorkspaceRow, workspaceColumns } from './find.ts';

const KNOWN = [
  'owner',
  'name',
  'template',
  'status',
  'has-agent',
  'dormant',
  'deleted',
  'outdated',
  'organization',
  'id',
  'last_used_before',
  'last_used_after',
  'favorite',
  'param',
  'shared',
  'has-ai-task',
  'healthy',
];

/** A workspace's status in SQL, of its latest build `b` with job `j`. */
const STATUS = `CASE j.job_status
  WHEN 'running' THEN CASE b.transition WHEN 'start' THEN 'starting' WHEN 'stop' THEN 'stopping' ELSE 'deleting' END
  WHEN 'succeeded' THEN CASE b.transition WHEN 'start' THEN 'running' WHEN 'stop' THEN 'stopped' ELSE 'deleted' END
  ELSE j.job_status END`;

interface ListQuery {
  q?: string;
  limit?: number;
  offset?: number;
}

const sharers = new WeakMap<Sql, ReturnType<typeof shareReads<WorkspacesResponse>>>();
/**
 * Workspaces that the actor may read and that a search such as `owner:me status:running` asks for. Pages poll this:
 * what one person asks several times at once is read once.
 */
export function listWorkspaces(ctx: Ctx, query: ListQuery): Promise<WorkspacesResponse> {
  const { sql, actor } = ctx;
  if (actor.kind !== 'user') return readWorkspaces(ctx, query);
  let share = sharers.get(sql);
  if (!share) {
    share = shareReads();
    sharers.set(sql, share);
  }
  const scope = readScope(actor, 'workspace');
  const key = JSON.stringify([actor.id, scope, query.q, query.limit, query.offset]);
  return share(key, async () => sharedAnswer(await readWorkspaces(ctx, query)));
}

async function readWorkspaces(ctx: Ctx, query: ListQuery): Promise<WorkspacesResponse> {
  const { sql } = ctx;
  const search = parseSearch(query.q, KNOWN);
  const page = pageOf(query);
  const scope = readScope(ctx.actor, 'workspace');
  const term = (key: string) => search.terms.get(key);
  const owner = term('owner');
  const ownerId =
    owner === undefined
      ? null
      : owner === 'me' && ctx.actor.kind === 'user'
        ? ctx.actor.id
        : isUuid(owner)
          ? owner
          : null;
  const [word] = search.words;
  const slash = word?.includes('/') ? word.split('/') : undefined;
  const name = term('name') ?? slash?.[1] ?? word ?? null;
  const ownerName = (ownerId === null ? owner : undefined) ?? slash?.[0] ?? null;
  const organization = term('organization') ?? null;
  const outdated = searchBool(search, 'outdated') ?? null;
  const dormant = searchBool(search, 'dormant') ?? null;
  const deleted = searchBool(search, 'deleted') ?? false;
  const agentStatus = term('has-agent') ?? null;
  const where = sql`
    (${scope.all} OR w.owner_id = ${scope.ownerId || null} OR w.organization_id = ANY(${scope.organizationIds}))
    AND w.deleted = ${deleted}
    AND (${ownerId}::uuid IS NULL OR w.owner_id = ${ownerId}::uuid)
    AND (${ownerName}::text IS NULL OR lower(u.username) = lower(${ownerName}::text))
    AND (${name}::text IS NULL OR w.name ILIKE '%' || ${name}::text || '%')
    AND (${term('template') ?? null}::text IS NULL OR lower(t.name) = lower(${term('template') ?? null}::text))
    AND (${term('id') ?? null}::text IS NULL OR w.id::text = ${term('id') ?? null}::text)
    AND (${organization}::text IS NULL OR o.id::text = ${organization}::text OR lower(o.name) = lower(${organization}::text))
    AND (${outdated}::boolean IS NULL OR (b.template_version_id <> t.active_version_id) = ${outdated}::boolean)
    AND (${dormant}::boolean IS NULL OR (w.dormant_at IS NOT NULL) = ${dormant}::boolean)
    AND (${term('status') ?? null}::text IS NULL OR ${sql.unsafe(STATUS)} = ${term('status') ?? null}::text)
    AND (${agentStatus}::text IS NULL OR EXISTS (SELECT 1 FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
      WHERE r.job_id = b.job_id AND CASE
        WHEN a.first_connected_at IS NULL THEN CASE WHEN a.connection_timeout_seconds > 0
          AND a.created_at + a.connection_timeout_seconds * interval '1 second' < now() THEN 'timeout' ELSE 'connecting' END
        WHEN a.disconnected_at >= a.last_connected_at OR a.last_connected_at < now() - interval '30 seconds' THEN 'disconnected'
        ELSE 'connected' END = ${agentStatus}::text))`;
  const joins = sql`JOIN LATERAL (SELECT n.* FROM workspace_builds n WHERE n.workspace_id = w.id ORDER BY n.build_number DESC LIMIT 1) b ON true
    JOIN provisioner_jobs j ON j.id = b.job_id`;
  const rows = await sql<(WorkspaceRow & { total: number })[]>`
    SELECT count(*) OVER () AS total, ${workspaceColumns(sql)} ${joins} WHERE ${where}
    ORDER BY EXISTS (SELECT 1 FROM workspace_favorites f WHERE f.workspace_id = w.id AND f.user_id = ${scope.ownerId || null}) DESC,
      (b.transition = 'start' AND j.job_status = 'succeeded') DESC, lower(u.username), lower(w.name)
    LIMIT ${page.limit} OFFSET ${page.offset}`;
  return { workspaces: await toWorkspaces(ctx, sql, rows), count: rows[0]?.total ?? 0 };
}

export async function getWorkspace(ctx: Ctx, id: string, deleted: boolean): Promise<Workspace> {
  return toWorkspace(ctx, await findWorkspace(ctx, id, { deleted }));
}

export async function getWorkspaceByName(ctx: Ctx, user: string, name: string, deleted: boolean): Promise<Workspace> {
  const owner = await resolveUser(ctx, user);
  return toWorkspace(ctx, await findWorkspaceByName(ctx, owner.id, name, { deleted }));
}
