/**
 * Runs tasks in worker threads: evaluates what people wrote, and reads archives, outside the main thread, within a time
 * and memory budget per task. A thread starts when there is work and ends after some idle time, so that it costs
 * nothing at rest. A task that exceeds its budget ends together with its thread. Each person has at most one running
 * task, so that one person's expensive tasks delay only that person. The same holds for each template whose builds the
 * server begins by itself.
 */
import type { Worker } from 'node:worker_threads';
import { AppError } from '@ropewalk/kit';
import { type TaskInput, type TaskName, type TaskOutput, transferable, type Verdict } from './protocol.ts';
import { type By, failure, type QueueLimits, type Task, TaskQueue } from './task-queue.ts';

export interface PoolOptions extends QueueLimits {
  start(limits: { memoryMb: number }): Worker;
  /** Called with an error in a thread that no task expects. */
  broke(err: Error): void;
  /** The maximum number of threads at a time. */
  threads: number;
  /** The maximum processor time of one task, in ms. */
  budgetMs: number;
  /** The maximum memory for JavaScript objects in each thread, in MB. */
  memoryMb: number;
  /** The time without work after which a thread ends, in ms. */
  idleMs: number;
  /** The longest time for preparing the input of a task, in ms. */
  inputMs?: number;
}

export interface Pool {
  /**
   * Runs a task. A function for the input, for large inputs, is called when the task's turn comes.
   * @throws AppError of the task; `rate_limited` when too many wait; `invalid` when the task exceeds its budget;
   * `canceled` when the signal aborts before it began
   */
  run<K extends TaskName>(name: K, input: TaskInput<K> | (() => Promise<TaskInput<K>>), by: By): Promise<TaskOutput<K>>;
  /** The number of running threads. */
  readonly threads: number;
  /** Whether the server ends, so that tasks fail. */
  readonly closed: boolean;
  close(): Promise<void>;
}

interface Thread {
  worker: Worker;
  ready: boolean;
  task: Task | undefined;
  /** For the budget, the start or the idle time. */
  timer: NodeJS.Timeout | undefined;
}

/** How long a thread may take to start on a busy machine, in ms. */
const START_MS = 30_000;
const INPUT_MS = 30_000;
/** On a busy machine, a task may take this many times its budget. */
const MAX_BUDGETS = 3;

export function createPool(options: PoolOptions): Pool {
  return new ThreadPool(options);
}

