import { AppError } from '@ropewalk/kit';
import { systemContext } from '../../app/context/context.ts';
import { requestCancel } from '../../app/job/cancel.ts';
import { systemTask } from '../../authz/proofs.ts';
import { noteInJobLog } from '../../db/queries/job-logs.ts';
import type { DaemonParts } from './daemon-parts.ts';
import type { OwnedJobs } from './owned-jobs.ts';

/** After a revocation a running job has this long to end and deliver its state. Terraform itself has three minutes. */
const LAST_STATE_MS = 4 * 60_000;

/** What happens to a connection whose credential is revoked. */
export interface Revocation {
  /** Aborted at the revocation. The daemon acquires no job from then on. */
  signal: AbortSignal;
  /** Cancels the daemon's jobs, and cuts the connection once their final states have arrived or after a while. */
  revoke(): Promise<void>;
  /** A job of the daemon has ended. After a revocation the last one cuts the connection. */
  jobEnded(): void;
  close(): void;
}

export function createRevocation(parts: DaemonParts, jobs: OwnedJobs, cut: () => void): Revocation {
  const { services, daemon, log } = parts;
  const revoked = new AbortController();
  let limit: NodeJS.Timeout | undefined;
  return {
    signal: revoked.signal,
    async revoke() {
      if (revoked.signal.aborted) return;
      revoked.abort(new AppError('forbidden', 'The credential of this daemon was revoked.'));
      log.warn('the credential of a daemon was revoked', { jobs_to_cancel: jobs.size });
      if (jobs.size === 0) return cut();
      const output = `The credential of the provisioner daemon ${daemon.name} was revoked: the job is canceled.`;
      const task = systemTask(systemContext(services, 'revocation'));
      for (const id of jobs.ids()) await noteInJobLog(services.sql, { task, id }, 'error', output).catch(() => {});
      const cancel = async (force: boolean) => {
        for (const jobId of jobs.ids())
          await requestCancel(services, { task, job_id: jobId }, { force }).catch(() => {});
      };
      limit = setTimeout(() => void cancel(true).finally(cut), LAST_STATE_MS).unref();
      await cancel(false);
    },
    jobEnded() {
      // the answer to the last call goes out first
      if (revoked.signal.aborted && jobs.size === 0) setImmediate(cut);
    },
    close: () => clearTimeout(limit),
  };
}
