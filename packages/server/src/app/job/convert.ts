import type { MatchedProvisioners, PendingReason, ProvisionerJob, ProvisionerJobLog } from '@platform/contract';
import type { Db } from '../../db/connect.ts';
import type { MatchCount } from '../../db/queries/daemons.ts';
import type { JobLogRow, JobRow } from '../../db/queries/jobs.ts';
import type { Services } from '../context.ts';
import { optionalTime, time } from '../user/convert.ts';
import { pendingReasons } from './waiting.ts';

/** A job with what its row does not hold. */
interface JobFacts {
  worker_name: string | null;
  template_version_id: string | null;
  template_version_name: string | null;
  template_id: string | null;
  template_name: string | null;
  template_display_name: string | null;
  template_icon: string | null;
  workspace_id: string | null;
  workspace_name: string | null;
  in_flight: string[] | null;
}

/**
 * Jobs by id in the published shape. The place in the queue is counted per daemon that could take the job and was seen
 * lately: the best place, of the longest queue; 0 of 0 where no such daemon is there.
 */
export async function jobsById(services: Services, db: Db, ids: string[]): Promise<Map<string, ProvisionerJob>> {
  if (ids.length === 0) return new Map();
  const rows = await db<(JobRow & JobFacts)[]>`
    SELECT j.*, d.name AS worker_name, tv.id AS template_version_id, tv.name AS template_version_name,
      t.id AS template_id, t.name AS template_name, t.display_name AS template_display_name, t.icon AS template_icon,
      w.id AS workspace_id, w.name AS workspace_name, b.in_flight
    FROM unnest(${ids}::uuid[]) AS wanted (id)
    -- each by its id: a plan made while the table was small would read all of it
    CROSS JOIN LATERAL (SELECT * FROM provisioner_jobs WHERE id = wanted.id OFFSET 0) j
    LEFT JOIN provisioner_daemons d ON d.id = j.worker_id
    LEFT JOIN workspace_builds b ON b.job_id = j.id
    LEFT JOIN workspaces w ON w.id = b.workspace_id
    LEFT JOIN template_versions tv ON tv.id = coalesce(b.template_version_id, (j.input ->> 'template_version_id')::uuid)
    LEFT JOIN templates t ON t.id = coalesce(w.template_id, tv.template_id)`;
  const reasons = await pendingReasons(
    services,
    db,
    rows.filter((row) => row.job_status === 'pending'),
  );
  return new Map(rows.map((row) => [row.id, toJob(row, reasons.get(row.id))]));
}

export async function jobAsPublished(services: Services, db: Db, id: string): Promise<ProvisionerJob> {
  return (await jobsById(services, db, [id])).get(id)!;
}

function toJob(row: JobRow & JobFacts, reason: PendingReason | undefined): ProvisionerJob {
  return {
    id: row.id,
    created_at: time(row.created_at),
    ...optionalTime('started_at', row.started_at),
    ...optionalTime('completed_at', row.completed_at),
    ...optionalTime('canceled_at', row.canceled_at),
    ...(row.error ? { error: row.error } : {}),
    ...(row.error_code ? { error_code: row.error_code as 'REQUIRED_TEMPLATE_VARIABLES' } : {}),
    status: row.job_status,
    ...(row.worker_id ? { worker_id: row.worker_id } : {}),
    ...(row.worker_name ? { worker_name: row.worker_name } : {}),
    file_id: row.file_id,
    tags: row.tags,
    queue_position: reason?.queue_position ?? 0,
    queue_size: reason?.queue_size ?? 0,
    ...(reason ? { pending_reason: reason } : {}),
    ...(row.in_flight && row.in_flight.length > 0 ? { in_flight: row.in_flight } : {}),
    organization_id: row.organization_id,
    input: {
      ...(row.input.template_version_id ? { template_version_id: row.input.template_version_id } : {}),
      ...(row.input.workspace_build_id ? { workspace_build_id: row.input.workspace_build_id } : {}),
    },
    type: row.type,
    metadata: {
      template_version_name: row.template_version_name ?? '',
      ...(row.template_id ? { template_id: row.template_id } : {}),
      template_name: row.template_name ?? '',
      template_display_name: row.template_display_name ?? '',
      template_icon: row.template_icon ?? '',
      ...(row.workspace_id ? { workspace_id: row.workspace_id } : {}),
      ...(row.workspace_name ? { workspace_name: row.workspace_name } : {}),
    },
  };
}

export function toJobLog(row: JobLogRow): ProvisionerJobLog {
  return {
    id: row.id,
    created_at: time(row.created_at),
    log_source: row.source,
    log_level: row.level,
    stage: row.stage,
    output: row.output,
  };
}

export function toMatched(count: MatchCount): MatchedProvisioners {
  return {
    count: count.count,
    available: count.available,
    ...optionalTime('most_recently_seen', count.most_recently_seen),
  };
}