class ThreadPool implements Pool {
  readonly #options: PoolOptions;
  readonly #queue: TaskQueue;
  readonly #threads = new Set<Thread>();
  /** Threads that were ended but still run. They count, so that threads that cannot be stopped do not add up. */
  readonly #ending = new Set<Worker>();
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#queue = new TaskQueue(options);
  }

  get threads(): number {
    return this.#threads.size;
  }

  get closed(): boolean {
    return this.#closed;
  }

  async run<K extends TaskName>(
    name: K,
    input: TaskInput<K> | (() => Promise<TaskInput<K>>),
    by: By,
  ): Promise<TaskOutput<K>> {
    if (this.#closed) throw new AppError('unavailable', 'The server is shutting down.');
    return this.#queue.add(name, input, by, () => this.#dispatch());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#queue.failAll('The server is shutting down.');
    const why = failure('unavailable', 'The server is shutting down.');
    await Promise.all([...this.#threads].map((thread) => this.#end(thread, why)));
  }

  /** Gives waiting tasks to free threads, and starts a thread if there are more tasks. */
  #dispatch(): void {
    if (this.#closed) return;
    for (const thread of this.#threads) {
      if (!thread.ready || thread.task) continue;
      const task = this.#queue.take();
      if (!task) return;
      void this.#begin(thread, task);
    }
    const starting = [...this.#threads].filter(({ ready }) => !ready).length;
    const isFull = this.#threads.size + this.#ending.size >= this.#options.threads;
    if (this.#queue.able <= starting || isFull) return;
    try {
      this.#start();
    } catch (err) {
      this.#options.broke(err as Error);
      this.#queue.failAll('The server could not start to process the request. Try again later.');
    }
  }

  #start(): void {
    const { memoryMb } = this.#options;
    const worker = this.#options.start({ memoryMb });
    const thread: Thread = { worker, ready: false, task: undefined, timer: undefined };
    this.#threads.add(thread);
    worker.unref();
    const gone = (why: Verdict) => {
      if (!this.#threads.has(thread)) return;
      void this.#end(thread, why);
      if (!thread.ready) this.#queue.failAll('The server could not start to process the request. Try again later.');
    };
    limit(thread, START_MS, () => gone(failure('unavailable', 'The server is too busy. Try again later.')));
    worker.on('message', (message: 'ready' | Verdict) => {
      if (message === 'ready') thread.ready = true;
      else this.#settle(thread, message);
      this.#free(thread);
    });
    worker.on('error', (err: NodeJS.ErrnoException) => {
      const what = thread.task?.by.what ?? 'The task';
      if (err.code === 'ERR_WORKER_OUT_OF_MEMORY')
        return gone(failure('invalid', `${what} needs more than ${memoryMb} MB of memory.`));
      this.#options.broke(err);
      gone(failure('internal', `${what} failed.`));
    });
    worker.on('exit', () => gone(failure('unavailable', 'The thread ended.')));
  }

  async #begin(thread: Thread, task: Task): Promise<void> {
    thread.task = task;
    const { inputMs = INPUT_MS } = this.#options;
    limit(thread, inputMs, () => {
      const why = `${task.by.what} could not start: its data took too long to read. Try again.`;
      this.#settle(thread, failure('unavailable', why));
      this.#free(thread);
    });
    try {
      const message = await task.message();
      if (thread.task !== task) return;
      const before = await cpuOf(thread);
      if (thread.task !== task) return;
      thread.worker.postMessage(message, transferable(message.input));
      this.#watchBudget(thread, task, before);
    } catch (err) {
      if (thread.task !== task) return;
      task.fail(err);
      this.#free(thread);
    }
  }

  /** Ends the thread when its task has used its budget. A thread that gets no processor gets more time. */
  #watchBudget(thread: Thread, task: Task, before: number): void {
    const { budgetMs } = this.#options;
    const latest = performance.now() + MAX_BUDGETS * budgetMs;
    const over = () => {
      void this.#end(thread, failure('invalid', `${task.by.what} took more than ${budgetMs / 1_000} seconds.`));
    };
    const look = async () => {
      // a thread that runs no JavaScript may not answer
      limit(thread, latest - performance.now(), over);
      const used = (await cpuOf(thread)) - before;
      // the result may have arrived meanwhile
      if (thread.task !== task) return;
      const left = Math.min(budgetMs - used, latest - performance.now());
      if (left > 0) limit(thread, left, () => void look());
      else over();
    };
    limit(thread, budgetMs, () => void look());
  }

  /** Passes a verdict to the task of a thread. */
  #settle(thread: Thread, verdict: Verdict): void {
    const { task } = thread;
    thread.task = undefined;
    if (!task) return;
    this.#queue.ended(task);
    task.settle(verdict);
  }

  /** Gives the thread the next task, or makes it wait for one. */
  #free(thread: Thread): void {
    if (thread.task) this.#queue.ended(thread.task);
    thread.task = undefined;
    limit(thread, this.#options.idleMs, () => void this.#end(thread, failure('unavailable', 'The thread ended.')));
    this.#dispatch();
  }

  /** Ends a thread. Its task, if any, gets this verdict. */
  #end(thread: Thread, verdict: Verdict): Promise<unknown> {
    clearTimeout(thread.timer);
    this.#threads.delete(thread);
    this.#ending.add(thread.worker);
    const ended = thread.worker.terminate().finally(() => {
      this.#ending.delete(thread.worker);
      this.#dispatch();
    });
    this.#settle(thread, verdict);
    return ended;
  }
}

function limit(thread: Thread, ms: number, over: () => void): void {
  clearTimeout(thread.timer);
  thread.timer = setTimeout(over, ms).unref();
}

/** The processor time of a thread, in ms. */
async function cpuOf({ worker }: Thread): Promise<number> {
  // a thread that has ended reports that by an event
  const { user, system } = await worker.cpuUsage().catch(() => ({ user: 0, system: 0 }));
  return (user + system) / 1_000;
}
