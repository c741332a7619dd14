/**
 * Runs tasks in worker threads: evaluates what people wrote, and reads archives, outside the main thread, within a time
 * and memory budget per task. A thread starts when there is work and ends after some idle time, so that it costs
 * nothing at rest. A task that exceeds its budget ends together with its thread. Each person has at most one running
 * task, so that one person's expensive tasks delay only that person. The same holds for each template whose builds the
 * server begins by itself.
 */
import type { Worker } from 'node:worker_threads';
import { AppError, type ErrorCode } from '@ropewalk/kit';
import {
  type Message,
  type TaskInput,
  type TaskName,
  type TaskOutput,
  transferable,
  type Verdict,
} from './protocol.ts';

export interface PoolOptions {
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
  /** The maximum number of waiting tasks, of one person and of all. */
  mostWaitingEach: number;
  mostWaiting: number;
  /** The maximum number of bytes of waiting and running tasks, of one person and of all. */
  mostBytesEach?: number;
  mostBytes?: number;
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
  close(): Promise<void>;
}

export interface By {
  /** The id of the person who waits for the result. If the server itself does, the id of the template that it evaluates. */
  person: string;
  /** The subject of error messages, as in "Evaluating the template's workspace tags". */
  what: string;
  /** The size of the input in bytes, for large inputs. */
  bytes?: number;
  signal?: AbortSignal | undefined;
}

