import { AppError } from '@ropewalk/kit';
import { allowedVersions } from '@ropewalk/kit/version-constraint';
import type { Db, Tx } from '../../db/connect.ts';
import type { Owned, Ownership } from '../../db/owned.ts';
import { noteInJobLog } from '../../db/queries/job-logs.ts';
import { releaseForEngine, releaseJob } from '../../db/queries/job-ownership.ts';
import { insertJob, type JobOrder, type NewJob } from '../../db/queries/job-queue.ts';
import type { JobRow } from '../../db/rows.ts';
import { together } from '../../db/together.ts';
import type { Ctx, Services } from '../context/context.ts';
import { requirePendingJobRoom } from '../context/limits.ts';
import { announce } from './complete.ts';
import { rangeText } from './engines.ts';
import { USUAL_TYPE } from './tags.ts';

/** Announces a pending job, so that a daemon takes it. */
export function announcePending(
  { events }: Pick<Services, 'events'>,
  db: Db,
  job: Pick<JobRow, 'id' | 'organization_id' | 'provisioner' | 'tags' | 'terraform_range'>,
): Promise<void> {
  const { id, organization_id, provisioner, tags, terraform_range } = job;
  const engine = terraform_range === null ? {} : { terraform_range };
  const type = provisioner === USUAL_TYPE ? {} : { provisioner };
  return events.publish(db, 'job_posted', { job_id: id, organization_id, tags, ...type, ...engine });
}

/**
 * Adds a job for which a person waits.
 * @throws AppError `rate_limited` if too many of the person's jobs are pending
 */
export async function postJob(ctx: Ctx, tx: Tx, order: JobOrder, job: NewJob): Promise<Owned<JobRow>> {
  const [posted] = await together([
    insertJob(tx, order, job),
    ctx.actor.kind === 'user' ? requirePendingJobRoom(ctx, tx, job.initiator_id) : undefined,
  ]);
  return posted;
}

/** The maximum number of characters of a requirement that a daemon may send. */
const MAX_REQUIREMENT = 4_096;

/**
 * Puts back an import or a dry run for a daemon with another version of Terraform, because a module that this daemon
 * fetched requires that. `constraints`: all of the template and its modules. False if the daemon keeps the job, and fails
 * it: no version satisfies the constraints, or the job was tried too often.
 */
export async function putBackForEngine(services: Services, own: Ownership, constraints: string): Promise<boolean> {
  if (constraints.length > MAX_REQUIREMENT)
    throw new AppError('too_large', `The required version has more than ${MAX_REQUIREMENT} characters.`);
  const ranges = allowedVersions([constraints]);
  if (ranges.length === 0) return false;
  const required = { text: constraints, range: rangeText(ranges) };
  return services.sql.begin(async (tx) => {
    const job = await releaseForEngine(tx, own, required);
    if (!job) return false;
    const text = `The job goes back to the queue, for a provisioner daemon with Terraform ${constraints}.`;
    await noteInJobLog(tx, job, 'info', text);
    await services.events.publish(tx, 'job_changed', { job_id: job.id, logs: true });
    await announcePending(services, tx, job);
    return true;
  });
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
