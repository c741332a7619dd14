import { AppError, errorText } from '@platform/kit';
import { type Services, systemContext } from '../app/context.ts';
import { requestCancel } from '../app/job/cancel.ts';
import { announce } from '../app/job/complete.ts';
import { announcePending } from '../app/job/post.ts';
import { systemTask } from '../authz/proofs.ts';
import { restartLeases, sweepLostJobs } from '../db/queries/job-ownership.ts';
import { ageBackgroundJobs } from '../db/queries/job-queue.ts';
import { overdueCancels } from '../db/queries/jobs.ts';

const EVERY_MS = 5_000;

/**
 * Ends or requeues jobs whose lease ran out, and ends by force what was canceled and does not end. The clock of leases stands still while the server or its database is away:
 * both at start and after a failed look every running job gets a fresh lease.
 */
export async function startLostJobsSweep(services: Services): Promise<{ close(): void; sweep(): Promise<void> }> {
  const { sql, config, log } = services;
  const task = systemTask(systemContext(services, 'lost jobs'));
  await restartLeases(sql, task, config.provisionerLease);
  let away = false;
  let running: Promise<void> | undefined;
  const run = async () => {
    try {
      if (away) await restartLeases(sql, task, config.provisionerLease);
      away = false;
      await ageBackgroundJobs(sql, task);
      for (const job of await sweepLostJobs(sql, task)) {
        log.warn('a job was lost', { job_id: job.id, type: job.type, requeued: job.completed_at === null });
        if (job.completed_at) await sql.begin((tx) => announce(services, tx, job));
        else await announcePending(services, sql, job);
      }
      for (const id of await overdueCancels(sql, config.provisionerForceCancelInterval)) {
        log.warn('a canceled job did not end in time: it is canceled by force', { job_id: id });
        await requestCancel(services, { task, job_id: id }, { force: true }).catch((err) => {
          // it has ended meanwhile
          if (!(err instanceof AppError)) throw err;
        });
      }
    } catch (err) {
      away = true;
      log.warn('could not look for lost jobs', { err: errorText(err) });
    }
  };
  const sweep = () => {
    running ??= run().finally(() => {
      running = undefined;
    });
    return running;
  };
  const timer = setInterval(() => void sweep(), EVERY_MS);
  timer.unref();
  return { close: () => clearInterval(timer), sweep };
}
