// Removes what is left of workspaces that were deleted long ago, and of dry runs. Each statement changes a limited number
// of rows.

import type { SystemTask } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';

/**
 * How much of a deleted workspace's builds is left. `whole`: everything. `figures`: builds, jobs and parameters, which
 * lists and insights read. `latest`: the latest build and its job.
 */
export type History = 'whole' | 'figures' | 'latest';

/** Workspaces that were deleted before a time, those first that were deleted first. */
export async function deletedWorkspaces(
  db: Db,
  { history, before, most }: { history: Exclude<History, 'latest'>; before: Date; most: number },
): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT id FROM workspaces
    WHERE history = ${history} AND deleted_at < ${before} AND deleted AND history <> 'latest'
    ORDER BY deleted_at LIMIT ${most}`;
  return rows.map(({ id }) => id);
}

/** A build of a deleted workspace. */
export interface DeletedBuild {
  id: string;
  job_id: string;
}

/** The next builds of deleted workspaces after a build, by id. */
export async function buildsOfDeleted(
  db: Db,
  workspaceIds: readonly string[],
  { after, most }: { after: string; most: number },
): Promise<DeletedBuild[]> {
  return db<DeletedBuild[]>`SELECT b.id, b.job_id FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id
    WHERE w.id = ANY(${workspaceIds as string[]}) AND w.deleted AND b.id > ${after} ORDER BY b.id LIMIT ${most}`;
}

/** Dry runs that ended before a time. */
export async function oldDryRuns(db: Db, { before, most }: { before: Date; most: number }): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT id FROM provisioner_jobs
    WHERE type = 'template_version_dry_run' AND completed_at < ${before} ORDER BY completed_at LIMIT ${most}`;
  return rows.map(({ id }) => id);
}

/** Deletes jobs whose contents are purged. */
export async function deleteDryRuns(db: Db, _task: SystemTask, ids: readonly string[]): Promise<number> {
  const { count } = await db`DELETE FROM provisioner_jobs
    WHERE id = ANY(${ids as string[]}) AND type = 'template_version_dry_run'`;
  return count;
}

/**
 * Deletes at most `most` rows that belong to jobs, and returns `most` if there may be more. Otherwise it returns fewer.
 */
type Purge = (db: Db, task: SystemTask, jobIds: string[], most: number) => Promise<number>;

/** How many rows that go with a resource count as one: those of its agents, their apps, scripts and metadata. */
const ROWS_OF_RESOURCE = 20;

const agentsOf = (db: Db, jobIds: string[]) => db`ARRAY(SELECT a.id FROM workspace_agents a
  JOIN workspace_resources r ON r.id = a.resource_id WHERE r.job_id = ANY(${jobIds}))`;

/**
 * Each deletes one kind of a job's contents: its log, timings and resources, and what the agents of these resources
 * reported. Few rows are left to go with a resource when the other entries have found no more.
 */
export const CONTENTS: readonly Purge[] = [
  async (db, _task, jobs, most) =>
    (
      await db`DELETE FROM provisioner_job_logs WHERE id = ANY(ARRAY(
        SELECT id FROM provisioner_job_logs WHERE job_id = ANY(${jobs}) LIMIT ${most}))`
    ).count,
  async (db, _task, jobs, most) =>
    (
      await db`DELETE FROM provisioner_job_timings WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM provisioner_job_timings WHERE job_id = ANY(${jobs}) LIMIT ${most}))`
    ).count,
  async (db, _task, jobs, most) =>
    (
      await db`DELETE FROM workspace_agent_logs WHERE id = ANY(ARRAY(
        SELECT id FROM workspace_agent_logs WHERE agent_id = ANY(${agentsOf(db, jobs)}) LIMIT ${most}))`
    ).count,
  async (db, _task, jobs, most) =>
    (
      await db`DELETE FROM workspace_agent_stats WHERE id = ANY(ARRAY(
        SELECT id FROM workspace_agent_stats WHERE agent_id = ANY(${agentsOf(db, jobs)}) LIMIT ${most}))`
    ).count,
  async (db, _task, jobs, most) =>
    (
      await db`DELETE FROM workspace_agent_script_timings WHERE ctid = ANY(ARRAY(
        SELECT t.ctid FROM workspace_agent_script_timings t JOIN workspace_agent_scripts s ON s.id = t.script_id
        WHERE s.workspace_agent_id = ANY(${agentsOf(db, jobs)}) LIMIT ${most}))`
    ).count,
  async (db, _task, jobs, most) =>
    (
      await db`DELETE FROM workspace_modules WHERE id = ANY(ARRAY(
        SELECT id FROM workspace_modules WHERE job_id = ANY(${jobs}) LIMIT ${most}))`
    ).count,
  async (db, _task, jobs, most) => {
    const { count } = await db`DELETE FROM workspace_resources WHERE id = ANY(ARRAY(
      SELECT id FROM workspace_resources WHERE job_id = ANY(${jobs}) LIMIT ${Math.ceil(most / ROWS_OF_RESOURCE)}))`;
    return count * ROWS_OF_RESOURCE;
  },
];

/** Notes that the contents of a workspace's builds are purged. */
export async function setHistory(
  db: Db,
  _task: SystemTask,
  workspaceIds: readonly string[],
  history: Exclude<History, 'whole'>,
): Promise<void> {
  await db`UPDATE workspaces SET history = ${history} WHERE id = ANY(${workspaceIds as string[]}) AND deleted`;
}

/**
 * Deletes builds of deleted workspaces with their jobs and parameters. Three kinds stay: the latest, which lists read;
 * the first of a prebuilt workspace, which figures of pools count; and those with orphan states. Returns how many went.
 */
export async function deleteBuilds(
  db: Db,
  _task: SystemTask,
  workspaceIds: readonly string[],
  most: number,
): Promise<number> {
  const { count } = await db`WITH gone AS (
      DELETE FROM workspace_builds WHERE id = ANY(ARRAY(
        SELECT b.id FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id
        WHERE w.id = ANY(${workspaceIds as string[]}) AND w.deleted AND w.history = 'figures'
          AND EXISTS (SELECT 1 FROM workspace_builds n
            WHERE n.workspace_id = b.workspace_id AND n.build_number > b.build_number)
          AND NOT (b.build_number = 1 AND w.prebuilt_preset_id IS NOT NULL)
          AND NOT EXISTS (SELECT 1 FROM orphan_states o WHERE o.workspace_build_id = b.id)
        LIMIT ${most})) RETURNING job_id)
    DELETE FROM provisioner_jobs WHERE id IN (SELECT job_id FROM gone)`;
  return count;
}
