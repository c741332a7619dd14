import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { announce } from '../app/job/complete.ts';
import { pendingReasons } from '../app/job/waiting.ts';
import { systemTask } from '../authz/proofs.ts';
import { failPendingJob, longPending } from '../db/queries/job-queue.ts';

const PERIOD_MS = 60_000;
const AT_ONCE = 200;

/**
 * Ends jobs that waited for the limit and that no daemon there could take, with the reason. Those whose daemons are only
 * busy go on waiting. Gives back how many it ended.
 */
export async function endUnclaimedJobs(services: Services): Promise<number> {
  const { sql, config, log } = services;
  const limitMs = config.provisionerPendingLimit;
  if (limitMs <= 0) return 0;
  const task = systemTask(systemContext(services, 'unclaimed jobs'));
  const jobs = await longPending(sql, limitMs, AT_ONCE);
  const reasons = await pendingReasons(services, sql, jobs);
  let ended = 0;
  for (const job of jobs) {
    const found = reasons.get(job.id);
    if (found?.reason !== 'no_matching_provisioners' && found?.reason !== 'provisioners_offline') continue;
    const error = `The job waited for a provisioner daemon for ${Math.round(limitMs / 60_000)} minutes. ${found.message}`;
    await sql.begin(async (tx) => {
      const failed = await failPendingJob(tx, task, job.id, error);
      if (!failed) return;
      await announce(services, tx, failed);
      ended++;
      log.warn('a job that nobody could take was ended', { job_id: job.id, reason: found.reason });
    });
  }
  return ended;
}

/** Runs `endUnclaimedJobs`, for the first time when daemons have had time to come back after a start of the server. */
export function unclaimedJobsTask(services: Services): BackgroundTask {
  return {
    name: 'unclaimed jobs',
    periodMs: PERIOD_MS,
    delayMs: PERIOD_MS,
    needsLock: true,
    async run() {
      await endUnclaimedJobs(services);
      return undefined;
    },
  };
}
