import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AppError, backoff, type Clock, errorText, type Logger, RECONNECT, systemClock } from '@platform/kit';
import { initScripts } from '@platform/terraform-provider';
import { type JobNotice, JobNotice_Kind } from '@platform/wire/proto/platform_provisioner';
import type { AcquiredJob } from '@platform/wire/proto/provisionerd';
import { Launcher } from '../isolation/client.ts';
import type { Tools } from '../job/context.ts';
import { fullDisk } from '../job/disk.ts';
import { Session } from '../job/journal.ts';
import { failure, SHUTTING_DOWN } from '../job/run-job.ts';
import { Runner } from '../runner/client.ts';
import { findTerraform } from '../terraform/binary.ts';
import { type Env, inheritedEnv, withReadableConfig } from '../terraform/env.ts';
import { VersionCache } from '../terraform/prepare.ts';
import type { TerraformBinary } from '../terraform/version.ts';
import { DiskPause } from './disk-pause.ts';
import { epochMetadata } from './job-link.ts';
import { type Connection, type DaemonAuth, ServerLink } from './link.ts';
import type { DaemonMetrics } from './metrics.ts';
import { ActiveJob } from './work.ts';

const ADOPT_EVERY_MS = 15_000;
/** So often is a job tried that this daemon had to leave, before a later daemon gets it. */
const MOST_TRIES = 5;
/** So often this daemon puts back a job that finds its disk full. After that the job fails with the reason. */
const MOST_PUT_BACK = 3;
const SWEEP_EVERY_MS = 24 * 3600_000;
const CANCEL_ACQUIRE_MS = 5_000;

/** What several daemons of one process share. */
export interface Shared {
  terraform: TerraformBinary;
  versions: VersionCache;
  runner: Runner;
  launcher: Launcher | undefined;
  /** What terraform inherits. */
  env: Env;
  diskPause: DiskPause;
}

export interface DaemonOptions {
  /** Base URL of the server, `https://…`. */
  serverUrl: string;
  /** The server's own Unix socket, in place of a connection to the host of `serverUrl`. */
  socketPath?: string | undefined;
  /** Name or id; `default` with a key or PSK. */
  organization: string;
  /** 1 to 64 characters. A returning daemon must bear the same name to have its running job. */
  name: string;
  tags: Record<string, string>;
  auth: DaemonAuth;
  headers?: Record<string, string> | undefined;
  /** Sessions; the same directory after a restart is what lets a running build be adopted. */
  workDir: string;
  /** Prepared versions, providers, installed terraform. */
  cacheDir: string;
  /** A terraform executable to use instead of the one on PATH. */
  terraformBinary?: string | undefined;
  /** Mirror of the publisher's downloads. */
  terraformBaseUrl?: string | undefined;
  /** False: templates use the coder provider of the registry. Default true. */
  attachProvider?: boolean | undefined;
  /** How to start the process that runs terraform; a single executable names itself and its hidden command. */
  runnerCommand?: readonly string[] | undefined;
  provisionerVersion: string;
  /** Values that no child may inherit under any name. */
  secretValues: readonly string[];
  /** What terraform may inherit of, minus the platform's own; default: this process's environment. */
  env?: NodeJS.ProcessEnv | undefined;
  /** Ends after one job, be it an adopted one; `done` rejects when that one was left without a verdict. */
  once?: boolean | undefined;
  /** Milliseconds from SIGINT to SIGKILL of a cancelled terraform; default 3 min. */
  exitTimeoutMs?: number | undefined;
  /** Milliseconds between two looks for jobs that a dead daemon, or this one, has left; default 15 s. */
  adoptEveryMs?: number | undefined;
  /** Milliseconds without a job after one has failed for a full disk, at first; default 30 s. */
  fullPauseMs?: number | undefined;
  metrics?: DaemonMetrics | undefined;
  log: Logger;
  clock?: Clock | undefined;
  shared?: Shared | undefined;
  /** Socket of the process that starts builds under uids of their own; see isolation/protocol.ts. */
  launcherPath?: string | undefined;
}

export interface ProvisionerDaemon {
  /**
   * Resolves when the daemon has ended; rejects when it could not begin, for example without terraform, and when the
   * server refuses it for good: what runs then goes on and is adopted by the next one.
   */
  done: Promise<void>;
  /** Takes no more jobs and ends after the running ones. */
  drain(): void;
  /** Drains, and cancels the running jobs: terraform gets SIGINT. */
  cancelActive(): void;
  /** Drains, and kills the process groups of the running jobs. */
  kill(): void;
  /** Jobs under way, adopted ones included. */
  activeJobs(): number;
  /** Milliseconds since the connection was lost; 0 while there is one. */
  awayMs(): number;
  /** Ends without waiting: runs go on and are adopted later. */
  abandon(): void;
}

/** Starts a daemon that takes jobs from a server, ours or a published one, one at a time. */
export function runProvisionerDaemon(options: DaemonOptions): ProvisionerDaemon {
  return new Daemon(options);
}

