import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  AppError,
  backoff,
  type Clock,
  ensureDirectory,
  errorText,
  type Logger,
  RECONNECT,
  systemClock,
} from '@ropewalk/kit';
import { initScripts } from '@ropewalk/rules/init-scripts';
import { type JobNotice, JobNotice_Kind } from '@ropewalk/wire/proto/platform_provisioner';
import type { AcquiredJob } from '@ropewalk/wire/proto/provisionerd';
import type { DaemonContext, MachineContext, ProcessContext } from '../job/context.ts';
import { failure, SHUTTING_DOWN } from '../job/run-job.ts';
import { Session } from '../job/session.ts';
import { Runner } from '../runner/client.ts';
import { VersionCache } from '../terraform/prepare.ts';
import { ActiveJob } from './active-job.ts';
import { DiskPause } from './full-disk.ts';
import { epochMetadata } from './job-link.ts';
import { type Connection, ServerLink, type Successors } from './link.ts';
import { findMachine, folderMode } from './machine.ts';
import type { DaemonOptions } from './options.ts';

const ADOPT_EVERY_MS = 15_000;
/** The number of times that this daemon tries a job that it could not finish. After that, a later daemon adopts it. */
const MAX_TRIES = 5;
/**
 * The number of times that this daemon returns a job to the queue because its disk is full. After that, the job fails.
 */
const MAX_PUT_BACK = 3;
const SWEEP_EVERY_MS = 24 * 3600_000;
const CANCEL_ACQUIRE_MS = 5_000;
/** The time from one look for room on the disk to the next, in ms. Many short builds then need one and not one each. */
const LOOK_FOR_ROOM_MS = 2_000;

export interface ProvisionerDaemon {
  /**
   * Resolves when the daemon has ended. Rejects if the daemon cannot start, for example without terraform, or if the
   * server rejects it for good. Running builds then continue, and the next daemon adopts them.
   */
  done: Promise<void>;
  /** Accepts no more jobs and ends after the running ones. */
  drain(): void;
  /** Drains, and cancels the running jobs: terraform receives SIGINT. */
  cancelActive(): void;
  /** Drains, and kills the process groups of the running jobs. */
  kill(): void;
  /** The number of running jobs, with adopted ones. */
  activeJobs(): number;
  /** The time since the connection was lost, in ms. 0 while connected. */
  awayMs(): number;
  /** Ends without waiting. Runs continue, and a later daemon adopts them. */
  abandon(): void;
  /** Drains, and finishes the running jobs with other servers, because its own server is gone. */
  finishWith(successors: Successors): void;
}

/** Starts a daemon that runs jobs of our server or an upstream server, one at a time. */
export function runProvisionerDaemon(options: DaemonOptions): ProvisionerDaemon {
  return new Daemon(options);
}

/** Creates what the daemons of this process share. */
export function createProcessContext(
  options: Omit<DaemonOptions, 'name' | 'workDir'>,
  machine: MachineContext,
): ProcessContext {
  const { cacheDir, log, clock } = options;
  return {
    ...machine,
    versions: new VersionCache({ cacheDir, log, clock, shared: machine.launcher !== undefined }),
    diskPause: new DiskPause(clock ?? systemClock, options.fullPauseMs),
    runner: new Runner({ command: options.runnerCommand, log, logPath: join(cacheDir, 'runner.log') }),
  };
}

/** A job from the queue, for this daemon. */
interface Taken {
  job: AcquiredJob | undefined;
  epoch: bigint;
  frozenId: string;
  requiredVersion: string;
  fetchModules: boolean;
}

/** What upstream's server does not say about a job. */
const UNKNOWN = { epoch: 0n, frozenId: '', requiredVersion: '', fetchModules: false };

