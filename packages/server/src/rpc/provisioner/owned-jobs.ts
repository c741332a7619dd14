import { AppError, errorText } from '@ropewalk/kit';
import { NotOwned, notOwned } from '../../app/job/complete.ts';
import { createLogKeeper, type LogKeeper } from '../../app/job/log-keeper.ts';
import { putBackJob } from '../../app/job/post.ts';
import type { Ownership } from '../../db/owned.ts';
import { insertJobLogs } from '../../db/queries/job-logs.ts';
import { jobsOfWorker, ownershipOf, UNCONFIRMED_MS, unconfirmedJobs } from '../../db/queries/job-ownership.ts';
import { jobById } from '../../db/queries/jobs.ts';
import type { JobRow } from '../../db/rows.ts';
import { whenReachable } from '../../db/when-reachable.ts';
import type { DaemonParts } from './daemon-parts.ts';

/** The key of the call's metadata in which our daemons send the epoch of the job. */
const EPOCH_KEY = 'platform-job-epoch';

export interface OwnedJob {
  own: Ownership;
  logs: LogKeeper;
  /** Whether the daemon has sent anything about this job. It has received the job, then, and may have begun it. */
  confirmed: boolean;
  /** When the daemon took the job, by performance.now(). */
  since: number;
}

/**
 * The jobs of one connection: those acquired or resumed on it, and those that an upstream daemon names after it came
 * back. docs/decisions/0003-job-ownership.md has the rules.
 */
export class OwnedJobs {
  readonly #parts: DaemonParts;
  readonly #jobs = new Map<string, OwnedJob>();

  constructor(parts: DaemonParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#jobs.size;
  }

  ids(): string[] {
    return [...this.#jobs.keys()];
  }

  has(jobId: string): boolean {
    return this.#jobs.has(jobId);
  }

  ownerships(): Ownership[] {
    return [...this.#jobs.values()].map(({ own }) => own);
  }

  ownership(jobId: string, epoch: number): Ownership {
    return ownershipOf(this.#parts.worker, jobId, epoch);
  }

  /** Adds a job that the daemon has acquired and not confirmed yet. */
  add(own: Ownership, { log_positions }: Pick<JobRow, 'log_positions'>): void {
    this.#jobs.set(own.jobId, {
      own,
      logs: createLogKeeper(log_positions),
      confirmed: false,
      since: performance.now(),
    });
  }

  /** Adds a job that the daemon goes on with after a new connection. */
  resume(own: Ownership): void {
    const logs = this.#jobs.get(own.jobId)?.logs ?? createLogKeeper();
    this.#jobs.set(own.jobId, { own, logs, confirmed: true, since: performance.now() });
  }

  remove(jobId: string): void {
    this.#jobs.delete(jobId);
  }

  /**
   * The job that a call is about. Our daemons send the epoch with each call. For an upstream daemon this connection
   * keeps it.
   * @throws AppError if the job does not exist or belongs to another worker
   */
  async confirm(jobId: string, metadata: Readonly<Record<string, string>>): Promise<OwnedJob> {
    const { services, daemon } = this.#parts;
    const named = metadata[EPOCH_KEY];
    const known = this.#jobs.get(jobId);
    if (known && (named === undefined || Number(named) === known.own.epoch)) {
      known.confirmed = true;
      return known;
    }
    if (named !== undefined) {
      const own = this.ownership(jobId, Number(named));
      return { own, logs: known?.logs ?? createLogKeeper(), confirmed: true, since: performance.now() };
    }
    const job = await jobById(services.sql, jobId);
    if (!job) throw new NotOwned('not_found', 'job not found');
    const own = this.ownership(jobId, job.acquire_epoch);
    if (job.worker_id !== daemon.id) throw await notOwned(services.sql, own);
    const taken = { own, logs: createLogKeeper(), confirmed: true, since: performance.now() };
    if (!job.completed_at) this.#jobs.set(jobId, taken);
    return taken;
  }

  /**
   * Checks that the daemon has confirmed every job that it still owns. A daemon works on one job at a time.
   * @throws AppError `conflict` otherwise
   */
  async checkConfirmed(): Promise<void> {
    const { services, worker } = this.#parts;
    const unconfirmed = () => [...this.#jobs.values()].filter(({ confirmed }) => !confirmed);
    const asked = unconfirmed();
    if (asked.length === 0) return;
    const jobIds = asked.map(({ own }) => own.jobId);
    const left = await jobsOfWorker(services.sql, worker, jobIds);
    for (const { own } of asked) {
      const isLeft = left.some(({ id, epoch, mine }) => mine && id === own.jobId && epoch === own.epoch);
      if (!isLeft) this.#jobs.delete(own.jobId);
    }
    const [job] = unconfirmed();
    if (job) {
      const text = `This connection has acquired job ${job.own.jobId} and has not reported on it yet. Report on it before you acquire another.`;
      throw new AppError('conflict', text);
    }
  }

  /** Puts a job back into the queue that never reached the daemon: nothing was begun, so another may take it immediately. */
  async putBack(own: Ownership): Promise<void> {
    const { services, log } = this.#parts;
    this.#jobs.delete(own.jobId);
    const job = await whenReachable(() => putBackJob(services, own));
    if (job) log.info('a job goes back to the queue: it did not reach its daemon', { job_id: job.id });
  }

  /** Puts a job back unless the daemon has confirmed it. Does not wait. */
  putBackUnlessConfirmed(own: Ownership): void {
    if (!this.#jobs.get(own.jobId)?.confirmed) this.#putBackLater(own);
  }

  /**
   * Puts back the jobs that this daemon of ours took on other connections and never reported on: a server ended before it
   * handed them over. The daemon asks for a job, so it has none. If such a job reaches it later, its report is refused.
   */
  async putBackUnreceived(): Promise<void> {
    const { services, worker } = this.#parts;
    for (const { id, epoch } of await unconfirmedJobs(services.sql, worker, this.ids()))
      await this.putBack(this.ownership(id, epoch));
  }

  /** Puts back the jobs that a daemon of ours has not confirmed for too long. */
  async putBackDropped(): Promise<void> {
    for (const { own, confirmed, since } of this.#jobs.values()) {
      if (this.#parts.ours && !confirmed && performance.now() - since > UNCONFIRMED_MS) await this.putBack(own);
    }
  }

  /** Stores what the job's log still keeps in memory, ends the job, and removes it. */
  async finish({ own, logs }: OwnedJob, end: () => Promise<void>): Promise<void> {
    await logs.storeRest((lines, job) => insertJobLogs(this.#parts.services.sql, job, lines));
    await end();
    this.#jobs.delete(own.jobId);
  }

  /** The connection has ended. The daemon does not send lines again that the server has received, so they are stored. */
  close(): void {
    const { services, log, ours } = this.#parts;
    for (const { own, confirmed, logs } of this.#jobs.values()) {
      void logs
        .storeRest((lines, job) => insertJobLogs(services.sql, job, lines))
        .catch((err) => log.warn('lost lines of a job log', { job_id: own.jobId, err: errorText(err) }));
      // our daemons begin a job only after the server has answered their first report
      if (ours && !confirmed) this.#putBackLater(own);
    }
  }

  #putBackLater(own: Ownership): void {
    const { log } = this.#parts;
    void this.putBack(own).catch((err) => log.warn('could not put a job back', { err: errorText(err) }));
  }
}