/** What daemons of this process may share. @throws AppError without terraform. */
export async function createShared(options: Omit<DaemonOptions, 'name' | 'workDir'>): Promise<Shared> {
  const { cacheDir, log, clock } = options;
  const env = withReadableConfig(inheritedEnv(options.env ?? process.env, options.secretValues), log);
  const launcher = options.launcherPath ? new Launcher(options.launcherPath) : undefined;
  await mkdir(cacheDir, { recursive: true, mode: folderMode(launcher) });
  const terraform = await findTerraform({
    path: options.terraformBinary,
    env,
    log,
    install: { cacheDir, log, env, baseUrl: options.terraformBaseUrl, clock },
  });
  return {
    terraform,
    env,
    launcher,
    versions: new VersionCache({ cacheDir, log, clock, shared: launcher !== undefined }),
    diskPause: new DiskPause(clock ?? systemClock, options.fullPauseMs),
    runner: new Runner({ command: options.runnerCommand, log, logPath: join(cacheDir, 'runner.log') }),
  };
}

/** Builds of other uids pass through the daemon's folders, and list none of them. */
function folderMode(launcher: Launcher | undefined): number {
  return launcher ? 0o711 : 0o700;
}

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
  /** How often each job was left unfinished. */
  readonly #left = new Map<string, number>();
  /** How often each job was put back since a job was last begun. */
  readonly #putBack = new Map<string, number>();

  constructor(options: DaemonOptions) {
    this.#options = options;
    this.#log = options.log.child({ daemon: options.name });
    this.#clock = options.clock ?? systemClock;
    const link = { ...options, log: this.#log, clock: this.#clock };
    this.#link = new ServerLink(link, {
      connected: (connection) => {
        options.metrics?.connected(options.name, true);
        void this.#watch(connection);
        for (const { jobLink } of this.#active) jobLink.connected(connection);
      },
      lost: () => options.metrics?.connected(options.name, false),
      refused: () => this.abandon(),
    });
    this.done = this.#run();
  }

  drain(): void {
    this.#draining.abort(new AppError('canceled', 'The daemon takes no more jobs.'));
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

  async #run(): Promise<void> {
    const { options, shared } = { options: this.#options, shared: this.#options.shared };
    const { terraform, versions, runner, launcher, env, diskPause } = shared ?? (await createShared(options));
    await mkdir(options.workDir, { recursive: true, mode: folderMode(launcher) });
    const tools: Tools = {
      terraform,
      versions,
      runner,
      launcher,
      env,
      initScripts: initScripts(),
      attachProvider: options.attachProvider ?? true,
      exitTimeoutMs: options.exitTimeoutMs,
      cacheDir: options.cacheDir,
      diskPause,
      metrics: options.metrics,
      log: this.#log,
    };
    const warm = runner.warm();
    warm.catch(() => {}); // said by the runner; the first job tries again
    this.#link.start();
    const draining = this.#draining.signal;
    const adopted = await this.#adopt(tools); // before anything new is taken
    if (options.once && adopted > 0) this.drain();
    const upkeep = Promise.all([
      this.#every(options.adoptEveryMs ?? ADOPT_EVERY_MS, async () => void (await this.#adopt(tools))),
      this.#every(SWEEP_EVERY_MS, () => versions.sweep()),
    ]);
    try {
      while (!draining.aborted) {
        await this.#settled(); // an adopted job is this daemon's one job
        if (await this.#takeOne(tools)) if (options.once) break;
      }
      this.drain();
      await Promise.race([this.#settled(), aborted(this.#abandoned.signal)]);
    } finally {
      this.drain();
      await upkeep;
      await this.#link.close();
      if (!shared) runner.release();
    }
    if (this.#link.refused) throw this.#link.refused;
    if (options.once && this.#unfinished) throw this.#unfinished;
  }

  /** Waits for a job and does it; false when none came. */
  async #takeOne(tools: Tools): Promise<boolean> {
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
        await tools.diskPause.over(this.#log, draining);
        await this.#probe();
        const { job, epoch } = await this.#acquire(connection, tools.diskPause);
        if (job && job.jobId !== '') {
          this.#log.info('acquired a job', { job: job.jobId, type: job.type.case });
          const session = await this.#session(tools, connection, job, epoch);
          if (session === 'put back') continue;
          if (!session) return true;
          await Promise.race([this.#begin(tools, session, connection), aborted(this.#abandoned.signal)]);
          return true;
        }
      } catch (err) {
        if (!connection.ended.aborted) this.#log.warn('could not acquire a job', { err });
      }
      if (!draining.aborted) await this.#clock.sleep(waits.next(), draining).catch(() => {});
    }
    return false;
  }

  /** Resolves when jobs can be begun here. */
  async #probe(): Promise<void> {
    const waits = backoff({ baseMs: 500, capMs: 15_000 });
    for (let said: string | undefined; ; ) {
      try {
        for (const dir of [this.#options.workDir, this.#options.cacheDir, tmpdir()]) await Session.probe(dir);
        if (said) this.#log.info('jobs are taken again');
        return;
      } catch (err) {
        const reason = errorText(err);
        if (reason !== said) this.#log.error('no job is taken: none could be begun here', { reason });
        said = reason;
        await this.#clock.sleep(waits.next(), this.#draining.signal);
      }
    }
  }

  /**
   * Makes the session of a job. Without a session nothing of the job has begun: if the disk is full, our server gets the
   * job back and this process pauses. Otherwise the job fails with the reason.
   */
  async #session(
    tools: Tools,
    connection: Connection,
    job: AcquiredJob,
    epoch: bigint,
  ): Promise<Session | 'put back' | undefined> {
    const { jobId } = job;
    try {
      const session = await Session.create(this.#options.workDir, job, epoch);
      this.#putBack.clear();
      return session;
    } catch (err) {
      const reason = errorText(err);
      const full = await fullDisk(err, [this.#options.workDir]);
      if (full !== undefined) tools.diskPause.begin(full);
      const times = this.#putBack.get(jobId) ?? 0;
      if (full !== undefined && connection.control && times < MOST_PUT_BACK) {
        this.#log.error('a job goes back to the queue: the disk is full', { job: jobId, dir: full, reason });
        this.#putBack.set(jobId, times + 1);
        await this.#link.drop(connection, 'the disk is full: the job goes back to the queue');
        return 'put back';
      }
      const error = `The provisioner daemon ${this.#options.name} could not begin: ${reason}`;
      this.#log.error('a job can not be begun', { job: jobId, reason });
      await connection.daemon.failJob(failure(job, error), epochMetadata(epoch));
      return undefined;
    }
  }

  async #acquire(connection: Connection, pause: DiskPause): Promise<{ job: AcquiredJob | undefined; epoch: bigint }> {
    const { control, daemon } = connection;
    const draining = this.#draining.signal;
    const own = control?.acquire();
    const published = own ? undefined : daemon.acquireJobWithCancel();
    const stream = own ?? published!;
    let limit: NodeJS.Timeout | undefined;
    // Asked back, not cut: the server may have locked a job for us already.
    const onDrain = () => {
      void (own ? own.send({ cancel: true }) : published!.send({})).catch(() => {});
      limit = setTimeout(() => stream.cancel(), CANCEL_ACQUIRE_MS);
    };
    if (draining.aborted) onDrain();
    else draining.addEventListener('abort', onDrain, { once: true });
    const offPause = pause.onBegin(onDrain);
    try {
      if (own) for await (const { job, epoch } of own.responses) return { job, epoch };
      else for await (const job of published!.responses) return { job, epoch: 0n };
      return { job: undefined, epoch: 0n };
    } finally {
      clearTimeout(limit);
      draining.removeEventListener('abort', onDrain);
      offPause();
      stream.cancel();
    }
  }

  async #begin(tools: Tools, session: Session, acquiredOn?: Connection): Promise<void> {
    const { metrics } = this.#options;
    const job = new ActiveJob({
      tools,
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

  async #adopt(tools: Tools): Promise<number> {
    const problem = (dir: string, why: string) => this.#log.warn('a session can not be adopted', { dir, why });
    const isActive = (jobId: string) => [...this.#active].some((job) => job.jobId === jobId);
    const isLeft = (jobId: string) => {
      const times = this.#left.get(jobId) ?? 0;
      return times > 0 && times < MOST_TRIES && !isActive(jobId);
    };
    const sessions = await Session.adoptAll(this.#options.workDir, problem, isLeft);
    for (const session of sessions) {
      const { jobId, phase } = session.entry;
      this.#log.info(this.#left.has(jobId) ? 'trying again a job that was left' : 'adopting a job of a dead daemon', {
        job: jobId,
        phase,
      });
      void this.#begin(tools, session);
    }
    return sessions.length;
  }

  async #settled(): Promise<void> {
    while (this.#active.size > 0) await Promise.allSettled([...this.#active].map(({ done }) => done));
  }

  async #every(ms: number, work: () => Promise<void>): Promise<void> {
    const draining = this.#draining.signal;
    while (!draining.aborted) {
      await work().catch((err) => this.#log.warn('upkeep failed', { err }));
      await this.#clock.sleep(ms, draining).catch(() => {});
    }
  }

  /** Takes notices for as long as there is this connection. */
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
        this.#log.warn('no notices from the server for the moment', { err });
      } finally {
        ended.removeEventListener('abort', cancel);
      }
      await this.#clock.sleep(waits.next(), ended).catch(() => {});
    }
  }

  #notice({ jobId, kind }: JobNotice): void {
    const job = [...this.#active].find((candidate) => candidate.jobId === jobId);
    if (!job) return;
    this.#log.info('notice for a job', { job: jobId, kind: JobNotice_Kind[kind] });
    if (kind === JobNotice_Kind.CANCEL) job.jobLink.cancel('The server cancelled this job.');
    if (kind === JobNotice_Kind.LOST) job.lose('the server gave it up');
    if (kind === JobNotice_Kind.FORCE_CANCEL) {
      job.lose('it was cancelled by force');
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