class Daemon implements ProvisionerDaemon {
  readonly done: Promise<void>;
  readonly #options: DaemonOptions;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #link: ServerLink;
  readonly #draining = new AbortController();
  readonly #abandoned = new AbortController();
  readonly #active = new Set<ActiveJob>();
  #unfinished: AppError | undefined;
  /** When to look for room on the disk again, on the monotonic clock. */
  #lookForRoomAt = Number.NEGATIVE_INFINITY;
  /** How often this daemon left each job unfinished. */
  readonly #left = new Map<string, number>();
  /** Why sessions cannot be adopted, by folder. Logged once, not at each look. */
  readonly #problems = new Map<string, string>();
  /** How often each job went back to the queue since the last job that started. */
  readonly #putBack = new Map<string, number>();

  constructor(options: DaemonOptions) {
    this.#options = options;
    this.#log = options.log.child({ daemon: options.name });
    this.#clock = options.clock ?? systemClock;
    this.#link = options.link ?? new ServerLink({ ...options, log: this.#log, clock: this.#clock });
    this.#link.report({
      connected: (connection) => {
        options.metrics?.connected(options.name, true);
        void this.#watch(connection);
        for (const { jobLink } of this.#active) jobLink.connected(connection);
      },
      lost: () => options.metrics?.connected(options.name, false),
      rejected: () => this.abandon(),
    });
    this.done = this.#run();
  }

  drain(): void {
    this.#draining.abort(new AppError('canceled', 'The daemon accepts no more jobs.'));
  }

  cancelActive(): void {
    this.drain();
    for (const { jobLink } of this.#active) jobLink.cancel(SHUTTING_DOWN);
  }

  kill(): void {
    this.cancelActive();
    for (const job of this.#active) void job.kill();
  }

  activeJobs(): number {
    return this.#active.size;
  }

  awayMs(): number {
    return this.#link.awayMs;
  }

  abandon(): void {
    this.drain();
    this.#abandoned.abort();
  }

  finishWith(successors: Successors): void {
    this.#link.moveTo(successors);
    this.drain();
  }

  async #run(): Promise<void> {
    const options = this.#options;
    let own: ProcessContext | undefined;
    let upkeep: Promise<unknown> | undefined;
    try {
      if (!options.shared) own = createProcessContext(options, await findMachine(options, this.#draining.signal));
      const ctx: DaemonContext = {
        ...(options.shared ?? own!),
        initScripts: initScripts(),
        attachProvider: options.attachProvider ?? true,
        exitTimeoutMs: options.exitTimeoutMs,
        cacheDir: options.cacheDir,
        metrics: options.metrics,
        log: this.#log,
      };
      const { engines, versions, runner, launcher } = ctx;
      await ensureDirectory(options.workDir, { mode: folderMode(launcher) });
      const warm = runner.warm();
      warm.catch(() => {}); // the runner logs it, and the first job tries again
      this.#link.start(engines.list);
      engines.onWithdrawn((rest) => this.#link.changeEngines(rest));
      const draining = this.#draining.signal;
      const adopted = await this.#adopt(ctx); // before it acquires a new job
      if (options.once && adopted > 0) this.drain();
      upkeep = Promise.all([
        this.#every(options.adoptEveryMs ?? ADOPT_EVERY_MS, async () => void (await this.#adopt(ctx))),
        this.#every(SWEEP_EVERY_MS, () => versions.sweep()),
      ]);
      while (!draining.aborted) {
        await this.#settled(); // with `once`, an adopted job is the only job
        if (await this.#takeOne(ctx)) if (options.once) break;
      }
      this.drain();
      await Promise.race([this.#settled(), aborted(this.#abandoned.signal)]);
    } finally {
      this.drain();
      await upkeep;
      await this.#link.close();
      own?.runner.release();
    }
    if (this.#link.rejected) throw this.#link.rejected;
    if (options.once && this.#unfinished) throw this.#unfinished;
  }

  /** Waits for a job and runs it. False if the daemon drains before a job arrives. */
  async #takeOne(ctx: DaemonContext): Promise<boolean> {
    const { draining } = { draining: this.#draining.signal };
    const waits = backoff({ baseMs: 10, capMs: 1_000, factor: 1.62 });
    while (!draining.aborted) {
      let connection: Connection;
      try {
        connection = await this.#link.connection(draining);
      } catch {
        return false;
      }
      try {
        await ctx.diskPause.over(this.#log, draining);
        await this.#probe();
        const { job, ...taken } = await this.#acquire(connection, ctx.diskPause);
        if (job && job.jobId !== '') {
          this.#log.info('acquired a job', { job: job.jobId, type: job.type.case });
          const session = await this.#session(ctx, connection, job, taken);
          if (session === 'put back') continue;
          if (!session) return true;
          await Promise.race([this.#begin(ctx, session, connection), aborted(this.#abandoned.signal)]);
          return true;
        }
      } catch (err) {
        if (!connection.ended.aborted) this.#log.warn('cannot acquire a job; trying again', { err });
      }
      if (!draining.aborted) await this.#clock.sleep(waits.next(), draining).catch(() => {});
    }
    return false;
  }

  /** Resolves when jobs can start on this machine. */
  async #probe(): Promise<void> {
    const waits = backoff({ baseMs: 500, capMs: 15_000 });
    for (let said: string | undefined; ; ) {
      try {
        const now = this.#clock.monotonic();
        const forRoom = now >= this.#lookForRoomAt;
        for (const dir of [this.#options.workDir, this.#options.cacheDir, tmpdir()]) Session.probe(dir, { forRoom });
        if (forRoom) this.#lookForRoomAt = now + LOOK_FOR_ROOM_MS;
        if (said) this.#log.info('accepting jobs again');
        return;
      } catch (err) {
        const reason = errorText(err);
        if (reason !== said) this.#log.error('not accepting jobs: cannot write to a folder of the daemon', { reason });
        said = reason;
        await this.#clock.sleep(waits.next(), this.#draining.signal);
      }
    }
  }

  /**
   * Creates the session of a job. If the disk is full, nothing of the job has started: our server then gets the job
   * back, and this process pauses. After any other failure, the job fails with the reason.
   */
  async #session(
    ctx: DaemonContext,
    connection: Connection,
    job: AcquiredJob,
    { epoch, ...known }: Omit<Taken, 'job'>,
  ): Promise<Session | 'put back' | undefined> {
    const { jobId } = job;
    try {
      const session = await Session.create(this.#options.workDir, job, epoch, known);
      this.#putBack.clear();
      return session;
    } catch (err) {
      this.#lookForRoomAt = Number.NEGATIVE_INFINITY;
      const reason = errorText(err);
      const full = await ctx.diskPause.beginIfFull(err, [this.#options.workDir]);
      const times = this.#putBack.get(jobId) ?? 0;
      if (full !== undefined && connection.control && times < MAX_PUT_BACK) {
        this.#log.error('returning a job to the queue: the disk is full', { job: jobId, dir: full, reason });
        this.#putBack.set(jobId, times + 1);
        await this.#link.drop(connection, 'the disk is full, so the job goes back to the queue');
        return 'put back';
      }
      const error = `The provisioner daemon ${JSON.stringify(this.#options.name)} could not start this job: ${reason}`;
      this.#log.error('cannot start a job', { job: jobId, reason });
      await connection.daemon.failJob(failure(job, error), epochMetadata(epoch));
      return undefined;
    }
  }

  async #acquire(connection: Connection, pause: DiskPause): Promise<Taken> {
    const { control, daemon } = connection;
    const draining = this.#draining.signal;
    const own = control?.acquire();
    const upstream = own ? undefined : daemon.acquireJobWithCancel();
    const stream = own ?? upstream!;
    let limit: NodeJS.Timeout | undefined;
    // Cancels with a message before it cuts the stream, because the server may already have assigned a job.
    const onDrain = () => {
      void (own ? own.send({ cancel: true }) : upstream!.send({})).catch(() => {});
      limit = setTimeout(() => stream.cancel(), CANCEL_ACQUIRE_MS);
    };
    if (draining.aborted) onDrain();
    else draining.addEventListener('abort', onDrain, { once: true });
    const offPause = pause.onBegin(onDrain);
    try {
      if (own)
        for await (const { job, epoch, frozenId, requiredVersion, fetchModules } of own.responses)
          return { job, epoch, frozenId, requiredVersion, fetchModules };
      else for await (const job of upstream!.responses) return { job, ...UNKNOWN };
      return { job: undefined, ...UNKNOWN };
    } finally {
      clearTimeout(limit);
      draining.removeEventListener('abort', onDrain);
      offPause();
      stream.cancel();
    }
  }

  async #begin(ctx: DaemonContext, session: Session, acquiredOn?: Connection): Promise<void> {
    const { metrics } = this.#options;
    const job = new ActiveJob({
      ctx,
      link: this.#link,
      session,
      acquiredOn,
      metrics,
      log: this.#log,
      clock: this.#clock,
    });
    this.#active.add(job);
    try {
      await job.done;
    } catch (err) {
      this.#log.error('job left unfinished', { job: job.jobId, reason: errorText(err) });
      this.#left.set(job.jobId, (this.#left.get(job.jobId) ?? 0) + 1);
      this.#unfinished = new AppError('unavailable', `The job was left unfinished: ${errorText(err)}`, { cause: err });
    } finally {
      this.#active.delete(job);
    }
  }

  async #adopt(ctx: DaemonContext): Promise<number> {
    const problem = (dir: string, why: string) => {
      if (this.#problems.get(dir) === why) return;
      this.#problems.set(dir, why);
      this.#log.warn('cannot adopt a job', { dir, why });
    };
    const isActive = (jobId: string) => [...this.#active].some((job) => job.jobId === jobId);
    const isLeft = (jobId: string) => {
      const times = this.#left.get(jobId) ?? 0;
      return times > 0 && times < MAX_TRIES && !isActive(jobId);
    };
    const sessions = await Session.adoptAll(this.#options.workDir, problem, isLeft);
    for (const session of sessions) {
      const { jobId, phase } = session.entry;
      this.#log.info(this.#left.has(jobId) ? 'trying an unfinished job again' : 'adopting a job of a dead daemon', {
        job: jobId,
        phase,
      });
      void this.#begin(ctx, session);
    }
    return sessions.length;
  }

  async #settled(): Promise<void> {
    while (this.#active.size > 0) await Promise.allSettled([...this.#active].map(({ done }) => done));
  }

  async #every(ms: number, work: () => Promise<void>): Promise<void> {
    const draining = this.#draining.signal;
    while (!draining.aborted) {
      await work().catch((err) => this.#log.warn('periodic upkeep failed; trying again later', { err }));
      await this.#clock.sleep(ms, draining).catch(() => {});
    }
  }

  /** Receives notices about jobs as long as the connection lasts. */
  async #watch({ control, ended }: Connection): Promise<void> {
    if (!control) return;
    const waits = backoff({ baseMs: 100, ...RECONNECT });
    while (!ended.aborted && !this.#link.closing) {
      const stream = control.watch({});
      const cancel = () => stream.cancel();
      ended.addEventListener('abort', cancel, { once: true });
      try {
        for await (const notice of stream.responses) this.#notice(notice);
        if (ended.aborted) return;
      } catch (err) {
        if (ended.aborted || this.#link.closing) return;
        this.#log.warn('cannot receive job notices from the server; trying again', { err });
      } finally {
        ended.removeEventListener('abort', cancel);
      }
      await this.#clock.sleep(waits.next(), ended).catch(() => {});
    }
  }

  #notice({ jobId, kind }: JobNotice): void {
    const job = [...this.#active].find((candidate) => candidate.jobId === jobId);
    if (!job) return;
    this.#log.info('received a job notice', { job: jobId, kind: JobNotice_Kind[kind] });
    if (kind === JobNotice_Kind.CANCEL) job.jobLink.cancel('The server canceled this job.');
    if (kind === JobNotice_Kind.LOST) job.lose('the server took the job back');
    if (kind === JobNotice_Kind.FORCE_CANCEL) {
      job.lose('the job was force-canceled');
      void job.kill();
    }
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
