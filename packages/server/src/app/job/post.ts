import type { Db } from '../../db/connect.ts';
import { type JobRow, type Ownership, releaseJob } from '../../db/queries/jobs.ts';
import type { Services } from '../context.ts';

/** Tells of a job that waits, so that a daemon takes it. */
export function announcePending(
  { events }: Pick<Services, 'events'>,
  db: Db,
  job: Pick<JobRow, 'id' | 'organization_id' | 'tags'>,
): Promise<void> {
  const { id, organization_id, tags } = job;
  return events.publish(db, 'job_posted', { job_id: id, organization_id, tags });
}

/** Puts back a job that its worker never got hold of. Undefined where it is not the worker's (any more). */
export async function putBackJob(
  services: Pick<Services, 'sql' | 'events'>,
  own: Ownership,
): Promise<JobRow | undefined> {
  const job = await releaseJob(services.sql, own);
  if (job) await announcePending(services, services.sql, job);
  return job;
}
