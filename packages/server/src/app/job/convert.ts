import type { MatchedProvisioners, PendingReason, ProvisionerJob, ProvisionerJobLog } from '@ropewalk/contract';
import type { Db } from '../../db/connect.ts';
import type { MatchCount } from '../../db/queries/daemons.ts';
import type { JobLogRow } from '../../db/queries/job-logs.ts';
import { type JobFacts, jobsWithFacts } from '../../db/queries/jobs.ts';
import type { JobRow } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { optionalTime, time } from '../values/time.ts';
import { pendingReasons } from './waiting.ts';

/**
 * Jobs by id as the API shows them. The position is the best one among the daemons that match the job and were seen
 * lately. The size is that of the longest of their queues. Both are 0 when there is no such daemon.
 */
export async function jobsById(services: Services, db: Db, ids: string[]): Promise<Map<string, ProvisionerJob>> {
  if (ids.length === 0) return new Map();
  const rows = await jobsWithFacts(db, ids);
  const reasons = await pendingReasons(
    services,
    db,
    rows.filter((row) => row.job_status === 'pending'),
  );
  return new Map(rows.map((row) => [row.id, toJob(row, reasons.get(row.id))]));
}

export async function toApiJob(services: Services, db: Db, id: string): Promise<ProvisionerJob> {
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
    initiator_id: row.initiator_id,
    logs_overflowed: false,
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
      ...(row.transition ? { workspace_build_transition: row.transition } : {}),
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
