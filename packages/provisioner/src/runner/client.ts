import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { AppError, type Logger } from '@ropewalk/kit';
import { allocatorSettings } from '@ropewalk/kit/allocator';
import type { Preparation, ProcessRef, RunExit, RunnerCommand, RunnerEvent, RunSpec } from './protocol.ts';

/** The command that starts a runner. A single executable uses its own path and its hidden command instead. */
export const RUNNER_COMMAND: readonly string[] = [
  process.execPath,
  fileURLToPath(new URL('./entry.ts', import.meta.url)),
];

/** What a run needs is there. One of the two methods must be called. */
export interface PreparedRun {
  runner: ProcessRef;
  /** Starts Terraform. The outcome is also in the run's files, for a later daemon. */
  begin(spec: RunSpec): LiveRun;
  /** Ends what was prepared. Does nothing after `begin`. */
  drop(): void;
}

/** A run, for the daemon that started it. */
export interface LiveRun {
  terraform: Promise<ProcessRef>;
  /** Resolves when terraform exits with any status. Rejects only if the runner dies. */
  exited: Promise<RunExit>;
  /** Calls `listener` when there is new output to read. */
  onOutput(listener: () => void): void;
}

interface Pending {
  events: EventEmitter;
  started: PromiseWithResolvers<ProcessRef>;
  exited: PromiseWithResolvers<RunExit>;
}

/**
 * The runner process of a daemon. It starts before the first job, so that a build does not wait for it, and serves all
 * of the daemon's jobs. If it dies, the next run starts it again.
 */
export class Runner {
  readonly #command: readonly string[];
  readonly #log: Logger;
  readonly #logPath: string;
  #process: ChildProcess | undefined;
  #ready: Promise<ProcessRef> | undefined;
  readonly #runs = new Map<string, Pending>();

  constructor(options: { command?: readonly string[] | undefined; log: Logger; logPath: string }) {
    this.#command = options.command ?? RUNNER_COMMAND;
    this.#log = options.log;
    this.#logPath = options.logPath;
  }

  /** Starts the process if it does not run. Resolves when it accepts runs. */
  warm(): Promise<ProcessRef> {
    this.#ready ??= this.#start();
    return this.#ready;
  }

  /** Starts what a run needs before Terraform. */
  async prepare(preparation: Omit<Preparation, 'key'>): Promise<PreparedRun> {
    const runner = await this.warm();
    const child = this.#process!;
    const key = crypto.randomUUID();
    const send = (command: RunnerCommand) => child.stdin!.write(`${JSON.stringify(command)}\n`);
    send({ type: 'prepare', preparation: { ...preparation, key } });
    return {
      runner,
      begin: (spec) => {
        const live = this.#expect(spec.id, child);
        send({ type: 'begin', key, spec });
        return live;
      },
      drop: () => void send({ type: 'drop', key }),
    };
  }

  /** The run that this runner reports about from now on. */
  #expect(id: string, child: ChildProcess): LiveRun {
    const pending: Pending = {
      events: new EventEmitter(),
      started: Promise.withResolvers(),
      exited: Promise.withResolvers(),
    };
    pending.started.promise.catch(() => {});
    pending.exited.promise.catch(() => {});
    if (this.#process === child) this.#runs.set(id, pending);
    else {
      const gone = noRunner('ended before the run began');
      pending.started.reject(gone);
      pending.exited.reject(gone);
    }
    return {
      terraform: pending.started.promise,
      exited: pending.exited.promise,
      onOutput: (listener) => void pending.events.on('output', listener),
    };
  }

  /** Releases the process: it exits when its last run has ended. */
  release(): void {
    this.#process?.stdin?.end();
    this.#process?.unref();
    this.#process = undefined;
    this.#ready = undefined;
  }

  /** Opens the runner's log. If that fails, for example on a full disk, the runner writes to this process's stderr. */
  #openLog(): number | 'inherit' {
    try {
      return openSync(this.#logPath, 'a', 0o600);
    } catch (err) {
      this.#log.warn('cannot open the runner log; the runner writes to stderr instead', { path: this.#logPath, err });
      return 'inherit';
    }
  }

  #start(): Promise<ProcessRef> {
    const [file, ...args] = this.#command;
    const ready = Promise.withResolvers<ProcessRef>();
    const complaints = this.#openLog();
    // A separate session, and only PATH from this process's environment.
    const child = spawn(file!, args, {
      detached: true,
      cwd: '/',
      env: { PATH: process.env['PATH'] ?? '', ...allocatorSettings() },
      stdio: ['pipe', 'pipe', complaints],
    });
    if (typeof complaints === 'number') closeSync(complaints);
    this.#process = child;
    const fail = (why: string) => {
      if (this.#process === child) {
        this.#process = undefined;
        this.#ready = undefined;
      }
      const err = noRunner(why);
      ready.reject(err);
      for (const [id, run] of this.#runs) {
        run.started.reject(err);
        run.exited.reject(err);
        this.#runs.delete(id);
      }
    };
    child.once('error', (err) => fail(`could not be started: ${err.message}`));
    child.once('exit', (code, signal) => fail(`ended (${signal ?? `code ${code}`})`));
    child.stdin!.on('error', () => {});
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const event = JSON.parse(line) as RunnerEvent;
      if (event.type === 'ready') return ready.resolve(event.runner);
      const run = this.#runs.get(event.id);
      if (!run) return;
      if (event.type === 'started') run.started.resolve(event.terraform);
      else if (event.type === 'output') run.events.emit('output');
      else {
        this.#runs.delete(event.id);
        run.started.reject(new AppError('unavailable', event.exit.error ?? 'terraform has ended'));
        run.exited.resolve(event.exit);
      }
    });
    ready.promise.catch((err) => this.#log.error('cannot start the runner', { err }));
    return ready.promise;
  }
}

const noRunner = (why: string) => new AppError('unavailable', `The process that runs terraform ${why}.`);
