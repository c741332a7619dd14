import { randomUUID } from 'node:crypto';
import { errorText } from '@ropewalk/kit';
import type { VerifiedDaemon } from '../../authz/proofs.ts';
import { isUnreachable } from '../../db/connect.ts';
import type { EventMap } from '../../db/events.ts';
import type { Owned } from '../../db/owned.ts';
import { ownershipOf } from '../../db/queries/job-ownership.ts';
import { acquireJob, jobOfClaim, type Worker } from '../../db/queries/job-queue.ts';
import type { JobRow } from '../../db/rows.ts';
import { whenReachable } from '../../db/when-reachable.ts';
import type { Services } from '../context/context.ts';
import { rangeHas } from './engines.ts';
import { putBackJob } from './post.ts';
import { canTake, matches, runnableTagSets, type Tags, USUAL_TYPE } from './tags.ts';

/** How often waiting daemons look for jobs without a notification, in ms. Covers a lost notification. */
const LOOK_AGAIN_MS = 1_000;

interface Waiter {
  worker: VerifiedDaemon<Worker>;
  /** Returns false when the waiter has left: the job must be put back. */
  take(job: Owned<JobRow>): boolean;
  gone: boolean;
}

/** The waiters with the same organization, types, tags and engines. One query at a time serves them all. */
interface Domain {
  key: string;
  organizationId: string;
  provisioners: readonly string[];
  tags: Tags;
  tagSets: Tags[] | undefined;
  engineVersions: readonly number[];
  waiters: Set<Waiter>;
  looking: Promise<void> | undefined;
  /** For how many jobs to look: one for each that was posted and each daemon that came. */
  wanted: number;
}

/** More jobs than any domain has daemons. */
const ALL = 1_000_000_000;

/**
 * Hands pending jobs to waiting daemons, which never poll. A posted job wakes one matching domain, not all. One
 * statement takes the row, so that several servers do not conflict.
 */
export interface JobQueue {
  /** Returns the next job for this daemon. Rejects with the signal's reason when it aborts first. */
  next(worker: VerifiedDaemon<Worker>, signal: AbortSignal): Promise<Owned<JobRow>>;
  /** The number of matching daemons that wait now, without those that the queue is querying for at this moment. */
  waiting(organizationId: string, tags: Tags): number;
  close(): void;
}

export function createJobQueue(services: Services, { lookAgainMs = LOOK_AGAIN_MS } = {}): JobQueue {
  return new DomainQueue(services, lookAgainMs);
}

class DomainQueue implements JobQueue {
  readonly #services: Services;
  readonly #domains = new Map<string, Domain>();
  readonly #closed = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #off: (() => void)[];
  #lookingAll = false;

  constructor(services: Services, lookAgainMs: number) {
    const { events } = services;
    this.#services = services;
    this.#timer = setInterval(() => void this.#lookAll(), lookAgainMs);
    this.#timer.unref();
    this.#off = [events.on('job_posted', (job) => this.#wake(job)), events.onResync(() => void this.#lookAll())];
  }

