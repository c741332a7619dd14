import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import type { Allowed, ReadScope } from '../../authz/authorize.ts';
import type { Db, Sql, Tx } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { Acls, BuildRow, BuiltWorkspace, JobRow, WorkspaceRow } from '../rows.ts';
import { agentIsUnhealthy, agentStatus } from './agents.ts';
import { hasExternalAgent } from './resources.ts';
import { ofSubAgent } from './sub-agents.ts';

/** The id of the viewer, whose favorites are marked. Null without a viewer. */
export type ViewerId = string | null;

const isFavorite = (db: Db, viewerId: ViewerId) => db`EXISTS (SELECT 1 FROM workspace_favorites f
  WHERE f.workspace_id = w.id AND f.user_id = ${viewerId})`;

const COLUMNS = (db: Db, viewerId: ViewerId) => db`
  w.*, u.username AS owner_name, u.avatar_url AS owner_avatar_url, o.name AS organization_name, t.name AS template_name,
  t.display_name AS template_display_name, t.icon AS template_icon, t.active_version_id AS template_active_version_id,
  t.allow_user_cancel_workspace_jobs, t.require_active_version, t.use_classic_parameter_flow, t.default_ttl_ms,
  t.allow_user_autostop,
  b.job_id AS latest_job_id, ${isFavorite(db, viewerId)} AS favorite
  FROM workspaces w JOIN users u ON u.id = w.owner_id JOIN organizations o ON o.id = w.organization_id
  JOIN templates t ON t.id = w.template_id JOIN workspace_builds b ON b.id = w.latest_build_id`;

/** A workspace with its latest build, and the agents of that build if it is a start. */
export interface WorkspaceWithAgents
  extends Pick<WorkspaceRow, 'id' | 'name' | 'owner_id' | 'organization_id' | 'dormant_at' | keyof Acls> {
  transition: BuildRow['transition'];
  job_status: JobRow['job_status'];
  agents: { id: string; name: string }[];
}

export async function workspacesWithAgents(db: Db, ownerId: string): Promise<WorkspaceWithAgents[]> {
  return db<
    WorkspaceWithAgents[]
  >`SELECT w.id, w.name, w.owner_id, w.organization_id, w.dormant_at, w.user_acl, w.group_acl, b.transition,
      j.job_status, coalesce((SELECT json_agg(json_build_object('id', a.id, 'name', a.name) ORDER BY a.name)
        FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
        WHERE r.job_id = b.job_id AND NOT a.deleted AND b.transition = 'start'), '[]') AS agents
    FROM workspaces w
    JOIN LATERAL (SELECT * FROM workspace_builds n WHERE n.workspace_id = w.id ORDER BY n.build_number DESC LIMIT 1) b ON true
    JOIN provisioner_jobs j ON j.id = b.job_id WHERE w.owner_id = ${ownerId} AND NOT w.deleted ORDER BY w.name`;
}

export async function workspaceById(db: Db, id: string, viewerId: ViewerId): Promise<WorkspaceRow | undefined> {
  const [row] = await db<WorkspaceRow[]>`SELECT ${COLUMNS(db, viewerId)} WHERE w.id = ${id}`;
  return row;
}

/** What permissions on a workspace depend on, apart from the actor. */
export type WorkspacePlace = Pick<WorkspaceRow, 'id' | 'owner_id' | 'organization_id' | 'dormant_at' | keyof Acls>;

export async function workspacePlace(db: Db, id: string): Promise<WorkspacePlace | undefined> {
  const [row] = await db<WorkspacePlace[]>`
    SELECT id, owner_id, organization_id, dormant_at, user_acl, group_acl FROM workspaces WHERE id = ${id}`;
  return row;
}

/** The columns of a workspace that the audit log compares. */
export async function auditedWorkspace(db: Db, id: string): Promise<Partial<WorkspaceRow> | undefined> {
  const [row] = await db<Partial<WorkspaceRow>[]>`SELECT id, owner_id, template_id, name, autostart_schedule, ttl_ms,
    dormant_at, deleting_at, automatic_updates, next_start_at, user_acl, group_acl FROM workspaces WHERE id = ${id}`;
  return row;
}

/** A person's workspace by its name or id. With deleted ones, the newest one of that name. */
export async function workspaceByName(
  db: Db,
  { ownerId, name, deleted }: { ownerId: string; name: string; deleted: boolean },
  viewerId: ViewerId,
): Promise<WorkspaceRow | undefined> {
  const [row] = await db<WorkspaceRow[]>`SELECT ${COLUMNS(db, viewerId)}
    WHERE w.owner_id = ${ownerId} AND (lower(w.name) = lower(${name}) OR w.id::text = ${name})
      ${deleted ? db`` : db`AND NOT w.deleted`}
    ORDER BY w.deleted, w.created_at DESC LIMIT 1`;
  return row;
}

