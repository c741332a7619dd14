// Pools of prebuilt workspaces. Migration 0026 says who owns them.

import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { BuiltWorkspace, JobStatus, TemplateRow, Transition, WorkspaceRow } from '../rows.ts';
import { agentStatus } from './agents.ts';
import type { CreatableWorkspace } from './workspaces.ts';

/** A preset that has, or should have, prebuilt workspaces. */
export interface PoolRow {
  id: string;
  name: string;
  version_id: string;
  version_name: string;
  template_id: string;
  template_name: string;
  organization_id: string;
  organization_name: string;
  /** Whether it belongs to the active version of a template that people can use. */
  is_current: boolean;
  /** The size at times without a schedule. */
  instances: number;
  ttl_seconds: number | null;
  /** Workspaces made before are replaced. */
  invalidated_at: Date | null;
  time_zone: string;
  schedules: { cron: string; instances: number }[];
  /** Failed creations since the last one that succeeded, with those that could not begin. */
  failures: number;
  /** Those of the lookback period. */
  recent_failures: number;
  last_failed_at: Date | null;
  /** Why the last creation could not begin, and when the next attempt comes. */
  error: string;
  /** Whether no creation since the last success could begin, because the preset or the template is invalid. */
  invalid: boolean;
  retry_at: Date | null;
  limit_reported_at: Date | null;
}

/** An unclaimed workspace with its latest build. */
export interface PrebuildRow {
  id: string;
  organization_id: string;
  template_id: string;
  preset_id: string | null;
  created_at: Date;
  transition: Transition;
  job_id: string;
  job_status: JobStatus;
  completed_at: Date | null;
  /** Whether a person can claim it: it runs, and each of its agents is connected and has run its start scripts. */
  ready: boolean;
}

const READY = (db: Db) => db`(w.running AND b.transition = 'start' AND w.dormant_at IS NULL AND NOT EXISTS (
  SELECT FROM workspace_resources r JOIN workspace_agents a ON a.resource_id = r.id
  WHERE r.job_id = b.job_id AND NOT a.deleted AND a.parent_id IS NULL
    AND NOT (a.lifecycle_state = 'ready' AND ${agentStatus(db)} = 'connected')))`;

const IS_CURRENT = (db: Db) => db`(tv.id = t.active_version_id AND NOT t.deleted AND t.deprecated = '')`;

/** All pools, or those of one template. */
export async function pools(db: Db, lookbackFrom: Date, templateId: string | null = null): Promise<PoolRow[]> {
  return db<PoolRow[]>`
    SELECT p.id, p.name, tv.id AS version_id, tv.name AS version_name, t.id AS template_id, t.name AS template_name,
      t.organization_id, o.name AS organization_name, ${IS_CURRENT(db)} AS is_current, coalesce(p.desired_instances, 0) AS instances,
      p.prebuild_ttl_seconds AS ttl_seconds, p.prebuilds_invalidated_at AS invalidated_at, p.prebuild_time_zone AS time_zone, p.prebuild_schedules AS schedules,
      p.prebuild_error AS error, p.prebuild_failed_attempts > 0 AS invalid, p.prebuild_retry_at AS retry_at, p.prebuild_limit_reported_at AS limit_reported_at,
      f.failures + p.prebuild_failed_attempts AS failures, f.recent_failures, f.last_failed_at
    FROM template_version_presets p JOIN template_versions tv ON tv.id = p.template_version_id
    JOIN templates t ON t.id = tv.template_id JOIN organizations o ON o.id = t.organization_id
    CROSS JOIN LATERAL (
      SELECT count(*) AS failures, count(*) FILTER (WHERE j.completed_at >= ${lookbackFrom}) AS recent_failures,
        max(j.completed_at) AS last_failed_at
      FROM workspaces w JOIN workspace_builds b ON b.workspace_id = w.id AND b.build_number = 1
      JOIN provisioner_jobs j ON j.id = b.job_id
      WHERE w.prebuilt_preset_id = p.id AND j.job_status = 'failed' AND NOT EXISTS (
        SELECT FROM workspaces later JOIN workspace_builds lb ON lb.workspace_id = later.id AND lb.build_number = 1
        JOIN provisioner_jobs lj ON lj.id = lb.job_id
        WHERE later.prebuilt_preset_id = p.id AND lj.job_status = 'succeeded' AND lj.completed_at > j.completed_at)) f
    WHERE (${templateId}::uuid IS NULL OR t.id = ${templateId})
      AND ((tv.id = t.active_version_id AND NOT t.deleted
          AND (p.desired_instances > 0 OR jsonb_array_length(p.prebuild_schedules) > 0))
        OR p.id IN (SELECT prebuilt_preset_id FROM workspaces WHERE owner_id = ${PREBUILDS_USER_ID} AND NOT deleted))
    ORDER BY t.name, p.name, p.id`;
}

