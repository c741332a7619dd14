import type { Allowed, ReadScope } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { BuildParameter, BuildRow, BuiltWorkspace, Transition, WorkspaceRow } from '../rows.ts';
import { type BuildState, firstState, type OwnedBuild } from './build-states.ts';
import { bump } from './deadlines.ts';
import { IS_RESTARTED } from './restarts.ts';
import { inScope } from './workspaces.ts';

export type AutomaticReason = 'autostart' | 'autostop' | 'dormancy';

/** The reasons of builds that no person started. Their initiator is the workspace's owner. */
export const AUTOMATIC_REASONS: ReadonlySet<string> = new Set<AutomaticReason>(['autostart', 'autostop', 'dormancy']);

const COLUMNS = (db: Db) => db`
  b.id, b.workspace_id, b.template_version_id, b.template_version_preset_id, b.build_number, b.transition, b.initiator_id,
  b.job_id, b.reason, b.deadline, b.max_deadline, b.daily_cost, b.has_ai_task, b.ai_task_sidebar_app_id, b.warning,
  b.created_at, b.updated_at, w.name AS workspace_name, w.owner_id, u.username AS owner_name,
  u.avatar_url AS owner_avatar_url, w.organization_id, w.template_id, w.dormant_at, w.user_acl, w.group_acl, tv.name AS template_version_name,
  i.username AS initiator_name, j.job_status,
  ${db.unsafe(IS_RESTARTED)} AS restarts
  FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN users u ON u.id = w.owner_id
  JOIN template_versions tv ON tv.id = b.template_version_id JOIN users i ON i.id = b.initiator_id
  JOIN provisioner_jobs j ON j.id = b.job_id`;

export async function buildsById(db: Db, ids: string[]): Promise<BuildRow[]> {
  return db<BuildRow[]>`SELECT ${COLUMNS(db)} WHERE b.id = ANY(${ids})`;
}

export async function buildById(db: Db, id: string): Promise<BuildRow | undefined> {
  const [row] = await db<BuildRow[]>`SELECT ${COLUMNS(db)} WHERE b.id = ${id}`;
  return row;
}

export async function buildByNumber(db: Db, workspaceId: string, number: number): Promise<BuildRow | undefined> {
  const [row] = await db<
    BuildRow[]
  >`SELECT ${COLUMNS(db)} WHERE b.workspace_id = ${workspaceId} AND b.build_number = ${number}`;
  return row;
}

export async function latestBuild(db: Db, workspaceId: string): Promise<BuildRow | undefined> {
  const [row] = await db<BuildRow[]>`SELECT ${COLUMNS(db)} WHERE b.workspace_id = ${workspaceId}
    ORDER BY b.build_number DESC LIMIT 1`;
  return row;
}

export async function listBuilds(
  db: Db,
  workspaceId: string,
  {
    limit,
    offset,
    since,
    newerThan = null,
  }: { limit: number; offset: number; since?: Date | undefined; newerThan?: number | null | undefined },
): Promise<BuildRow[]> {
  return db<BuildRow[]>`SELECT ${COLUMNS(db)} WHERE b.workspace_id = ${workspaceId}
    AND (${since ?? null}::timestamptz IS NULL OR b.created_at > ${since ?? null}::timestamptz)
    AND (${newerThan}::int IS NULL OR b.build_number > ${newerThan}::int)
    ORDER BY b.build_number DESC LIMIT ${limit} OFFSET ${offset}`;
}

export async function buildParameters(db: Db, buildId: string): Promise<BuildParameter[]> {
  return db<BuildParameter[]>`
    SELECT name, value FROM workspace_build_parameters WHERE workspace_build_id = ${buildId} ORDER BY name`;
}

export type BuildOfJob = Pick<
  BuildRow,
  'workspace_id' | 'workspace_name' | 'transition' | 'job_status' | 'build_number' | 'job_id'
> & {
  build_id: string;
};

/** The builds among these jobs, the oldest first. */
export async function buildsOfJobs(db: Db, jobIds: readonly string[]): Promise<BuildOfJob[]> {
  return db<BuildOfJob[]>`
    SELECT b.workspace_id, w.name AS workspace_name, b.id AS build_id, b.transition, j.job_status, b.build_number, b.job_id
    FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE b.job_id = ANY(${jobIds}::uuid[]) ORDER BY b.created_at, b.id`;
}