/** The conditions of a search for workspaces. Null and undefined: no condition. */
export interface WorkspaceSearch {
  scope: ReadScope;
  viewerId: ViewerId;
  ownerId: string | null;
  ownerName: string | null;
  /** A LIKE pattern. */
  namePattern: string | null;
  template: string | null;
  id: string | null;
  /** Id or name. */
  organization: string | null;
  /** Of the latest build, or `unhealthy`: it runs, and one of its agents is unhealthy. */
  status: string | null;
  outdated: boolean | null;
  dormant: boolean | null;
  deleted: boolean;
  agentStatuses: readonly string[] | undefined;
  /** Whether it is shared with anyone. */
  shared: boolean | undefined;
  /** The id of a person that it is shared with. */
  sharedWithUser: string | null;
  /** The id of a group that it is shared with. */
  sharedWithGroup: string | null;
  favorite: boolean | undefined;
  hasTask: boolean | undefined;
  hasExternalAgent: boolean | undefined;
  lastUsedBefore: Date | undefined;
  lastUsedAfter: Date | undefined;
  /** Parameters of the latest build, which must all match. Without a value: the parameter has any value. */
  parameters: { name: string; value: string | null }[];
  limit: number;
  offset: number;
}

/** The order of lists after the favorites. The index workspaces_list has it. */
const ORDER = (db: Db) => db`w.running DESC, w.owner_sort, w.name_sort`;
const REVERSE_ORDER = (db: Db) => db`w.running, w.owner_sort DESC, w.name_sort DESC`;

/** The one status of a search that is not a build's. */
const UNHEALTHY = 'unhealthy';

/** From this offset on, a page can be so much nearer to the end of the list that counting first is worth it. */
const FAR = 1_000;

/**
 * One page of the workspaces that match a search in a scope, and the total number of matches. The page is found with
 * the index of the list's order, with favorites handled separately, and only its workspaces are joined with the other
 * tables. This takes one statement, and two for a page far from the beginning.
 */
export async function searchWorkspaces(
  db: Sql,
  search: WorkspaceSearch,
): Promise<{ rows: WorkspaceRow[]; total: number }> {
  const { viewerId, limit, offset } = search;
  const found = db`FROM workspaces w ${buildIsSearched(search) ? db`JOIN workspace_builds b ON b.id = w.latest_build_id` : db``}
    WHERE ${conditions(db, search)}`;
  const favorites = db`SELECT workspace_id FROM workspace_favorites WHERE user_id = ${viewerId}`;
  // a literal, which the planner uses in plans for any page, rounded so that there are few different statements
  const atMost = db.unsafe(String(2 ** Math.ceil(Math.log2(limit + 1))));
  // deleted workspaces can be equal in the order, so that it has no reverse
  if (offset >= FAR && !search.deleted) {
    const [counted] = await db<{ total: number; favorites: number }[]>`
      SELECT count(*) AS total, (SELECT count(*) ${found} AND w.id IN (${favorites})) AS favorites ${found}`;
    const { total } = counted!;
    const after = Math.max(total - offset - limit, 0);
    if (offset >= total) return { rows: [], total };
    if (offset >= counted!.favorites && after < offset) {
      const rows = await db<WorkspaceRow[]>`
        WITH page AS (
          SELECT id FROM (SELECT w.id ${found} AND w.id NOT IN (${favorites}) ORDER BY ${REVERSE_ORDER(db)}
            LIMIT ${atMost} OFFSET ${after}) last
          LIMIT ${Math.min(limit, total - offset)})
        SELECT ${COLUMNS(db, viewerId)} JOIN page ON page.id = w.id ORDER BY ${ORDER(db)}`;
      return { rows, total };
    }
  }
  // each part skips its own rows, so that those before a far page go through as few steps as possible
  const rows = await db<(WorkspaceRow & { total: number })[]>`
    WITH page AS (
      (SELECT w.id ${found} AND w.id IN (${favorites}) ORDER BY ${ORDER(db)} OFFSET ${offset})
      UNION ALL
      (SELECT w.id ${found} AND w.id NOT IN (${favorites}) ORDER BY ${ORDER(db)} LIMIT ${atMost}
        OFFSET greatest(${offset} - (SELECT count(*) ${found} AND w.id IN (${favorites})), 0))
      LIMIT ${limit})
    SELECT (SELECT count(*) ${found}) AS total, ${COLUMNS(db, viewerId)} JOIN page ON page.id = w.id
    ORDER BY favorite DESC, ${ORDER(db)}`;
  if (rows[0]) return { rows, total: rows[0].total };
  if (offset === 0) return { rows, total: 0 };
  // a page beyond the last one has no row with the total
  const [counted] = await db<{ total: number }[]>`SELECT count(*) AS total ${found}`;
  return { rows, total: counted!.total };
}

