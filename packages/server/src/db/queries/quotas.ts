import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import type { Db, Tx } from '../connect.ts';
import type { Owned } from '../owned.ts';

/** A person in an organization, where budget and costs are counted. */
export interface Spender {
  organizationId: string;
  userId: string;
}

/** Makes other decisions about this person's quota wait until the transaction ends. */
export async function lockQuota(tx: Tx, { organizationId, userId }: Spender): Promise<void> {
  await tx`SELECT pg_advisory_xact_lock(hashtextextended(${`quota:${organizationId}:${userId}`}, 0))`;
}

export interface QuotaRow {
  /**
   * The sum of the allowances of the person's groups. Null: no group of the organization has an allowance, or, for the
   * account of pools, no group of that account has one.
   */
  budget: number | null;
  /** The daily cost of the person's workspaces. */
  consumed: number;
}

/** What a person may spend and spends in an organization. The cost of `exceptWorkspaceId` does not count. */
export async function quotaOf(
  db: Db,
  { organizationId, userId }: Spender,
  exceptWorkspaceId?: string,
): Promise<QuotaRow> {
  const [row] = await db<QuotaRow[]>`SELECT
    CASE WHEN EXISTS (SELECT FROM groups WHERE organization_id = ${organizationId} AND quota_allowance > 0) THEN
      (SELECT nullif(coalesce(sum(g.quota_allowance), 0)::bigint,
          CASE WHEN ${userId}::uuid = ${PREBUILDS_USER_ID}::uuid THEN 0 END) FROM groups g
        JOIN all_group_members m ON m.group_id = g.id AND m.user_id = ${userId}
        WHERE g.organization_id = ${organizationId})
    END AS budget,
    (SELECT coalesce(sum(latest.daily_cost), 0)::bigint FROM workspaces w CROSS JOIN LATERAL (
        SELECT b.daily_cost FROM workspace_builds b WHERE b.workspace_id = w.id ORDER BY b.build_number DESC LIMIT 1
      ) latest
      WHERE w.owner_id = ${userId} AND w.organization_id = ${organizationId} AND NOT w.deleted
        AND w.id IS DISTINCT FROM ${exceptWorkspaceId ?? null}::uuid) AS consumed`;
  return row!;
}

export interface PlannedBuild {
  workspace_id: string;
  owner_id: string;
  organization_id: string;
  /** The cost of the build before. Null: this is the first one of this owner. */
  previous_cost: number | null;
}

/** The build of a job. Undefined for other jobs. */
export async function plannedBuild(db: Db, job: Owned<{ id: string }>): Promise<PlannedBuild | undefined> {
  const [row] = await db<PlannedBuild[]>`
    SELECT w.id AS workspace_id, w.owner_id, w.organization_id,
      CASE WHEN j.input ->> 'prebuilt_stage' IS DISTINCT FROM 'claim' THEN p.daily_cost END AS previous_cost
    FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN provisioner_jobs j ON j.id = b.job_id
    LEFT JOIN workspace_builds p ON p.workspace_id = b.workspace_id AND p.build_number = b.build_number - 1
    WHERE b.job_id = ${job.id}`;
  return row;
}