/** The jobs of all builds that have not ended. The conditions are those of two indexes. */
export async function unfinishedBuildJobs(db: Db): Promise<string[]> {
  const rows = await db<{ id: string }[]>`
    SELECT id FROM provisioner_jobs WHERE type = 'workspace_build'
      AND (started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL OR started_at IS NOT NULL AND completed_at IS NULL)`;
  return rows.map(({ id }) => id);
}

/** The maximum number of earlier builds in which to look for values. */
const MAX_EARLIER_BUILDS = 500;

/**
 * The values that a start after this build keeps: those of the build, and for parameters that it does not have, those of
 * the newest earlier build that has one.
 */
export async function keptParameters(
  db: Db,
  { workspace_id: workspaceId, build_number: number }: Pick<BuildRow, 'workspace_id' | 'build_number'>,
): Promise<BuildParameter[]> {
  return db<BuildParameter[]>`
    SELECT DISTINCT ON (p.name) p.name, p.value
    FROM workspace_builds b JOIN workspace_build_parameters p ON p.workspace_build_id = b.id
    WHERE b.workspace_id = ${workspaceId} AND b.build_number BETWEEN ${number - MAX_EARLIER_BUILDS} AND ${number}
    ORDER BY p.name, b.build_number DESC`;
}

/** The values of one parameter in those of the builds that the scope contains, by build. */
export async function parameterOfBuilds(
  db: Db,
  scope: ReadScope,
  buildIds: readonly string[],
  name: string,
): Promise<Map<string, string>> {
  const rows = await db<{ id: string; value: string }[]>`
    SELECT b.id, p.value FROM workspace_build_parameters p JOIN workspace_builds b ON b.id = p.workspace_build_id
    JOIN workspaces w ON w.id = b.workspace_id WHERE b.id = ANY(${[...buildIds]}) AND p.name = ${name}
    AND (${scope.all} OR ${inScope(db, scope)})
    AND (${scope.ids}::uuid[] IS NULL OR w.id = ANY(${scope.ids}::uuid[]))`;
  return new Map(rows.map(({ id, value }) => [id, value]));
}

/** The parameters of the last successful build of a workspace. Empty without one. */
export async function lastGoodParameters(db: Db, workspaceId: string): Promise<BuildParameter[]> {
  return db<BuildParameter[]>`
    SELECT p.name, p.value FROM workspace_build_parameters p WHERE p.workspace_build_id = (
      SELECT b.id FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id
      WHERE b.workspace_id = ${workspaceId} AND j.job_status = 'succeeded' ORDER BY b.build_number DESC LIMIT 1)`;
}

/** The number of the newest build of a workspace. */
export async function latestBuildNumber(db: Db, workspaceId: string): Promise<number> {
  const [newest] = await db<{ build_number: number }[]>`
    SELECT max(build_number) AS build_number FROM workspace_builds WHERE workspace_id = ${workspaceId}`;
  return newest!.build_number;
}

/** The number of a build, if it belongs to this workspace. */
export async function buildNumberOf(db: Db, workspaceId: string, id: string): Promise<number | undefined> {
  const [build] = await db<{ build_number: number }[]>`
    SELECT build_number FROM workspace_builds WHERE id = ${id} AND workspace_id = ${workspaceId}`;
  return build?.build_number;
}

/**
 * Whether any other build of a workspace ever reached a daemon or has a state, so that it may have created resources.
 */
export async function anyBuildBegan(db: Db, workspaceId: string, exceptBuildId: string): Promise<boolean> {
  const begun = await db`SELECT 1 FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE b.workspace_id = ${workspaceId} AND b.id <> ${exceptBuildId}
      AND (j.acquire_epoch > 0 OR j.started_at IS NOT NULL OR coalesce(length(b.provisioner_state), 0) > 0) LIMIT 1`;
  return begun.length > 0;
}

