import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Clock, errorText, type Logger } from '@ropewalk/kit';
import { isAlive } from '@ropewalk/kit/process-ref';
import { DrpcError } from '@ropewalk/wire';
import { JOB_ERRORS } from '@ropewalk/wire/job-errors';
import type { AcquiredJob, FailedJob } from '@ropewalk/wire/proto/provisionerd';
import type { DaemonContext } from '../job/context.ts';
import type { Ending, Verdict } from '../job/job-port.ts';
import { failure, runJob } from '../job/run-job.ts';
import type { Session } from '../job/session.ts';
import { engineFor } from '../terraform/engine.ts';
import { readStarted } from '../terraform/run.ts';
import { type Send, sender } from '../terraform/signal.ts';
import { wholeState } from '../terraform/state-file.ts';
import { JobLink, LostJobError } from './job-link.ts';
import type { Connection, ServerLink } from './link.ts';
import type { DaemonMetrics, JobKind } from './metrics.ts';

interface ActiveJobOptions {
  ctx: DaemonContext;
  link: ServerLink;
  session: Session;
  /** The connection that delivered the job. Absent for an adopted job. */
  acquiredOn?: Connection | undefined;
  metrics?: DaemonMetrics | undefined;
  log: Logger;
  clock: Clock;
}

/**
 * How long the server may take to receive how a job ended before that is stored in the session's folder, in ms, and before the
 * disk must keep it. A server that answers soon costs a build neither.
 */
const KEEP_AFTER_MS = 100;
const SYNC_AFTER_MS = 1_000;
/** What a person reads about a job whose files a loss of power damaged. */
const DAMAGED = 'The files of this job on the machine of the provisioner daemon are damaged, as after a loss of power.';
/** The maximum number of deaths of daemons before a job changes anything. After that the job fails, because it may be the cause. */
const MAX_DEATHS = 3;
/** How long to wait for killed processes to end. */
const GONE_MS = 5_000;

const KINDS = {
  templateImport: 'template_import',
  templateDryRun: 'template_dry_run',
  workspaceBuild: 'workspace_build',
} as const satisfies Record<string, JobKind>;

/** One job of a daemon, from its acquisition or adoption until the server has its verdict. */
export class ActiveJob {
  readonly jobLink: JobLink;
  readonly done: Promise<void>;
  readonly #options: ActiveJobOptions;
  #judged = false;
  #job: AcquiredJob | undefined;

  constructor(options: ActiveJobOptions) {
    this.#options = options;
    const { link, session, acquiredOn, log, clock } = options;
    const { jobId, epoch } = session.entry;
    const { launcher } = options.ctx;
    session.clear = launcher && ((uid, dirs) => launcher.clear(uid, dirs));
    session.socketsDir = launcher?.socketsDir;
    session.release = launcher && (() => launcher.release(session.dir));
    this.jobLink = new JobLink({ link, jobId, epoch: BigInt(epoch), acquiredOn, log, clock });
    this.done = this.#work();
  }

  get jobId(): string {
    return this.#options.session.entry.jobId;
  }

  /** Kills the job's processes. */
  async kill(): Promise<void> {
    const { session, ctx } = this.#options;
    await killRuns(session, sender(ctx.launcher));
  }

