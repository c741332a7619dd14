import { JobNotice_Kind } from '@ropewalk/wire/proto/platform_provisioner';
import { createWakeUp } from '../../app/follow/wake-up.ts';
import { isTransient } from '../../db/connect.ts';
import { jobsOfWorker } from '../../db/queries/job-ownership.ts';
import type { DaemonParts } from './daemon-parts.ts';
import type { OwnedJobs } from './owned-jobs.ts';

/** The longest delay of a notice whose event was lost. */
const LOOK_AGAIN_MS = 1_000;

/** The call with which our daemons learn that a job of theirs was canceled or taken away, until the connection ends. */
export function noticeCalls({ services, worker, ended }: DaemonParts, jobs: OwnedJobs) {
  /** Jobs whose cancellation the daemon knows of. */
  const canceled = new Set<string>();

  async function* watch(_request: unknown, call: { signal: AbortSignal }) {
    const notices: { jobId: string; kind: JobNotice_Kind }[] = [];
    const { wake, wait } = createWakeUp();
    const push = (jobId: string, kind: JobNotice_Kind) => {
      notices.push({ jobId, kind });
      wake();
    };
    const off = services.events.on('job_canceled', ({ job_id, force }) => {
      if (jobs.has(job_id)) push(job_id, force ? JobNotice_Kind.FORCE_CANCEL : JobNotice_Kind.CANCEL);
    });
    const over = AbortSignal.any([call.signal, ended]);
    over.addEventListener('abort', wake, { once: true });
    try {
      while (!over.aborted) {
        for (let notice = notices.shift(); notice; notice = notices.shift()) yield notice;
        if (over.aborted) break;
        await wait(LOOK_AGAIN_MS);
        if (jobs.size === 0) continue;
        const rows = await jobsOfWorker(services.sql, worker, jobs.ids()).catch((err) => {
          if (isTransient(err)) return []; // the next look finds it
          throw err;
        });
        for (const row of rows) {
          if (!row.mine) push(row.id, JobNotice_Kind.LOST);
          else if (row.canceled && !canceled.has(row.id)) push(row.id, JobNotice_Kind.CANCEL);
          if (row.canceled) canceled.add(row.id);
          if (!row.mine) jobs.remove(row.id);
        }
      }
    } finally {
      off();
    }
  }
  return { watch };
}
