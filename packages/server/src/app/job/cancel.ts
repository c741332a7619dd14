import { AppError } from '@platform/kit';
import { notFound } from '../../authz/not-found.ts';
import { cancelJob, forceCancelJob, type JobRow, jobById } from '../../db/queries/jobs.ts';
import type { Ctx } from '../context.ts';
import { announce } from './complete.ts';

/**
 * Asks for the end of a job; who may is the caller's to check. Pending: over at once, with no daemon needed. Running:
 * its daemon is told. A second call on a running job forces: the job ends in the database and the daemon's right to it.
 */
export async function requestCancel(ctx: Ctx, jobId: string, { force = false } = {}): Promise<JobRow> {
  return ctx.sql.begin(async (tx) => {
    const job = await cancelJob(tx, jobId);
    if (job) {
      await ctx.events.publish(tx, 'job_canceled', { job_id: job.id, force: false });
      if (job.completed_at) await announce(ctx, tx, job);
      else await ctx.events.publish(tx, 'job_changed', { job_id: job.id });
      return job;
    }
    if (force) {
      const forced = await forceCancelJob(tx, jobId);
      if (forced) {
        await ctx.events.publish(tx, 'job_canceled', { job_id: forced.id, force: true });
        await announce(ctx, tx, forced);
        return forced;
      }
    }
    const now = await jobById(tx, jobId);
    if (!now) throw notFound();
    if (now.completed_at) throw new AppError('invalid', 'Job has already completed!');
    throw new AppError('invalid', 'Job has already been marked as canceled!');
  });
}