/** Whether a condition is about the latest build `b`. */
const buildIsSearched = ({
  status,
  outdated,
  agentStatuses,
  hasTask,
  hasExternalAgent,
  parameters,
}: WorkspaceSearch): boolean =>
  status === UNHEALTHY ||
  outdated !== null ||
  agentStatuses !== undefined ||
  hasTask !== undefined ||
  hasExternalAgent !== undefined ||
  parameters.length > 0;

/** Whether the latest build `b` has an agent `a` for which the condition holds. */
const hasAgent = (db: Db, condition: ReturnType<typeof agentIsUnhealthy>) =>
  db`EXISTS (SELECT 1 FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
    WHERE r.job_id = b.job_id AND NOT a.deleted AND ${condition})`;

/**
 * Whether the workspace of a latest build `b` is a task. A build that has not ended, or that failed, has not reported that:
 * then it is one if it has a prompt.
 */
const isTaskBuild = (db: Db) => db`coalesce(b.has_ai_task, EXISTS (SELECT 1 FROM workspace_build_parameters p
  WHERE p.workspace_build_id = b.id AND p.name = ${PROMPT_PARAMETER} AND p.value <> ''))`;

/** Whether a workspace is a task. */
export async function isTask(db: Db, workspaceId: string): Promise<boolean> {
  const [row] = await db<{ found: boolean }[]>`SELECT ${isTaskBuild(db)} AS found
    FROM workspaces w JOIN workspace_builds b ON b.id = w.latest_build_id WHERE w.id = ${workspaceId}`;
  return row?.found ?? false;
}

/** Whether a workspace `w` is shared. The index workspaces_shared has this condition. */
export const isShared = (db: Db) => db`(w.user_acl <> '{}' OR w.group_acl <> '{}')`;

/** Whether a workspace `w` is in a scope that does not contain all. Guests' workspaces are found by their own index. */
export const inScope = (db: Db, { ownerId, organizationIds, guest }: ReadScope) => db`(w.owner_id = ${ownerId || null}
  OR w.organization_id = ANY(${organizationIds})${
    guest
      ? db` OR w.id = ANY(ARRAY(SELECT w.id FROM workspaces w
        WHERE NOT w.deleted AND w.organization_id = ANY(${guest.organizationIds}::uuid[]) AND ${isShared(db)}
          AND w.dormant_at IS NULL AND (w.user_acl ? ${guest.userId}::text OR w.group_acl ?| ${guest.groupIds}::text[])))`
      : db``
  })`;