interface Task {
  message(): Promise<Message>;
  by: By;
  settle(verdict: Verdict): void;
  fail(err: unknown): void;
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
/** How long a task may wait for its turn, in ms. */
const WAIT_MS = 60_000;
const INPUT_MS = 30_000;
/** On a busy machine, a task may take this many times its budget. */
const MAX_BUDGETS = 3;

export function createPool(options: PoolOptions): Pool {
  const threads = new Set<Thread>();
  /** Threads that were ended but still run. They count, so that threads that cannot be stopped do not add up. */
  const ending = new Set<Worker>();
  /** Waiting tasks by person. The first person is next. */
  const waiting = new Map<string, Task[]>();
  const running = new Set<string>();
  let waitingInAll = 0;
  const held = new Map<string, number>();
  let heldInAll = 0;
  let closed = false;

  const fail = (code: ErrorCode, message: string): Verdict => ({
    error: { code, message },
  });

  function hold(person: string, bytes: number): void {
    heldInAll += bytes;
    const now = (held.get(person) ?? 0) + bytes;
    if (now > 0) held.set(person, now);
    else held.delete(person);
  }

  function next(): Task | undefined {
    for (const [person, tasks] of waiting) {
      if (running.has(person)) continue;
      const task = tasks.shift()!;
      waitingInAll--;
      // the others get their turn first
      waiting.delete(person);
      if (tasks.length > 0) waiting.set(person, tasks);
      return task;
    }
    return undefined;
  }

  function limit(thread: Thread, ms: number, over: () => void): void {
    clearTimeout(thread.timer);
    thread.timer = setTimeout(over, ms).unref();
  }

  /** Passes a verdict to the task of a thread. */
  function settle(thread: Thread, verdict: Verdict): void {
    const { task } = thread;
    thread.task = undefined;
    if (!task) return;
    running.delete(task.by.person);
    task.settle(verdict);
  }

  /** Ends a thread. Its task, if any, gets this verdict. */
  function end(thread: Thread, verdict: Verdict): Promise<unknown> {
    clearTimeout(thread.timer);
    threads.delete(thread);
    ending.add(thread.worker);
    const ended = thread.worker.terminate().finally(() => {
      ending.delete(thread.worker);
      dispatch();
    });
    settle(thread, verdict);
    return ended;
  }

  async function begin(thread: Thread, task: Task): Promise<void> {
    thread.task = task;
    running.add(task.by.person);
    const { inputMs = INPUT_MS } = options;
    limit(thread, inputMs, () => {
      settle(
        thread,
        fail('unavailable', `${task.by.what} could not start: its data took too long to read. Try again.`),
      );
      free(thread);
    });
    try {
      const message = await task.message();
      if (thread.task !== task) return;
      const before = await cpuOf(thread);
      if (thread.task !== task) return;
      thread.worker.postMessage(message, transferable(message.input));
      watchBudget(thread, task, before);
    } catch (err) {
      if (thread.task !== task) return;
      task.fail(err);
      free(thread);
    }
  }

  /** The processor time of a thread, in ms. */
  async function cpuOf({ worker }: Thread): Promise<number> {
    // a thread that has ended reports that by an event
    const { user, system } = await worker.cpuUsage().catch(() => ({ user: 0, system: 0 }));
    return (user + system) / 1_000;
  }

  /** Ends the thread when its task has used its budget. A thread that gets no processor gets more time. */
  function watchBudget(thread: Thread, task: Task, before: number): void {
    const { budgetMs } = options;
    const latest = performance.now() + MAX_BUDGETS * budgetMs;
    const over = () => {
      void end(thread, fail('invalid', `${task.by.what} took more than ${budgetMs / 1_000} seconds.`));
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

  /** Gives the thread the next task, or makes it wait for one. */
  function free(thread: Thread): void {
    if (thread.task) running.delete(thread.task.by.person);
    thread.task = undefined;
    limit(thread, options.idleMs, () => void end(thread, fail('unavailable', 'The thread ended.')));
    dispatch();
  }

  function dispatch(): void {
    if (closed) return;
    for (const thread of threads) {
      if (!thread.ready || thread.task) continue;
      const task = next();
      if (!task) return;
      void begin(thread, task);
    }
    const starting = [...threads].filter(({ ready }) => !ready).length;
    const able = [...waiting.keys()].filter((person) => !running.has(person)).length;
    if (able <= starting || threads.size + ending.size >= options.threads) return;
    try {
      start();
    } catch (err) {
      options.broke(err as Error);
      failAll('The server could not start a thread for this. Try again later.');
    }
  }

  function start(): void {
    const worker = options.start({ memoryMb: options.memoryMb });
    const thread: Thread = { worker, ready: false, task: undefined, timer: undefined };
    threads.add(thread);
    worker.unref();
    const gone = (why: Verdict) => {
      if (!threads.has(thread)) return;
      void end(thread, why);
      if (!thread.ready) failAll('The server could not start a thread for this. Try again later.');
    };
    limit(thread, START_MS, () => gone(fail('unavailable', 'The server is too busy. Try again later.')));
    worker.on('message', (message: 'ready' | Verdict) => {
      if (message === 'ready') thread.ready = true;
      else settle(thread, message);
      free(thread);
    });
    worker.on('error', (err: NodeJS.ErrnoException) => {
      const what = thread.task?.by.what ?? 'The task';
      if (err.code === 'ERR_WORKER_OUT_OF_MEMORY')
        return gone(fail('invalid', `${what} needs more than ${options.memoryMb} MB of memory.`));
      options.broke(err);
      gone(fail('internal', `${what} failed.`));
    });
    worker.on('exit', () => gone(fail('unavailable', 'The thread ended.')));
  }

  function failAll(why: string): void {
    const tasks = [...waiting.values()].flat();
    waiting.clear();
    waitingInAll = 0;
    for (const task of tasks) task.settle(fail('unavailable', why));
  }

  return {
    get threads() {
      return threads.size;
    },
    run(name, input, by) {
      return new Promise((resolve, reject) => {
        if (closed) throw new AppError('unavailable', 'The server is shutting down.');
        const mine = waiting.get(by.person) ?? [];
        if (mine.length >= options.mostWaitingEach)
          throw new AppError(
            'rate_limited',
            'Too many of your requests are waiting. Try again when they have finished.',
          );
        const { bytes = 0 } = by;
        if ((held.get(by.person) ?? 0) + bytes > (options.mostBytesEach ?? Number.POSITIVE_INFINITY))
          throw new AppError(
            'rate_limited',
            'Your waiting requests contain too much data. Try again when they have finished.',
          );
        if (waitingInAll >= options.mostWaiting || heldInAll + bytes > (options.mostBytes ?? Number.POSITIVE_INFINITY))
          throw new AppError('rate_limited', 'Too many requests are waiting. Try again later.');
        const over = () => leave('unavailable', 'The server is too busy. Try again later.');
        const gone = () => leave('canceled', 'The client closed the connection.');
        const timer = setTimeout(over, WAIT_MS).unref();
        hold(by.person, bytes);
        const done = () => {
          hold(by.person, -bytes);
          clearTimeout(timer);
          by.signal?.removeEventListener('abort', gone);
        };
        const task: Task = {
          message: async () => ({ name, input: typeof input === 'function' ? await input() : input }),
          by,
          fail(err) {
            done();
            reject(err);
          },
          settle(verdict) {
            done();
            if ('error' in verdict) {
              const { code, message, ...rest } = verdict.error;
              reject(new AppError(code, message, rest));
            } else resolve(verdict.value as TaskOutput<typeof name>);
          },
        };
        // a running task continues: it ends soon by itself
        const leave = (code: 'unavailable' | 'canceled', why: string) => {
          const queue = waiting.get(by.person);
          const at = queue?.indexOf(task) ?? -1;
          if (at < 0) return;
          queue!.splice(at, 1);
          waitingInAll--;
          if (queue!.length === 0) waiting.delete(by.person);
          task.settle(fail(code, why));
        };
        by.signal?.addEventListener('abort', gone, { once: true });
        mine.push(task);
        waiting.set(by.person, mine);
        waitingInAll++;
        if (by.signal?.aborted) gone();
        dispatch();
      });
    },
    async close() {
      closed = true;
      failAll('The server is shutting down.');
      await Promise.all([...threads].map((thread) => end(thread, fail('unavailable', 'The server is shutting down.'))));
    },
  };
}