/** All unclaimed workspaces, or those of one template. */
export async function prebuilds(db: Db, templateId: string | null = null): Promise<PrebuildRow[]> {
  return db<PrebuildRow[]>`
    SELECT w.id, w.organization_id, w.template_id, w.prebuilt_preset_id AS preset_id, w.created_at, b.transition, b.job_id,
      j.job_status, j.completed_at, ${READY(db)} AS ready
    FROM workspaces w JOIN workspace_builds b ON b.id = w.latest_build_id JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE w.owner_id = ${PREBUILDS_USER_ID} AND NOT w.deleted AND (${templateId}::uuid IS NULL OR w.template_id = ${templateId})
    ORDER BY w.created_at, w.id`;
}

export interface PoolTotal {
  template_name: string;
  preset_name: string;
  organization_name: string;
  created: number;
  failed: number;
  claimed: number;
}

/** The workspaces that were ever made for pools, by the names of their presets. */
export async function poolTotals(db: Db): Promise<PoolTotal[]> {
  return db<PoolTotal[]>`
    SELECT t.name AS template_name, p.name AS preset_name, o.name AS organization_name, count(*) AS created,
      count(*) FILTER (WHERE j.job_status = 'failed') AS failed, count(*) FILTER (WHERE w.claimed_at IS NOT NULL) AS claimed
    FROM workspaces w JOIN template_version_presets p ON p.id = w.prebuilt_preset_id
    JOIN templates t ON t.id = w.template_id JOIN organizations o ON o.id = w.organization_id
    JOIN workspace_builds b ON b.workspace_id = w.id AND b.build_number = 1 JOIN provisioner_jobs j ON j.id = b.job_id
    GROUP BY 1, 2, 3`;
}

/** By organization, the jobs of pools that wait or run. */
export async function activePoolJobs(db: Db): Promise<Map<string, number>> {
  const rows = await db<{ organization_id: string; jobs: number }[]>`
    SELECT organization_id, count(*) AS jobs FROM provisioner_jobs
    WHERE initiator_id = ${PREBUILDS_USER_ID} AND completed_at IS NULL GROUP BY organization_id`;
  return new Map(rows.map(({ organization_id, jobs }) => [organization_id, jobs]));
}

/** Upstream's. Its allowance limits what the pools of an organization cost. */
const POOL_GROUP = { name: 'coderprebuiltworkspaces', display_name: 'Prebuilt Workspaces' };

/**
 * Makes the system user a member of an organization, so that it can own workspaces there, and of the group that gives it a
 * budget. An administrator may have deleted the group, or made it before.
 */
export async function insertPoolMember(tx: Tx, _task: SystemTask, organizationId: string): Promise<void> {
  await tx`INSERT INTO organization_members (organization_id, user_id)
    VALUES (${organizationId}, ${PREBUILDS_USER_ID}) ON CONFLICT DO NOTHING`;
  await tx`INSERT INTO groups ${tx({ ...POOL_GROUP, organization_id: organizationId })} ON CONFLICT DO NOTHING`;
  await tx`INSERT INTO group_members (group_id, organization_id, user_id)
    SELECT id, organization_id, ${PREBUILDS_USER_ID} FROM groups
    WHERE organization_id = ${organizationId} AND lower(name) = ${POOL_GROUP.name} ON CONFLICT DO NOTHING`;
}

/** Locks a preset whose pool may get another workspace. Undefined if it must not any more. */
export async function lockPool(
  tx: Tx,
  presetId: string,
): Promise<{ template_id: string; version_id: string } | undefined> {
  const [row] = await tx<{ template_id: string; version_id: string }[]>`
    SELECT t.id AS template_id, tv.id AS version_id FROM template_version_presets p
    JOIN template_versions tv ON tv.id = p.template_version_id JOIN templates t ON t.id = tv.template_id
    WHERE p.id = ${presetId} AND ${IS_CURRENT(tx)} FOR UPDATE OF p FOR SHARE OF t`;
  return row;
}

