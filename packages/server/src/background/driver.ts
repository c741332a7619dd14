import { abortable } from '@ropewalk/kit/abortable';
import type { BackgroundTask, TaskOutcome, TaskRun, TaskStatus } from '../app/context/background-task.ts';
import type { Services } from '../app/context/context.ts';
import { textForAdministrators } from '../app/context/unexpected.ts';
import type { Sql } from '../db/connect.ts';
import { withTaskLock } from '../db/queries/task-locks.ts';

const TIMEOUT_MS = 60_000;
/** So long `close` waits for runs that do not end when they are aborted. */
const CLOSE_MS = 5_000;

interface DriverOptions extends Pick<Services, 'clock' | 'log'> {
  /**
   * The pool whose connections hold the locks of tasks while these run. It is not the pool that tasks work with, so that
   * many long runs leave connections for requests.
   */
  locks: Sql;
}

export interface BackgroundDriver {
  /** Adds a task and runs it, immediately unless it has a delay. */
  add(task: BackgroundTask): void;
  /** Runs a task now and waits for that run's end. A run that goes on already is waited for first. */
  runNow(name: string): Promise<void>;
  status(): TaskStatus[];
  /** Calls back after each run from now on. */
  onRun(listener: (run: TaskRun) => void): void;
  /** Aborts what runs and starts nothing more. */
  close(): Promise<void>;
}

/**
 * Runs the server's background tasks. Each task runs alone: when it is added, then a period after each end, and
 * earlier when an event wakes it. A wake-up during a run starts one more run afterwards. A failed run is logged, counted
 * and shown on the health page. The next run comes after the task's retry time.
 */
export function createBackgroundDriver(options: DriverOptions): BackgroundDriver {
  const loops = new Map<string, TaskLoop>();
  const inTurn = createTurns();
  const listeners: ((run: TaskRun) => void)[] = [];
  const onRun = (run: TaskRun) => {
    for (const listener of listeners) listener(run);
  };
  let closed = false;
  return {
    add(task) {
      if (loops.has(task.name)) throw new Error(`The background task "${task.name}" exists already.`);
      if (!closed) loops.set(task.name, new TaskLoop(task, { ...options, onRun }, inTurn));
    },
    runNow(name) {
      const loop = loops.get(name);
      if (!loop) throw new Error(`There is no background task "${name}".`);
      return loop.runNow();
    },
    status: () => [...loops.values()].map((loop) => loop.status),
    onRun: (listener) => void listeners.push(listener),
    async close() {
      closed = true;
      await Promise.all([...loops.values()].map((loop) => loop.close()));
    },
  };
}

interface LoopOptions extends DriverOptions {
  onRun(run: TaskRun): void;
}

type InTurn = <T>(group: string | undefined, run: () => Promise<T>) => Promise<T>;

/** Runs what has the same group one after the other. */
function createTurns(): InTurn {
  const last = new Map<string, Promise<unknown>>();
  return (group, run) => {
    if (group === undefined) return run();
    const turn = (last.get(group) ?? Promise.resolve()).then(run);
    last.set(
      group,
      turn.catch(() => {}),
    );
    return turn;
  };
}

class TaskLoop {
  readonly #task: BackgroundTask;
  readonly #options: LoopOptions;
  readonly #inTurn: InTurn;
  readonly #stop = new AbortController();
  readonly #unsubscribe: (() => void)[];
  readonly #runs: Record<TaskOutcome, number> = { succeeded: 0, failed: 0, skipped: 0 };
  #timer: NodeJS.Timeout | undefined;
  #gathering: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #last: Pick<TaskStatus, 'lastRun' | 'durationMs' | 'error'> = { lastRun: undefined, durationMs: 0, error: undefined };

  constructor(task: BackgroundTask, options: LoopOptions, inTurn: InTurn) {
    this.#task = task;
    this.#options = options;
    this.#inTurn = inTurn;
    this.#unsubscribe = task.wakeOn?.(() => this.#onEvent()) ?? [];
    if (task.delayMs === undefined) this.#wake();
    else this.#timer = setTimeout(() => this.#wake(), task.delayMs).unref();
  }

  get status(): TaskStatus {
    const { name, periodMs } = this.#task;
    return { name, periodMs, ...this.#last, runs: { ...this.#runs } };
  }

  async runNow(): Promise<void> {
    while (this.#running) await this.#running;
    this.#wake();
    await this.#running;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('the server ends'));
    clearTimeout(this.#timer);
    clearTimeout(this.#gathering);
    for (const off of this.#unsubscribe) off();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS);
    });
    await Promise.race([this.#running, late]);
    clearTimeout(timer);
  }

  #onEvent(): void {
    const { gatherMs } = this.#task;
    if (gatherMs === undefined) this.#wake();
    else {
      this.#gathering ??= setTimeout(() => {
        this.#gathering = undefined;
        this.#wake();
      }, gatherMs).unref();
    }
  }

  #wake(): void {
    if (this.#stop.signal.aborted) return;
    if (this.#running) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#running = this.#inTurn(this.#task.group, () => this.#run()).then((next) => {
      this.#running = undefined;
      if (this.#stop.signal.aborted) return;
      if (this.#again) {
        this.#again = false;
        this.#wake();
      } else {
        this.#timer = setTimeout(() => this.#wake(), next).unref();
      }
    });
  }

  /** One run; never rejects. Returns how long until the next, in ms. */
  async #run(): Promise<number> {
    const { name, periodMs, retryMs, timeoutMs = TIMEOUT_MS, needsLock } = this.#task;
    const { locks, clock, log } = this.#options;
    // the server ended while the task waited for its turn
    if (this.#stop.signal.aborted) return periodMs;
    const start = clock.monotonic();
    const timeout = AbortSignal.timeout(timeoutMs);
    const signal = AbortSignal.any([this.#stop.signal, timeout]);
    let next: number | undefined;
    let outcome: TaskOutcome = 'succeeded';
    let error: string | undefined;
    try {
      // a task that ignores its signal holds up nothing but itself
      const run = (until: AbortSignal) => abortable(this.#task.run(until), until);
      if (needsLock) {
        const done = await withTaskLock(locks, name, (lost) => run(AbortSignal.any([signal, lost])));
        if (done) next = done.result;
        else outcome = 'skipped';
      } else {
        next = await run(signal);
      }
    } catch (err) {
      if (this.#stop.signal.aborted) return periodMs;
      outcome = 'failed';
      next = retryMs;
      error = timeout.aborted ? `it took longer than ${timeoutMs} ms` : textForAdministrators(err, log, { task: name });
      log.warn('a background task failed', { task: name, err: error });
    }
    this.#runs[outcome] += 1;
    const durationMs = clock.monotonic() - start;
    this.#last = { lastRun: clock.now(), durationMs, error };
    this.#options.onRun({ name, outcome, durationMs });
    return Math.max(0, Math.min(periodMs, next ?? periodMs));
  }
}
