import { AppError } from '@ropewalk/kit';
import { notFound } from '../../authz/not-found.ts';
import type { Tx } from '../../db/connect.ts';
import { type CancelableJob, cancelJob, forceCancelJob, jobById } from '../../db/queries/jobs.ts';
import type { JobRow } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { announce } from './complete.ts';

interface CancelOptions {
  force?: boolean;
  expected?: 'pending' | 'running' | undefined;
  /** Adds the audit entry in the transaction. */
  record?: (tx: Tx) => Promise<void>;
}

/**
 * Cancels a job. A pending job ends immediately, without a daemon. The daemon of a running job is notified. With `force`, a
 * running job that was canceled before ends in the database, and its daemon loses ownership.
 * @throws AppError `precondition` if the job has another status than `expected`
 */
export function requestCancel(ctx: Services, cancelable: CancelableJob, options: CancelOptions = {}): Promise<JobRow> {
  return ctx.sql.begin((tx) => cancelWithin(ctx, tx, cancelable, options));
}

/** `requestCancel` as a part of a transaction. */
export async function cancelWithin(
  ctx: Services,
  tx: Tx,
  cancelable: CancelableJob,
  { force = false, expected, record }: CancelOptions = {},
): Promise<JobRow> {
  const job = await cancelJob(tx, cancelable, { expected });
  if (job) {
    await record?.(tx);
    await ctx.events.publish(tx, 'job_canceled', { job_id: job.id, force: false });
    if (job.completed_at) await announce(ctx, tx, job);
    else await ctx.events.publish(tx, 'job_changed', { job_id: job.id });
    return job;
  }
  if (force && !expected) {
    const forced = await forceCancelJob(tx, cancelable);
    if (forced) {
      await record?.(tx);
      await ctx.events.publish(tx, 'job_canceled', { job_id: forced.id, force: true });
      await announce(ctx, tx, forced);
      return forced;
    }
  }
  const now = await jobById(tx, cancelable.job_id);
  if (!now) throw notFound();
  if (expected && now.job_status !== expected) {
    throw new AppError(
      'precondition',
      `Job is not in the expected state: expected ${expected}, was ${now.job_status}.`,
    );
  }
  if (now.completed_at) throw new AppError('invalid', 'Job has already completed!');
  throw new AppError('invalid', 'Job has already been marked as canceled!');
}
