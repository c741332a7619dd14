import type { Db } from '../../db/connect.ts';
import { type Ownership, releaseJob } from '../../db/queries/job-ownership.ts';
import type { JobRow } from '../../db/queries/jobs.ts';
import type { Services } from '../context.ts';
import { announce } from './complete.ts';

/** Announces a pending job, so that a daemon takes it. */
export function announcePending(
  { events }: Pick<Services, 'events'>,
  db: Db,
  job: Pick<JobRow, 'id' | 'organization_id' | 'tags' | 'terraform_range'>,
): Promise<void> {
  const { id, organization_id, tags, terraform_range } = job;
  const engine = terraform_range === null ? {} : { terraform_range };
  return events.publish(db, 'job_posted', { job_id: id, organization_id, tags, ...engine });
}

/**
 * Puts back a job that never reached its daemon, or ends it if it was canceled meanwhile. Undefined when the daemon
 * does not own it.
 */
export async function putBackJob(services: Services, own: Ownership): Promise<JobRow | undefined> {
  return services.sql.begin(async (tx) => {
    const job = await releaseJob(tx, own);
    if (job?.completed_at) await announce(services, tx, job);
    else if (job) await announcePending(services, tx, job);
    return job;
  });
}