/** Locks an unclaimed workspace. Undefined if it was claimed or deleted, or somebody builds or claims it right now. */
export async function lockPrebuild(tx: Tx, id: string): Promise<BuiltWorkspace | undefined> {
  const [row] = await tx<
    BuiltWorkspace[]
  >`SELECT id, name, owner_id, organization_id, dormant_at, user_acl, group_acl FROM workspaces
    WHERE id = ${id} AND owner_id = ${PREBUILDS_USER_ID} AND NOT deleted FOR UPDATE SKIP LOCKED`;
  return row;
}

/**
 * Stores why no workspace could be created for a pool, when to try again, and whether it can never succeed. Null: the
 * creation began.
 */
export async function storePoolAttempt(
  db: Db,
  _task: SystemTask,
  presetId: string,
  failed: { error: string; retryAt: Date; counts: boolean } | null,
): Promise<void> {
  await db`UPDATE template_version_presets SET prebuild_error = ${failed?.error ?? ''},
      prebuild_retry_at = ${failed?.retryAt ?? null},
      prebuild_failed_attempts = CASE WHEN ${failed === null} THEN 0
        ELSE prebuild_failed_attempts + ${Number(failed?.counts === true)} END
    WHERE id = ${presetId} AND (prebuild_error <> '' OR ${failed !== null})`;
}

/** Records that the message about the limit is sent. False: it was sent before. */
export async function markLimitReported(tx: Tx, _task: SystemTask, presetId: string, at: Date): Promise<boolean> {
  const { count } = await tx`UPDATE template_version_presets SET prebuild_limit_reported_at = ${at}
    WHERE id = ${presetId} AND prebuild_limit_reported_at IS NULL`;
  return count > 0;
}

/** Marks the workspaces of all pools of a template's active version for replacement. */
export async function invalidatePools(
  tx: Tx,
  template: Allowed<'update', TemplateRow>,
  at: Date,
): Promise<{ template_name: string; template_version_name: string; preset_name: string }[]> {
  return tx<{ template_name: string; template_version_name: string; preset_name: string }[]>`
    UPDATE template_version_presets p SET prebuilds_invalidated_at = ${at}
    FROM templates t JOIN template_versions v ON v.id = t.active_version_id
    WHERE t.id = ${template.id} AND p.template_version_id = v.id
    RETURNING t.name AS template_name, v.name AS template_version_name, p.name AS preset_name`;
}

/** The presets of a version that may have prebuilt workspaces, with their parameters. */
export async function pooledPresets(
  db: Db,
  versionId: string,
): Promise<{ id: string; parameters: Record<string, string> }[]> {
  return db<{ id: string; parameters: Record<string, string> }[]>`
    SELECT id, parameters FROM template_version_presets WHERE template_version_id = ${versionId}
      AND (desired_instances > 0 OR jsonb_array_length(prebuild_schedules) > 0) ORDER BY name, id`;
}

/**
 * Gives the oldest ready workspace of a preset's pool to its new owner. Undefined if none is ready. Of concurrent claims
 * each gets another one.
 * @throws PgError a unique violation if the owner has a workspace with this name
 */
export async function claimPrebuild(
  tx: Tx,
  { ownerId, organizationId }: CreatableWorkspace,
  { presetId, versionId }: { presetId: string; versionId: string },
  workspace: Pick<
    WorkspaceRow,
    'template_id' | 'name' | 'autostart_schedule' | 'ttl_ms' | 'automatic_updates' | 'next_start_at'
  >,
): Promise<BuiltWorkspace | undefined> {
  const [row] = await tx<BuiltWorkspace[]>`
    UPDATE workspaces SET owner_id = ${ownerId}, name = ${workspace.name}, claimed_at = now(), updated_at = now(),
      last_used_at = now(), autostart_schedule = ${workspace.autostart_schedule}, ttl_ms = ${workspace.ttl_ms},
      automatic_updates = ${workspace.automatic_updates}, next_start_at = ${workspace.next_start_at}
    WHERE id = (
      SELECT w.id FROM workspaces w JOIN workspace_builds b ON b.id = w.latest_build_id
      WHERE w.owner_id = ${PREBUILDS_USER_ID} AND w.prebuilt_preset_id = ${presetId} AND NOT w.deleted
        AND w.template_id = ${workspace.template_id} AND w.organization_id = ${organizationId}
        AND b.template_version_id = ${versionId} AND ${READY(tx)}
      ORDER BY w.created_at, w.id LIMIT 1 FOR UPDATE OF w SKIP LOCKED)
    RETURNING id, name, owner_id, organization_id, dormant_at, user_acl, group_acl`;
  return row;
}
