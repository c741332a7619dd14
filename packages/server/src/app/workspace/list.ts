import type { Workspace, WorkspacesResponse } from '@platform/contract';
import type { Fragment } from 'postgres';
import { readScope } from '../../authz/authorize.ts';
import type { Sql } from '../../db/connect.ts';
import { shareReads } from '../../db/share.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { anywhere, pageOf, parseSearch, type Search, searchBool, searchTime } from '../search.ts';
import { sharedAnswer } from '../shared-answer.ts';
import { findUser } from '../user/find.ts';
import { toWorkspace, toWorkspaces } from './convert.ts';
import { findWorkspace, findWorkspaceByName, isFavorite, type WorkspaceRow, workspaceColumns } from './find.ts';

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

/** The statuses of agents that a search for healthy or unhealthy workspaces means. */
const HEALTH = { true: ['connected'], false: ['disconnected', 'timeout'] } as const;

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
  const { lists: sql } = ctx;
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
  const healthy = searchBool(search, 'healthy');
  const agentStatuses = healthy === undefined ? term('has-agent')?.split(',') : HEALTH[`${healthy}`];
  const where = sql`
    (${scope.all} OR w.owner_id = ${scope.ownerId || null} OR w.organization_id = ANY(${scope.organizationIds}))
    AND w.deleted = ${deleted}
    AND (${ownerId}::uuid IS NULL OR w.owner_id = ${ownerId}::uuid)
    AND (${ownerName}::text IS NULL OR lower(u.username) = lower(${ownerName}::text))
    AND (${name}::text IS NULL OR w.name ILIKE ${name === null ? null : anywhere(name)})
    AND (${term('template') ?? null}::text IS NULL OR lower(t.name) = lower(${term('template') ?? null}::text))
    AND (${term('id') ?? null}::text IS NULL OR w.id::text = ${term('id') ?? null}::text)
    AND (${organization}::text IS NULL OR o.id::text = ${organization}::text OR lower(o.name) = lower(${organization}::text))
    AND (${outdated}::boolean IS NULL OR (b.template_version_id <> t.active_version_id) = ${outdated}::boolean)
    AND (${dormant}::boolean IS NULL OR (w.dormant_at IS NOT NULL) = ${dormant}::boolean)
    AND (${term('status') ?? null}::text IS NULL OR ${sql.unsafe(STATUS)} = ${term('status') ?? null}::text)
    ${seldom(ctx, search)}
    ${
      agentStatuses === undefined
        ? sql``
        : sql`AND EXISTS (SELECT 1 FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
      WHERE r.job_id = b.job_id AND NOT a.deleted AND CASE
        WHEN a.first_connected_at IS NULL THEN CASE WHEN a.connection_timeout_seconds > 0
          AND a.created_at + a.connection_timeout_seconds * interval '1 second' < now() THEN 'timeout' ELSE 'connecting' END
        WHEN a.disconnected_at >= a.last_connected_at OR a.last_connected_at < now() - interval '30 seconds' THEN 'disconnected'
        ELSE 'connected' END = ANY(${agentStatuses}::text[]))`
    }`;
  // a page beyond the last one has no rows to say how many there are
  const countBefore = async () =>
    page.offset === 0
      ? 0
      : (
          await sql<{ total: number }[]>`
            SELECT count(*) AS total FROM (SELECT ${workspaceColumns(sql, ctx)} JOIN provisioner_jobs j ON j.id = b.job_id
              WHERE ${where}) found`
        )[0]!.total;
  const rows = await sql<(WorkspaceRow & { total: number })[]>`
    SELECT count(*) OVER () AS total, ${workspaceColumns(sql, ctx)} JOIN provisioner_jobs j ON j.id = b.job_id WHERE ${where}
    ORDER BY favorite DESC, (b.transition = 'start' AND j.job_status = 'succeeded') DESC, lower(u.username), lower(w.name)
    LIMIT ${page.limit} OFFSET ${page.offset}`;
  return { workspaces: await toWorkspaces(ctx, sql, rows), count: rows[0]?.total ?? (await countBefore()) };
}

/** Conditions of terms that few searches have: not part of the statement of the others. */
function seldom(ctx: Ctx, search: Search): Fragment[] {
  const { lists: sql } = ctx;
  const favorite = searchBool(search, 'favorite');
  const hasTask = searchBool(search, 'has-ai-task');
  const before = searchTime(search, 'last_used_before');
  const after = searchTime(search, 'last_used_after');
  const wanted = search.pairs.filter(([key]) => key === 'param').map(([, text]) => parameterOf(text));
  // one condition for any number: with one for each, planning takes seconds and gigabytes
  const parameters = sql`AND NOT EXISTS (
    SELECT 1 FROM unnest(${wanted.map(({ name }) => name)}::text[], ${wanted.map(({ value }) => value)}::text[]) AS wanted (name, value)
    WHERE NOT EXISTS (SELECT 1 FROM workspace_build_parameters p WHERE p.workspace_build_id = b.id
      AND lower(p.name) = lower(wanted.name) AND (wanted.value IS NULL OR lower(p.value) = lower(wanted.value))))`;
  return [
    // nothing is shared here
    searchBool(search, 'shared') ? sql`AND false` : sql``,
    ...(favorite === undefined ? [] : [sql`AND ${isFavorite(sql, ctx)} = ${favorite}`]),
    ...(hasTask === undefined ? [] : [sql`AND coalesce(b.has_ai_task, false) = ${hasTask}`]),
    ...(before ? [sql`AND coalesce(w.last_used_at, '-infinity') <= ${before}`] : []),
    ...(after ? [sql`AND w.last_used_at >= ${after}`] : []),
    ...(wanted.length > 0 ? [parameters] : []),
  ];
}

/** `name` (it has a value at all) or `name=value` of a `param:` term. */
function parameterOf(text: string): { name: string; value: string | null } {
  const at = text.indexOf('=');
  return at < 0 ? { name: text, value: null } : { name: text.slice(0, at), value: text.slice(at + 1) };
}

export async function getWorkspace(ctx: Ctx, id: string, deleted: boolean): Promise<Workspace> {
  return toWorkspace(ctx, await findWorkspace(ctx, id, { deleted }));
}

export async function getWorkspaceByName(ctx: Ctx, user: string, name: string, deleted: boolean): Promise<Workspace> {
  const owner = await findUser(ctx, 'read', user);
  return toWorkspace(ctx, await findWorkspaceByName(ctx, owner.id, name, { deleted }));
}
