import { create } from '@bufbuild/protobuf';
import type { Clock, Logger } from '@platform/kit';
import { DrpcError } from '@platform/wire';
import { type AcquiredJob, FailedJobSchema } from '@platform/wire/proto/provisionerd';
import type { Tools } from '../job/context.ts';
import type { Session } from '../job/journal.ts';
import type { Verdict } from '../job/port.ts';
import { runJob } from '../job/run-job.ts';
import { JobLink, LostJobError } from './job-link.ts';
import { killRuns } from './kill.ts';
import type { Connection, ServerLink } from './link.ts';
import type { DaemonMetrics, JobKind } from './metrics.ts';

export interface WorkOptions {
  tools: Tools;
  link: ServerLink;
  session: Session;
  /** The connection that brought the job; absent when it is adopted. */
  acquiredOn?: Connection | undefined;
  metrics?: DaemonMetrics | undefined;
  log: Logger;
  clock: Clock;
}

const KINDS = {
  templateImport: 'template_import',
  templateDryRun: 'template_dry_run',
  workspaceBuild: 'workspace_build',
} as const satisfies Record<string, JobKind>;

/** One job of a daemon from its acquisition or adoption until the server has its verdict. */
export class ActiveJob {
  readonly jobLink: JobLink;
  readonly done: Promise<void>;
  readonly #options: WorkOptions;
  #judged = false;

  constructor(options: WorkOptions) {
    this.#options = options;
    const { link, session, acquiredOn, log, clock } = options;
    const { jobId, epoch } = session.entry;
    this.jobLink = new JobLink({ link, jobId, epoch: BigInt(epoch), acquiredOn, log, clock });
    this.done = this.#work();
  }

  get jobId(): string {
    return this.#options.session.entry.jobId;
  }

  /** Ends its processes at once. */
  async kill(): Promise<void> {
    await killRuns(this.#options.session);
  }

  async #work(): Promise<void> {
    const { session, log, clock, metrics } = this.#options;
    this.jobLink.heartbeat();
    const since = clock.monotonic();
    let kind: JobKind | undefined;
    let status: 'completed' | 'failed' = 'failed';
    try {
      const job = await session.job();
      kind = job.type.case && KINDS[job.type.case];
      if (kind) metrics?.jobStarted(kind);
      if ((await this.#judge(job)) === 'complete') status = 'completed';
      await session.remove();
      log.info('job done', { job: this.jobId });
    } catch (err) {
      if (err instanceof LostJobError) await this.#giveUp(err);
      else throw err;
    } finally {
      this.jobLink.stop();
      if (kind) metrics?.jobEnded(kind, status, (clock.monotonic() - since) / 1_000);
    }
  }

  async #judge(job: AcquiredJob): Promise<Verdict['kind']> {
    const { session, tools, acquiredOn } = this.#options;
    const { jobLink } = this;
    // begun by a daemon that died, with nothing changed yet: it is done again, and its old runs are in the way
    if (session.entry.phase === 'start' && !acquiredOn) await killRuns(session);
    if (session.entry.phase !== 'verdict') {
      const signal = AbortSignal.any([jobLink.canceled, jobLink.lost]);
      const verdict = await runJob({ ...tools, job, session, port: jobLink, signal });
      await session.keepVerdict(verdict);
    }
    this.#judged = true;
    const verdict = await session.verdict();
    try {
      await jobLink.deliver(verdict);
      return verdict.kind;
    } catch (err) {
      if (!(err instanceof DrpcError)) throw err;
      if (verdict.kind === 'fail') throw new LostJobError(err.message);
      // The server could not take it; it may still take that it could not.
      const error = `internal provisionerserver error: ${err.message}`;
      const done = verdict.job.type;
      const failed = create(FailedJobSchema, {
        jobId: this.jobId,
        error,
        // what was built must stay known
        ...(done.case === 'workspaceBuild'
          ? { type: { case: 'workspaceBuild' as const, value: { state: done.value.state } } }
          : {}),
      });
      await jobLink.deliver({ kind: 'fail', job: failed }).catch(() => {
        throw new LostJobError(err.message);
      });
      return 'fail';
    }
  }

  /** What the server says of this job; once the verdict is on its way, only the answer to that counts. */
  lose(reason: string): void {
    if (!this.#judged) this.jobLink.lose(reason);
  }

  /** The verdict does not count any more; what was built may still have to be known. */
  async #giveUp(reason: LostJobError): Promise<void> {
    const { session, log } = this.#options;
    log.warn('a job was taken from this daemon', { job: this.jobId, reason: reason.message });
    const state = await session.state();
    if (session.entry.phase !== 'start' && state.length > 0) {
      const outcome = await this.jobLink.deliverState(state, reason.message);
      log.info('delivered the state of a lost job', { job: this.jobId, outcome });
    }
    await session.remove();
  }
}
