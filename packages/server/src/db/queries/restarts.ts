// Restarts of workspaces: the starts that follow a stop build.

import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { BuildParameter, BuiltWorkspace } from '../rows.ts';
import { endShortly } from '../transaction-limits.ts';

/** What a person chose for the start of a restart. */
export interface StartChoice {
  /** Null: the version that a start without a chosen one uses. */
  template_version_id: string | null;
  template_version_preset_id: string | null;
  /** The given values. All others are those of the build before. */
  parameters: BuildParameter[];
  log_level: string;
}

export interface RestartRow extends StartChoice {
  stop_build_id: string;
  initiator_id: string;
  reason: string;
  /** Of the request, for the audit entry of the start. */
  request_id: string;
  ip: string;
  user_agent: string;
}

/** Stores the start that follows a stop build. `start` proves that the actor may start the workspace. */
export async function insertRestart(
  tx: Tx,
  _start: Allowed<'start', BuiltWorkspace>,
  restart: RestartRow,
): Promise<void> {
  const row = { ...restart, parameters: tx.json(restart.parameters as never) };
  await tx`INSERT INTO workspace_restarts ${tx(row as never)}`;
}

/** The start that follows a stop build. Undefined if there is none. */
export async function restartOf(db: Db, stopBuildId: string): Promise<RestartRow | undefined> {
  const [row] = await db<RestartRow[]>`SELECT * FROM workspace_restarts WHERE stop_build_id = ${stopBuildId}`;
  return row;
}

/** Whether the build `b` is the stop of a restart. */
export const IS_RESTARTED = 'EXISTS (SELECT FROM workspace_restarts s WHERE s.stop_build_id = b.id)';

export async function anyRestarts(db: Db): Promise<boolean> {
  const [row] = await db<{ some: boolean }[]>`SELECT EXISTS (SELECT FROM workspace_restarts) AS some`;
  return row!.some;
}

/** A restart whose stop build has succeeded. */
export interface DueRestart extends RestartRow {
  workspace_id: string;
  template_id: string;
}

const STOP = (db: Db) => db`workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id
  JOIN workspaces w ON w.id = b.workspace_id`;

/** The restarts whose start can be made now, the longest due first, without those of some templates. */
export async function dueRestarts(db: Db, most: number, withoutTemplates: readonly string[]): Promise<DueRestart[]> {
  return db<DueRestart[]>`SELECT r.*, b.workspace_id, w.template_id
    FROM workspace_restarts r JOIN ${STOP(db)} ON b.id = r.stop_build_id
    WHERE j.job_status = 'succeeded' AND w.template_id <> ALL (${withoutTemplates}::uuid[])
    ORDER BY j.completed_at, b.id LIMIT ${most}`;
}

/** Deletes the restarts whose stop failed or was canceled, and those whose workspace has a newer build. */
export async function dropRestarts(db: Db, _task: SystemTask): Promise<void> {
  await db`DELETE FROM workspace_restarts r USING ${STOP(db)} WHERE b.id = r.stop_build_id
    AND (j.job_status IN ('failed', 'canceled') OR w.latest_build_id <> b.id OR w.deleted)`;
}

/**
 * Locks the workspace of a restart and deletes the restart. False if another server was faster. The workspace may have a
 * newer build.
 */
export async function takeRestart(
  tx: Tx,
  _task: SystemTask,
  { stop_build_id: id, workspace_id: workspaceId }: DueRestart,
): Promise<boolean> {
  // first the lock: the second statement then sees what its last holder did
  await tx`SELECT ${endShortly(tx)} FROM workspaces WHERE id = ${workspaceId} FOR UPDATE`;
  const taken = await tx`DELETE FROM workspace_restarts WHERE stop_build_id = ${id} RETURNING 1`;
  return taken.length > 0;
}

/** Stores why a workspace could not be started again. Its next build clears it. */
export async function storeFailedRestart(
  tx: Tx,
  _task: SystemTask,
  { workspace_id: id }: DueRestart,
  error: string,
): Promise<void> {
  await tx`UPDATE workspaces SET automatic_error = ${error} WHERE id = ${id}`;
}
