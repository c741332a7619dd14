// The workspaces that the server has to act on by itself. Migration 0021 says what `due_at` is.

import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Sql, Tx } from '../connect.ts';
import type { Acls, JobStatus, TemplateRow, Transition, WorkspaceRow } from '../rows.ts';
import { endShortly } from '../transaction-limits.ts';

/** What decides about the next automatic start, stop or deletion of a workspace. */
export interface DueWorkspace
  extends Pick<
      WorkspaceRow,
      | 'id'
      | 'name'
      | 'owner_id'
      | 'organization_id'
      | 'template_id'
      | 'autostart_schedule'
      | 'next_start_at'
      | 'automatic_updates'
      | 'dormant_at'
      | keyof Acls
      | 'deleting_at'
      | 'last_used_at'
      | 'created_at'
      | 'owner_name'
      | 'template_active_version_id'
      | 'require_active_version'
    >,
    Pick<
      TemplateRow,
      | 'allow_user_autostart'
      | 'autostart_days'
      | 'activity_bump_ms'
      | 'failure_ttl_ms'
      | 'time_til_autostop_notify_ms'
      | 'time_til_dormant_ms'
      | 'time_til_dormant_autodelete_ms'
    > {
  /** Changes with each change of the workspace's row. */
  row_version: string;
  owner_status: 'active' | 'dormant' | 'suspended';
  automatic_attempts: number;
  automatic_retry_at: Date | null;
  automatic_error: string;
  /** Of the latest build. */
  build_number: number;
  transition: Transition;
  reason: string;
  deadline: Date | null;
  max_deadline: Date | null;
  template_version_id: string;
  job_status: JobStatus;
  completed_at: Date | null;
}

const COLUMNS = (db: Db) => db`w.id, w.name, w.owner_id, w.organization_id, w.template_id, w.autostart_schedule,
  w.next_start_at, w.automatic_updates, w.dormant_at, w.user_acl, w.group_acl, w.deleting_at, w.last_used_at, w.created_at, w.automatic_attempts,
  w.automatic_retry_at, w.automatic_error, w.xmin::text AS row_version, u.username AS owner_name,
  u.status AS owner_status, t.active_version_id AS template_active_version_id, t.require_active_version, t.allow_user_autostart, t.autostart_days,
  t.activity_bump_ms, t.failure_ttl_ms, t.time_til_autostop_notify_ms, t.time_til_dormant_ms, t.time_til_dormant_autodelete_ms, b.build_number, b.transition, b.reason,
  b.deadline, b.max_deadline, b.template_version_id, j.job_status, j.completed_at
  FROM workspaces w JOIN users u ON u.id = w.owner_id JOIN templates t ON t.id = w.template_id
  JOIN workspace_builds b ON b.id = w.latest_build_id JOIN provisioner_jobs j ON j.id = b.job_id`;

/** The workspaces that are due, the longest due first. Leaves out those of some templates. */
export async function dueWorkspaces(
  db: Sql,
  now: Date,
  most: number,
  withoutTemplates: readonly string[] = [],
): Promise<DueWorkspace[]> {
  return db<DueWorkspace[]>`SELECT ${COLUMNS(db)}
    WHERE w.id = ANY(ARRAY(SELECT id FROM workspaces
      WHERE due_at <= ${now} AND template_id <> ALL(${[...withoutTemplates]}::uuid[]) ORDER BY due_at LIMIT ${most}))
    ORDER BY w.due_at, w.id`;
}

/**
 * Locks a workspace and reads it again. Undefined if it was deleted, or a concurrent build came first: then it is due
 * for another look.
 */
export async function lockDueWorkspace(tx: Tx, id: string): Promise<DueWorkspace | undefined> {
  const [row] = await tx<DueWorkspace[]>`
    SELECT ${endShortly(tx)}, ${COLUMNS(tx)} WHERE w.id = ${id} AND NOT w.deleted FOR UPDATE OF w`;
  return row;
}

/** The result of a look at a workspace. */
export interface Look extends Pick<DueWorkspace, 'id' | 'row_version'> {
  until: Date | null;
  nextStartAt: Date | null;
}

const time = (at: Date | null) => at?.toISOString() ?? null;

/**
 * Stores when to look again, for each workspace whose row did not change since. It waits for no lock, so that it cannot
 * deadlock with other statements that write many workspaces. A locked workspace stays due.
 */
export async function storeLooks(db: Db, _task: SystemTask, looks: readonly Look[]): Promise<void> {
  await db`WITH free AS (SELECT id FROM workspaces WHERE id = ANY(${looks.map(({ id }) => id)}) FOR UPDATE SKIP LOCKED)
    UPDATE workspaces w SET due_at = v.due, next_start_at = v.next
    FROM unnest(${looks.map(({ id }) => id)}::uuid[], ${looks.map((look) => look.row_version)}::text[],
      ${looks.map(({ until }) => time(until))}::text[]::timestamptz[],
      ${looks.map(({ nextStartAt }) => time(nextStartAt))}::text[]::timestamptz[]) AS v (id, version, due, next)
    WHERE w.id = v.id AND w.xmin::text = v.version AND w.id IN (SELECT id FROM free)`;
}

/** Stores why an automatic build could not begin, and when the next attempt comes. */
export async function storeFailedAttempt(
  db: Db,
  _task: SystemTask,
  { id, row_version: version }: Pick<DueWorkspace, 'id' | 'row_version'>,
  failed: { error: string; attempts: number; retryAt: Date | null; nextStartAt: Date | null },
): Promise<void> {
  await db`UPDATE workspaces SET automatic_error = ${failed.error}, automatic_attempts = ${failed.attempts},
      automatic_retry_at = ${failed.retryAt}, next_start_at = ${failed.nextStartAt}, due_at = '-infinity'
    WHERE id = ${id} AND xmin::text = ${version}`;
}