  async #work(): Promise<void> {
    const { session, log, clock, metrics } = this.#options;
    this.jobLink.heartbeat();
    const since = clock.monotonic();
    let kind: JobKind | undefined;
    let status: 'completed' | 'failed' = 'failed';
    try {
      const job = await session.job();
      this.#job = job;
      if (session.damaged) {
        await this.kill();
        throw new LostJobError('its journal is damaged');
      }
      kind = job?.type.case && KINDS[job.type.case];
      if (kind) metrics?.jobStarted(kind);
      if ((await this.#judge(job)) === 'complete') status = 'completed';
      await this.#leave();
      log.info('job done', { job: this.jobId });
    } catch (err) {
      if (err instanceof LostJobError) await this.#giveUp(err);
      else throw err;
    } finally {
      this.jobLink.stop();
      if (kind) metrics?.jobEnded(kind, status, (clock.monotonic() - since) / 1_000);
    }
  }

  async #judge(job: AcquiredJob | undefined): Promise<Verdict['kind']> {
    const { session } = this.#options;
    const { jobLink } = this;
    const stored = session.entry.phase === 'verdict' ? await session.ending() : undefined;
    const ending = stored ?? (await (job ? this.#reach(job) : this.#failDamaged()));
    const { verdict, rest } = ending;
    this.#judged = true;
    // a daemon that dies before that leaves a job that the next one finishes again, with the same result
    const late = [setTimeout(() => this.#keep(ending), KEEP_AFTER_MS), setTimeout(() => this.#sync(), SYNC_AFTER_MS)];
    try {
      await jobLink.deliver(ending);
      return verdict.kind;
    } catch (err) {
      if (!(err instanceof DrpcError)) throw err;
      // The server rejected the verdict, but may accept a failure that says so.
      const error =
        verdict.kind === 'fail'
          ? `The job failed, and the server could not store the reason: ${err.message}`
          : `internal provisionerserver error: ${err.message}`;
      const { jobId, type } = verdict.job;
      // the server must still get the state of the build
      const state = type.case === 'workspaceBuild' ? { state: type.value.state } : {};
      const failed = failure({ jobId, type }, error, state);
      try {
        await jobLink.deliver({ verdict: { kind: 'fail', job: failed }, rest });
      } catch (again) {
        if (!(again instanceof DrpcError) || again.code !== JOB_ERRORS.rejected) throw again;
        // No other attempt can succeed, of a later daemon neither. The server ends the job when its lease has run out.
        throw new LostJobError(`the server does not accept how it ended: ${again.message}`);
      }
      return 'fail';
    } finally {
      for (const timer of late) clearTimeout(timer);
    }
  }

  #sync(): void {
    const { session, log } = this.#options;
    session
      .sync()
      .catch((err) =>
        log.warn('cannot sync the result of a job to the disk', { job: this.jobId, err: errorText(err) }),
      );
  }

  /** Stores how the job ended for later daemons if that is possible. */
  #keep(ending: Ending): void {
    const { session, log } = this.#options;
    if (session.entry.phase === 'verdict') return;
    try {
      session.keepEnding(ending);
    } catch (err) {
      // for example, the disk is full. The verdict in memory is enough.
      log.error('cannot store the result of a job; delivering it from memory', {
        job: this.jobId,
        reason: errorText(err),
      });
    }
  }

  /** Runs the job and returns its verdict with the end of its log. */
  async #reach(job: AcquiredJob): Promise<Ending> {
    const { session, ctx, acquiredOn } = this.#options;
    const { jobLink } = this;
    if (session.entry.phase === 'start' && !acquiredOn) {
      // A dead daemon started the job but changed nothing. The job starts again, and its old runs must not interfere.
      await this.kill();
      const { type } = job;
      if (type.case === 'workspaceBuild' && session.hasUnknownApply(wholeState(type.value.state)))
        return this.#failWithState(job, 'The machine of the provisioner daemon stopped while Terraform worked.');
      const deaths = (session.entry.deaths ?? 0) + 1;
      if (deaths > MAX_DEATHS) {
        const error = `The provisioner daemon died ${deaths} times while it prepared this job.`;
        return endWith(failure(job, error));
      }
      session.write({ deaths });
    }
    const signal = AbortSignal.any([jobLink.canceled, jobLink.lost]);
    const terraform = await engineFor(ctx.engines.list, job.templateSourceArchive, session.entry.requiredVersion);
    return runJob({ ...ctx, terraform, job, session, port: jobLink, signal });
  }

  /** The end of a job whose file is damaged. The type is unknown, but only builds have a state. */
  async #failDamaged(): Promise<Ending> {
    await this.kill();
    return this.#failWithState({ jobId: this.jobId, type: { case: undefined } }, DAMAGED);
  }

  /** The failure of a build that cannot continue, with the state that Terraform left. */
  #failWithState({ jobId, type }: Pick<AcquiredJob, 'jobId' | 'type'>, error: string): Ending {
    const given = type.case === 'workspaceBuild' ? wholeState(type.value.state) : undefined;
    const state = this.#options.session.state({ given });
    const part = state.length > 0 ? ({ case: 'workspaceBuild' } as const) : type;
    return endWith(failure({ jobId, type: part }, error, { state }));
  }

  /** Gives the job up, because the server says so. Ignored after the delivery of the verdict has begun. */
  lose(reason: string): void {
    if (!this.#judged) this.jobLink.lose(reason);
  }

  /** Offers the server the state of a lost job. The verdict no longer counts. */
  async #giveUp(reason: LostJobError): Promise<void> {
    const { session, log } = this.#options;
    log.warn('lost a job', { job: this.jobId, reason: reason.message });
    const given = this.#job?.type.case === 'workspaceBuild' ? wholeState(this.#job.type.value.state) : undefined;
    const state = session.state({ given });
    if ((session.entry.phase !== 'start' || session.hasUnknownApply(given)) && state.length > 0) {
      const outcome = await this.jobLink.deliverState(state, reason.message);
      log.info('delivered the state of a lost job', { job: this.jobId, outcome });
    }
    await this.#leave();
  }

  /** Removes what only this job needed. */
  async #leave(): Promise<void> {
    const { session, ctx } = this.#options;
    await session.remove();
    await ctx.versions.forget(this.jobId);
  }
}

/** An end without more lines of the log. */
const endWith = (job: FailedJob): Ending => ({ verdict: { kind: 'fail', job }, rest: { logs: [], numbers: [] } });

/** Sends SIGKILL to the process groups of a session's running runs. Resolves when they are gone. */
async function killRuns(session: Session, send: Send): Promise<void> {
  const limit = performance.now() + GONE_MS;
  for (const name of await readdir(session.dir).catch(() => [])) {
    if (!name.endsWith('.started')) continue;
    const terraform = await readStarted(join(session.dir, name));
    if (!terraform || !isAlive(terraform)) continue;
    await send(terraform, 'SIGKILL').catch(() => {});
    while (isAlive(terraform) && performance.now() < limit) await delay(10);
  }
}