/** Proof that the actor may start, stop or delete a workspace. The transition is the one that the policy allowed. */
export type BuildOrder = {
  [T in Transition]: { transition: T; workspace: Allowed<T, BuiltWorkspace> };
}[Transition];

export interface NewBuildRow {
  id: string;
  templateVersionId: string;
  presetId: string | undefined;
  initiatorId: string;
  jobId: string;
  reason: string;
  /** Absent: the state of the previous build. */
  state: BuildState | undefined;
  /** The previous build. */
  last: Pick<BuildRow, 'id' | 'build_number'> | undefined;
}

/**
 * Adds a build. Its number is unique in its workspace, so one of two concurrent builds fails with a unique violation.
 */
export async function insertBuildRow(
  tx: Tx,
  { transition, workspace }: BuildOrder,
  { id, last, ...build }: NewBuildRow,
): Promise<OwnedBuild> {
  await tx`INSERT INTO workspace_builds (id, workspace_id, template_version_id, template_version_preset_id, build_number,
      transition, initiator_id, job_id, reason, daily_cost, provisioner_state, state_serial, state_lineage)
    SELECT ${id}, ${workspace.id}, ${build.templateVersionId}, ${build.presetId ?? null}, ${(last?.build_number ?? 0) + 1},
      ${transition}, ${build.initiatorId}, ${build.jobId}, ${build.reason},
      coalesce(l.daily_cost, 0),
      ${firstState(tx, build.state)}
    FROM (SELECT 1) one LEFT JOIN workspace_builds l ON l.id = ${last?.id ?? null}`;
  return { build_id: id } as OwnedBuild;
}

export async function insertBuildParameters(tx: Tx, build: OwnedBuild, parameters: BuildParameter[]): Promise<void> {
  await tx`INSERT INTO workspace_build_parameters (workspace_build_id, name, value)
    SELECT ${build.build_id}::uuid, p.* FROM unnest(${parameters.map((p) => p.name)}::text[], ${parameters.map((p) => p.value)}::text[]) AS p`;
}

/** Moves the deadline of a workspace that somebody uses. */
export async function bumpDeadline(db: Db, workspace: Allowed<'update', WorkspaceRow>): Promise<void> {
  await db`UPDATE workspace_builds b ${bump(db, db`SELECT ${workspace.id}::uuid`)}`;
}

/** Stores the cost that a daemon plans for a build. The statement before it verified that the daemon owns the job. */
export async function setPlannedCost(db: Db, job: Owned<{ id: string }>, dailyCost: number): Promise<void> {
  await db`UPDATE workspace_builds SET daily_cost = ${dailyCost} WHERE job_id = ${job.id}`;
}

/** When a started workspace stops, and the latest time to which use may move that. */
export interface StopTimes {
  deadline: Date | null;
  maxDeadline: Date | null;
}

export interface CompletedBuild extends Pick<BuildRow, 'transition' | 'workspace_id'> {
  build_id: string;
  owner_id: string;
}

/** Stores the cost and the stop times of a build, and that no resource is being created any more. */
export async function completeBuild(
  tx: Tx,
  build: OwnedBuild,
  { dailyCost, hasAiTask, deadline, maxDeadline }: { dailyCost: number; hasAiTask: boolean } & StopTimes,
): Promise<Owned<CompletedBuild>> {
  const [row] = await tx<Owned<CompletedBuild>[]>`
    UPDATE workspace_builds b SET in_flight = '{}', updated_at = now(), daily_cost = ${dailyCost},
      has_ai_task = ${hasAiTask}, deadline = CASE WHEN b.transition = 'start' THEN ${deadline}::timestamptz END,
      max_deadline = CASE WHEN b.transition = 'start' THEN ${maxDeadline}::timestamptz END
    WHERE b.id = ${build.build_id}
    RETURNING b.id AS build_id, b.transition, b.workspace_id,
      (SELECT w.owner_id FROM workspaces w WHERE w.id = b.workspace_id)`;
  return row!;
}

export async function setSidebarApp(tx: Tx, build: OwnedBuild, appId: string | null): Promise<void> {
  await tx`UPDATE workspace_builds SET ai_task_sidebar_app_id = ${appId} WHERE id = ${build.build_id}`;
}
