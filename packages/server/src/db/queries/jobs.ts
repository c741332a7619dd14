import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';
import type { JobRow } from '../rows.ts';
import { inFlightText } from './build-states.ts';

export async function jobById(db: Db, id: string): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`SELECT * FROM provisioner_jobs WHERE id = ${id}`;
  return row;
}

/** Facts about a job that are not in its row. */
export interface JobFacts {
  worker_name: string | null;
  template_version_id: string | null;
  template_version_name: string | null;
  template_id: string | null;
  template_name: string | null;
  template_display_name: string | null;
  template_icon: string | null;
  workspace_id: string | null;
  workspace_name: string | null;
  transition: 'start' | 'stop' | 'delete' | null;
  in_flight: string[] | null;
}

export async function jobsWithFacts(db: Db, ids: string[]): Promise<(JobRow & JobFacts)[]> {
  return db<(JobRow & JobFacts)[]>`
    SELECT j.*, d.name AS worker_name, tv.id AS template_version_id, tv.name AS template_version_name,
      t.id AS template_id, t.name AS template_name, t.display_name AS template_display_name, t.icon AS template_icon,
      w.id AS workspace_id, w.name AS workspace_name, b.transition, b.in_flight
    FROM unnest(${ids}::uuid[]) AS wanted (id)
    -- each by its id: a plan made while the table was small would read the whole table
    CROSS JOIN LATERAL (SELECT * FROM provisioner_jobs WHERE id = wanted.id OFFSET 0) j
    LEFT JOIN provisioner_daemons d ON d.id = j.worker_id
    LEFT JOIN workspace_builds b ON b.job_id = j.id
    LEFT JOIN workspaces w ON w.id = b.workspace_id
    LEFT JOIN template_versions tv ON tv.id = coalesce(b.template_version_id, (j.input ->> 'template_version_id')::uuid)
    LEFT JOIN templates t ON t.id = coalesce(w.template_id, tv.template_id)`;
}

/** Proof that a job may be canceled: the policy allows changes of its subject, or the server itself cancels it. */
export type CancelableJob = Allowed<'update', { job_id: string }> | { task: SystemTask; job_id: string };

/**
 * Cancels a job. A job that no daemon took ends immediately. A running one ends when its daemon reports it. A job with another
 * status than `expected` stays.
 */
export async function cancelJob(
  db: Db,
  job: CancelableJob,
  { expected }: { expected?: 'pending' | 'running' | undefined } = {},
): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET canceled_at = now(), updated_at = now(),
      completed_at = CASE WHEN started_at IS NULL THEN now() END
    WHERE id = ${job.job_id} AND completed_at IS NULL AND canceled_at IS NULL
      ${expected ? db`AND job_status = ${expected}` : db``} RETURNING *`;
  return row;
}

/** Ends a canceled job in the database. The new epoch ends its daemon's ownership. */
export async function forceCancelJob(db: Db, job: CancelableJob): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET completed_at = now(), updated_at = now(), force_canceled = true,
      acquire_epoch = acquire_epoch + 1, lease_expires_at = NULL, error = 'Force-canceled.' || ${inFlightText(db)}
    WHERE id = ${job.job_id} AND completed_at IS NULL AND canceled_at IS NOT NULL RETURNING *`;
  return row;
}

/** The ids of jobs that were canceled at least `ms` milliseconds ago and still run. */
export async function overdueCancels(db: Db, ms: number): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT id FROM provisioner_jobs
    WHERE canceled_at < now() - ${ms} * interval '1 millisecond' AND started_at IS NOT NULL AND completed_at IS NULL`;
  return rows.map(({ id }) => id);
}
