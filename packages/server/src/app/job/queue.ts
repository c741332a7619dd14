import { errorText } from '@platform/kit';
import { acquireJob, type JobRow, releaseJob } from '../../db/queries/jobs.ts';
import type { Services } from '../context.ts';
import { matches, type Tags } from './tags.ts';

/** Covers a lost notification. */
const LOOK_AGAIN_MS = 1_000;

export interface Worker {
  id: string;
  organizationId: string;
  provisioners: string[];
  tags: Tags;
}

interface Waiter extends Worker {
  /** False: it has left meanwhile, and the job is nobody's. */
  take(job: JobRow): boolean;
}

/**
 * Hands pending jobs to waiting daemons: a daemon waits, it never polls. One look at the database at a time for each
 * set of like daemons; the row is taken by one statement, so several servers do not get in each other's way.
 */
export interface JobQueue {
  /** The next job for this worker. Rejects with the signal's reason when it aborts first. */
  next(worker: Worker, signal: AbortSignal): Promise<JobRow>;
  /** How many workers that match wait right now. */
  waiting(organizationId: string, tags: Tags): number;
  close(): void;
}

export function createJobQueue(services: Services): JobQueue {
  const { sql, events, config, log } = services;
  /** By domain: workers that are alike take alike jobs. */
  const domains = new Map<string, Set<Waiter>>();
  const looking = new Set<string>();
  const lookAgain = new Set<string>();

  const domainOf = (worker: Worker) =>
    JSON.stringify([worker.organizationId, [...worker.provisioners].sort(), Object.entries(worker.tags).sort()]);

  async function look(domain: string): Promise<void> {
    if (looking.has(domain)) {
      lookAgain.add(domain);
      return;
    }
    looking.add(domain);
    try {
      do {
        lookAgain.delete(domain);
        for (;;) {
          const waiters = domains.get(domain);
          const waiter = waiters?.values().next().value;
          if (!waiters || !waiter) break;
          waiters.delete(waiter);
          if (waiters.size === 0) domains.delete(domain);
          const back = () => {
            const set = domains.get(domain) ?? new Set();
            domains.set(domain, set);
            set.add(waiter);
          };
          let job: JobRow | undefined;
          try {
            job = await acquireJob(sql, {
              workerId: waiter.id,
              organizationId: waiter.organizationId,
              provisioners: waiter.provisioners,
              tags: waiter.tags,
              leaseMs: config.provisionerLease,
            });
          } catch (err) {
            if (!gone.has(waiter)) back();
            throw err;
          }
          if (!job) {
            if (!gone.has(waiter)) back();
            break;
          }
          void events.publish(sql, 'job_changed', { job_id: job.id }).catch(() => {});
          if (!waiter.take(job)) await putBack(job, waiter.id);
        }
      } while (lookAgain.has(domain));
    } catch (err) {
      log.warn('could not look for jobs', { err: errorText(err) });
    } finally {
      looking.delete(domain);
    }
  }

  async function putBack(job: JobRow, workerId: string): Promise<void> {
    const released = await releaseJob(sql, { jobId: job.id, workerId, epoch: job.acquire_epoch });
    if (!released) return;
    await events.publish(sql, 'job_posted', { job_id: job.id, organization_id: job.organization_id, tags: job.tags });
  }

  /** Waiters that left while their acquire was under way. */
  const gone = new WeakSet<Waiter>();
  const lookAll = () => {
    for (const domain of domains.keys()) void look(domain);
  };
  const timer = setInterval(lookAll, LOOK_AGAIN_MS);
  timer.unref();
  const off = [
    events.on('job_posted', ({ organization_id, tags }) => {
      for (const [domain, waiters] of domains) {
        const like = waiters.values().next().value;
        if (like && like.organizationId === organization_id && matches(tags, like.tags)) void look(domain);
      }
    }),
    events.onResync(lookAll),
  ];

  return {
    next(worker, signal) {
      return new Promise<JobRow>((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason as Error);
        const domain = domainOf(worker);
        const waiter: Waiter = {
          ...worker,
          take: (job) => {
            if (settled) return false;
            settled = true;
            signal.removeEventListener('abort', leave);
            resolve(job);
            return true;
          },
        };
        let settled = false;
        const leave = () => {
          gone.add(waiter);
          const set = domains.get(domain);
          // an acquire for this very waiter may be under way: what it brings is put back
          if (set?.delete(waiter) && set.size === 0) domains.delete(domain);
          settled = true;
          reject(signal.reason as Error);
        };
        signal.addEventListener('abort', leave, { once: true });
        const set = domains.get(domain) ?? new Set();
        domains.set(domain, set);
        set.add(waiter);
        void look(domain);
      });
    },
    waiting(organizationId, tags) {
      let count = 0;
      for (const set of domains.values()) {
        const like = set.values().next().value;
        if (like && like.organizationId === organizationId && matches(tags, like.tags)) count += set.size;
      }
      return count;
    },
    close() {
      clearInterval(timer);
      for (const stop of off) stop();
    },
  };
}