/** The conditions of a search on a workspace `w`. Only the given conditions are part of the statement. */
function conditions(db: Db, search: WorkspaceSearch) {
  const { scope, ownerId, ownerName, namePattern, template, id, organization, outdated, dormant, status } = search;
  const { favorite, hasTask, lastUsedBefore: before, lastUsedAfter: after, parameters: wanted } = search;
  // the literal lets the planner use the index of workspaces that are not deleted
  const parts = [search.deleted ? db`w.deleted` : db`NOT w.deleted`];
  if (!scope.all) {
    parts.push(inScope(db, scope));
  }
  if (scope.ids !== null) parts.push(db`w.id = ANY(${scope.ids}::uuid[])`);
  if (ownerId !== null) parts.push(db`w.owner_id = ${ownerId}`);
  if (ownerName !== null) parts.push(db`w.owner_sort = lower(${ownerName})`);
  if (namePattern !== null) parts.push(db`w.name ILIKE ${namePattern}`);
  if (template !== null) {
    parts.push(db`w.template_id IN (SELECT id FROM templates WHERE lower(name) = lower(${template}))`);
  }
  if (id !== null) parts.push(db`w.id::text = ${id}`);
  if (organization !== null) {
    parts.push(db`w.organization_id IN (
      SELECT id FROM organizations WHERE id::text = ${organization} OR lower(name) = lower(${organization}))`);
  }
  if (outdated !== null) {
    parts.push(
      db`(b.template_version_id <> (SELECT active_version_id FROM templates t WHERE t.id = w.template_id)) = ${outdated}`,
    );
  }
  if (dormant !== null) parts.push(db`(w.dormant_at IS NOT NULL) = ${dormant}`);
  // the column that the list is ordered by
  if (status === 'running') parts.push(db`w.running`);
  else if (status === UNHEALTHY) parts.push(db`w.running AND ${hasAgent(db, agentIsUnhealthy(db))}`);
  else if (status !== null) parts.push(db`w.status = ${status}`);
  if (search.shared !== undefined) parts.push(db`${isShared(db)} = ${search.shared}`);
  if (search.sharedWithUser !== null) parts.push(db`${isShared(db)} AND w.user_acl ? ${search.sharedWithUser}::text`);
  if (search.sharedWithGroup !== null)
    parts.push(db`${isShared(db)} AND w.group_acl ? ${search.sharedWithGroup}::text`);
  if (favorite !== undefined) parts.push(db`${isFavorite(db, search.viewerId)} = ${favorite}`);
  if (hasTask !== undefined) parts.push(db`${isTaskBuild(db)} = ${hasTask}`);
  if (search.hasExternalAgent !== undefined) parts.push(db`${hasExternalAgent(db, 'b')} = ${search.hasExternalAgent}`);
  if (before) parts.push(db`coalesce(w.last_used_at, '-infinity') <= ${before}`);
  if (after) parts.push(db`w.last_used_at >= ${after}`);
  // one condition for any number: with one for each, planning takes seconds and gigabytes
  if (wanted.length > 0) {
    parts.push(db`NOT EXISTS (
      SELECT 1 FROM unnest(${wanted.map(({ name }) => name)}::text[], ${wanted.map(({ value }) => value)}::text[]) AS wanted (name, value)
      WHERE NOT EXISTS (SELECT 1 FROM workspace_build_parameters p WHERE p.workspace_build_id = b.id
        AND lower(p.name) = lower(wanted.name) AND (wanted.value IS NULL OR lower(p.value) = lower(wanted.value))))`);
  }
  if (search.agentStatuses !== undefined) {
    parts.push(hasAgent(db, db`${agentStatus(db)} = ANY(${[...search.agentStatuses]}::text[])`));
  }
  return parts.reduce((all, part) => db`${all} AND ${part}`);
}

/** The workspaces of agents with apps, by agent. */
export async function workspacesOfAgents(
  db: Db,
  agentIds: readonly string[],
): Promise<Map<string, { name: string; owner: string; owner_id: string; of_sub_agent: boolean }>> {
  if (agentIds.length === 0) return new Map();
  const rows = await db<{ id: string; name: string; owner: string; owner_id: string; of_sub_agent: boolean }[]>`
    SELECT a.id, w.name, u.username AS owner, w.owner_id, ${ofSubAgent(db)} AS of_sub_agent
    FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id JOIN workspaces w ON w.id = b.workspace_id
    JOIN users u ON u.id = w.owner_id WHERE a.id = ANY(${[...agentIds]})`;
  return new Map(rows.map(({ id, ...rest }) => [id, rest]));
}

/** Locks a workspace, so that its builds are added one after the other. Says what changed since it was read. */
export async function lockWorkspace(
  tx: Tx,
  { id, owner_id: ownerId }: Pick<WorkspaceRow, 'id' | 'owner_id'>,
): Promise<'unchanged' | 'claimed' | 'deleted'> {
  const [row] = await tx<{ owner_id: string; deleted: boolean }[]>`
    SELECT owner_id, deleted FROM workspaces WHERE id = ${id} FOR UPDATE`;
  if (!row || row.deleted) return 'deleted';
  return row.owner_id === ownerId ? 'unchanged' : 'claimed';
}

/** Proof that the actor may create a workspace for this owner in this organization. */
export type CreatableWorkspace = Allowed<'create', { type: 'workspace'; ownerId: string; organizationId: string }>;

/** @throws PgError a unique violation if the owner has a workspace with this name */
export async function insertWorkspace(
  tx: Tx,
  { ownerId, organizationId }: CreatableWorkspace,
  workspace: Pick<
    WorkspaceRow,
    'id' | 'template_id' | 'name' | 'autostart_schedule' | 'ttl_ms' | 'automatic_updates' | 'next_start_at'
  > & {
    /** The preset whose pool the workspace is for. */
    prebuilt_preset_id?: string;
  },
): Promise<BuiltWorkspace> {
  const { id, name, prebuilt_preset_id: presetId = null } = workspace;
  await tx`INSERT INTO workspaces (id, owner_id, organization_id, template_id, name, autostart_schedule, ttl_ms, automatic_updates,
      next_start_at, prebuilt_preset_id, last_used_at)
    VALUES (${id}, ${ownerId}, ${organizationId}, ${workspace.template_id}, ${name}, ${workspace.autostart_schedule},
      ${workspace.ttl_ms}, ${workspace.automatic_updates}, ${workspace.next_start_at}, ${presetId}, now())`;
  return {
    id,
    name,
    owner_id: ownerId,
    organization_id: organizationId,
    dormant_at: null,
    user_acl: {},
    group_acl: {},
  };
}