  next(worker: VerifiedDaemon<Worker>, signal: AbortSignal): Promise<Owned<JobRow>> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      const domain = this.#domainOf(worker);
      const waiter: Waiter = {
        worker,
        gone: false,
        take(job) {
          if (waiter.gone) return false;
          waiter.gone = true;
          signal.removeEventListener('abort', leave);
          resolve(job);
          return true;
        },
      };
      const leave = () => {
        // a query for this waiter may be running: its job is put back
        waiter.gone = true;
        domain.waiters.delete(waiter);
        this.#forgetIfIdle(domain);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', leave, { once: true });
      domain.waiters.add(waiter);
      void this.#look(domain, 1);
    });
  }

  waiting(organizationId: string, tags: Tags): number {
    let count = 0;
    for (const domain of this.#domains.values()) {
      if (domain.organizationId === organizationId && matches(tags, domain.tags)) count += domain.waiters.size;
    }
    return count;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#closed.abort(new Error('The job queue is closed.'));
    for (const stop of this.#off) stop();
  }

  #domainOf(worker: Worker): Domain {
    const { organizationId, tags, engineVersions = [] } = worker;
    const kind = [[...worker.provisioners].sort(), Object.entries(tags).sort(), engineVersions];
    const key = JSON.stringify([organizationId, ...kind]);
    let domain = this.#domains.get(key);
    if (!domain) {
      const tagSets = runnableTagSets(tags);
      domain = {
        key,
        organizationId,
        provisioners: worker.provisioners,
        tags,
        tagSets,
        engineVersions,
        waiters: new Set(),
        looking: undefined,
        wanted: 0,
      };
      this.#domains.set(key, domain);
    }
    return domain;
  }

  #forgetIfIdle(domain: Domain): void {
    if (domain.waiters.size === 0 && !domain.looking) this.#domains.delete(domain.key);
  }

  /** Wakes the matching domain with the fewest tags, so that daemons with rarer tags stay free. */
  #wake(job: EventMap['job_posted']): void {
    const { organization_id: organizationId, tags, provisioner = USUAL_TYPE, terraform_range } = job;
    let best: Domain | undefined;
    for (const domain of this.#domains.values()) {
      // A query that runs right now may have missed the job. The domain queries again, and only that result counts.
      if (domain.organizationId !== organizationId || (domain.waiters.size === 0 && !domain.looking)) continue;
      if (!canTake({ provisioner, tags }, domain) || !rangeHas(terraform_range, domain.engineVersions)) continue;
      if (domain.waiters.size === 0) domain.wanted += 1;
      else if (!best || Object.keys(domain.tags).length < Object.keys(best.tags).length) best = domain;
    }
    if (best) void this.#look(best, 1);
  }

  /** Serves one domain after the other, so that these precautionary queries do not delay urgent ones. */
  async #lookAll(): Promise<void> {
    if (this.#lookingAll) return;
    this.#lookingAll = true;
    for (const domain of [...this.#domains.values()]) if (domain.waiters.size > 0) await this.#look(domain, ALL);
    this.#lookingAll = false;
  }

  #look(domain: Domain, jobs: number): Promise<void> {
    domain.wanted += jobs;
    domain.looking ??= this.#lookForWanted(domain)
      .catch((err) => {
        domain.wanted = 0;
        this.#services.log.warn('could not query pending jobs', { err: errorText(err) });
      })
      .finally(() => {
        domain.looking = undefined;
        if (domain.wanted > 0 && domain.waiters.size > 0) void this.#look(domain, 0);
        else this.#forgetIfIdle(domain);
      });
    return domain.looking;
  }

  /** A query that finds nothing takes as long as one that does, so there is none to see whether more jobs are there. */
  async #lookForWanted(domain: Domain): Promise<void> {
    while (domain.wanted > 0) {
      const waiter = domain.waiters.values().next().value;
      if (!waiter) {
        domain.wanted = 0;
        return;
      }
      const { wanted } = domain;
      domain.waiters.delete(waiter);
      let job: Owned<JobRow> | undefined;
      try {
        job = await this.#take(domain, waiter.worker);
      } finally {
        if (!job && !waiter.gone) domain.waiters.add(waiter);
      }
      // what was wanted during the query may have come too late for it
      domain.wanted -= job ? 1 : wanted;
      if (job) await this.#give(job, waiter);
    }
  }

  /** Takes a job. If the database goes away meanwhile, nobody else may know that the job was taken. */
  async #take(domain: Domain, worker: VerifiedDaemon<Worker>): Promise<Owned<JobRow> | undefined> {
    const { sql, config } = this.#services;
    const claim = randomUUID();
    try {
      return await acquireJob(sql, { worker, tagSets: domain.tagSets, leaseMs: config.provisionerLease, claim });
    } catch (err) {
      if (!isUnreachable(err)) throw err;
      const taken = await whenReachable(() => jobOfClaim(sql, worker, claim), { signal: this.#closed.signal });
      return taken ?? this.#take(domain, worker);
    }
  }

  /** Gives a job to a waiter, or puts it back if the waiter has left. */
  async #give(job: Owned<JobRow>, waiter: Waiter): Promise<void> {
    const { sql, events } = this.#services;
    void events.publish(sql, 'job_changed', { job_id: job.id }).catch(() => {});
    if (waiter.take(job)) return;
    const own = ownershipOf(waiter.worker, job.id, job.acquire_epoch);
    await whenReachable(() => putBackJob(this.#services, own), { signal: this.#closed.signal });
  }
}
