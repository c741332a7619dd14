import type { Db } from '../connect.ts';
import type { JobStatus } from './jobs.ts';

export type Transition = 'start' | 'stop' | 'delete';

/** A build with the names that its published shape shows. Never holds the state: that can be megabytes. */
export interface BuildRow {
  id: string;
  workspace_id: string;
  template_version_id: string;
  template_version_preset_id: string | null;
  build_number: number;
  transition: Transition;
  initiator_id: string;
  job_id: string;
  reason: string;
  deadline: Date | null;
  max_deadline: Date | null;
  daily_cost: number;
  has_ai_task: boolean | null;
  ai_task_sidebar_app_id: string | null;
  warning: string;
  created_at: Date;
  updated_at: Date;
  workspace_name: string;
  owner_id: string;
  owner_name: string;
  owner_avatar_url: string;
  organization_id: string;
  template_id: string;
  template_version_name: string;
  initiator_name: string;
  job_status: JobStatus;
}

const COLUMNS = (db: Db) => db`
  b.id, b.workspace_id, b.template_version_id, b.template_version_preset_id, b.build_number, b.transition, b.initiator_id,
  b.job_id, b.reason, b.deadline, b.max_deadline, b.daily_cost, b.has_ai_task, b.ai_task_sidebar_app_id, b.warning,
  b.created_at, b.updated_at, w.name AS workspace_name, w.owner_id, u.username AS owner_name,
  u.avatar_url AS owner_avatar_url, w.organization_id, w.template_id, tv.name AS template_version_name,
  i.username AS initiator_name, j.job_status
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

export async function buildParameters(db: Db, buildId: string): Promise<{ name: string; value: string }[]> {
  return db<{ name: string; value: string }[]>`
    SELECT name, value FROM workspace_build_parameters WHERE workspace_build_id = ${buildId} ORDER BY name`;
}

/** The parameters of the last build of a workspace that succeeded; none where there is no such build. */
export async function lastGoodParameters(db: Db, workspaceId: string): Promise<{ name: string; value: string }[]> {
  return db<{ name: string; value: string }[]>`
    SELECT p.name, p.value FROM workspace_build_parameters p WHERE p.workspace_build_id = (
      SELECT b.id FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id
      WHERE b.workspace_id = ${workspaceId} AND j.job_status = 'succeeded' ORDER BY b.build_number DESC LIMIT 1)`;
}