/** A workspace that the actor may change. */
export type ChangeableWorkspace = Allowed<'update', WorkspaceRow>;

/** Stores that a workspace was changed just now. */
export async function touchWorkspace(tx: Tx, workspace: Allowed<'update' | 'share', WorkspaceRow>): Promise<void> {
  await tx`UPDATE workspaces SET updated_at = now() WHERE id = ${workspace.id}`;
}

/** @throws PgError a unique violation if the owner has a workspace with this name */
export async function setWorkspaceName(tx: Tx, workspace: ChangeableWorkspace, name: string): Promise<void> {
  await tx`UPDATE workspaces SET name = ${name} WHERE id = ${workspace.id}`;
}

export async function setAutostartSchedule(
  tx: Tx,
  workspace: ChangeableWorkspace,
  schedule: string | null,
  next: Date | null,
): Promise<void> {
  await tx`UPDATE workspaces SET autostart_schedule = ${schedule}, next_start_at = ${next} WHERE id = ${workspace.id}`;
}

export async function setTtlMs(tx: Tx, workspace: ChangeableWorkspace, ttlMs: number | null): Promise<void> {
  await tx`UPDATE workspaces SET ttl_ms = ${ttlMs} WHERE id = ${workspace.id}`;
}

export async function setAutomaticUpdatesTo(
  tx: Tx,
  workspace: ChangeableWorkspace,
  value: WorkspaceRow['automatic_updates'],
): Promise<void> {
  await tx`UPDATE workspaces SET automatic_updates = ${value} WHERE id = ${workspace.id}`;
}

/** Makes a workspace dormant, with the time of its deletion by its template. */
export async function setDormant(
  tx: Tx,
  workspace: Allowed<'update', Pick<WorkspaceRow, 'id'>>,
  since: Date,
): Promise<Pick<WorkspaceRow, 'dormant_at' | 'deleting_at'>> {
  const [row] = await tx<Pick<WorkspaceRow, 'dormant_at' | 'deleting_at'>[]>`
    UPDATE workspaces w SET dormant_at = ${since}, deleting_at = CASE WHEN t.time_til_dormant_autodelete_ms > 0
        THEN ${since}::timestamptz + t.time_til_dormant_autodelete_ms * interval '1 millisecond' END
    FROM templates t WHERE w.id = ${workspace.id} AND t.id = w.template_id
    RETURNING w.dormant_at, w.deleting_at`;
  return row!;
}

/** Makes a dormant workspace active again, which counts as a use. */
export async function activateWorkspace(tx: Tx, workspace: ChangeableWorkspace, now: Date): Promise<void> {
  await tx`UPDATE workspaces SET dormant_at = NULL, deleting_at = NULL, last_used_at = ${now}
    WHERE id = ${workspace.id}`;
}

/** Stores that a workspace is in use now. */
export async function setLastUsed(db: Db, workspace: ChangeableWorkspace): Promise<void> {
  await db`UPDATE workspaces SET last_used_at = now() WHERE id = ${workspace.id}`;
}

/** Marks a workspace as a favorite of its owner. */
export async function insertFavorite(db: Db, workspace: ChangeableWorkspace): Promise<void> {
  await db`INSERT INTO workspace_favorites (user_id, workspace_id) VALUES (${workspace.owner_id}, ${workspace.id}) ON CONFLICT DO NOTHING`;
}

export async function deleteFavorite(db: Db, workspace: ChangeableWorkspace): Promise<void> {
  await db`DELETE FROM workspace_favorites WHERE user_id = ${workspace.owner_id} AND workspace_id = ${workspace.id}`;
}

/**
 * Marks a workspace as deleted: by an actor who may delete it if nothing has to be destroyed, else at the end of its
 * build.
 */
export async function markWorkspaceDeleted(
  tx: Tx,
  workspace: Allowed<'delete', BuiltWorkspace> | Owned<{ workspace_id: string }>,
): Promise<void> {
  const id = 'workspace_id' in workspace ? workspace.workspace_id : workspace.id;
  await tx`WITH conversation AS (DELETE FROM task_snapshots WHERE workspace_id = ${id})
    UPDATE workspaces SET deleted = true, updated_at = now() WHERE id = ${id}`;
}
