import { AppError } from '@ropewalk/kit';
import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { requestCancel } from '../app/job/cancel.ts';
import { announce } from '../app/job/complete.ts';
import { announcePending } from '../app/job/post.ts';
import { systemTask } from '../authz/proofs.ts';
import { isUnreachable, LAST_TIME } from '../db/connect.ts';
import { holdLeases, restartLeases, sweepLostJobs } from '../db/queries/job-ownership.ts';
import { ageBackgroundJobs } from '../db/queries/job-queue.ts';
import { overdueCancels } from '../db/queries/jobs.ts';

const PERIOD_MS = 5_000;
/** A longer time from one sweep to the next, in ms, is a pause. */
const MAX_COUNTED_MS = 1.5 * PERIOD_MS;

/**
 * Ends or requeues jobs whose lease ran out, and cancels by force what was canceled and does not end. Leases do not run
 * out while the server or its database is away or accepts no writes: at the start, and when the database is back, every
 * running job gets a fresh lease. Any other error leaves the leases as they are. Between two sweeps at most MAX_COUNTED_MS
 * count. The rest is a pause of the server, of the database or of both, as when their machine is suspended, or a jump of
 * the database's clock. Daemons could not report meanwhile.
 */
export function lostJobsTask(services: Services): BackgroundTask {
  const { sql, config, log } = services;
  const name = 'lost jobs';
  const task = systemTask(systemContext(services, name));
  let leasesStopped = true;
  /** When the last sweep ran, on the database's clock. */
  let sweptAt: Date | undefined;

  async function sweep() {
    const leaseMs = config.provisionerLease;
    sweptAt = await holdLeases(sql, task, { since: sweptAt ?? LAST_TIME, countedMs: MAX_COUNTED_MS, leaseMs });
    return sweepLostJobs(sql, task, new Date(sweptAt.getTime() + MAX_COUNTED_MS));
  }

  /** What failed. A failure for one job must not keep the others. */
  async function endLost(): Promise<unknown[]> {
    const failures: unknown[] = [];
    const each = (work: Promise<unknown>) => work.catch((err) => void failures.push(err));
    await each(ageBackgroundJobs(sql, task));
    for (const job of await sweep()) {
      log.warn('a job was lost', { job_id: job.id, type: job.type, requeued: job.completed_at === null });
      await each(
        job.completed_at ? sql.begin((tx) => announce(services, tx, job)) : announcePending(services, sql, job),
      );
    }
    for (const id of await overdueCancels(sql, config.provisionerForceCancelInterval)) {
      log.warn('a canceled job did not end in time and is canceled by force', { job_id: id });
      const canceled = requestCancel(services, { task, job_id: id }, { force: true }).catch((err) => {
        // it has ended meanwhile
        if (!(err instanceof AppError)) throw err;
      });
      await each(canceled);
    }
    return failures;
  }

  return {
    name,
    periodMs: PERIOD_MS,
    needsLock: false,
    async run() {
      try {
        if (leasesStopped) await restartLeases(sql, task, config.provisionerLease);
        leasesStopped = false;
        const [failure] = await endLost();
        if (failure) throw failure;
        return undefined;
      } catch (err) {
        if (isUnreachable(err)) leasesStopped = true;
        throw err;
      }
    },
  };
}
