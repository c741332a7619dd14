import { AppError, type ErrorCode } from '@ropewalk/kit';
import type { Message, TaskInput, TaskName, TaskOutput, Verdict } from './protocol.ts';

export interface QueueLimits {
  /** The maximum number of waiting tasks, of one person and of all. */
  mostWaitingEach: number;
  mostWaiting: number;
  /** The maximum number of bytes of waiting and running tasks, of one person and of all. */
  mostBytesEach?: number;
  mostBytes?: number;
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

/** A task that waits or runs. */
export interface Task {
  message(): Promise<Message>;
  by: By;
  settle(verdict: Verdict): void;
  fail(err: unknown): void;
}

/** How long a task may wait for its turn, in ms. */
const WAIT_MS = 60_000;

export const failure = (code: ErrorCode, message: string): Verdict => ({ error: { code, message } });

/** The tasks that wait for a thread. Each person has a turn after the others, and only one running task. */
export class TaskQueue {
  readonly #limits: QueueLimits;
  /** Waiting tasks by person. The first person is next. */
  readonly #waiting = new Map<string, Task[]>();
  #waitingInAll = 0;
  /** The persons with a running task. */
  readonly #running = new Set<string>();
  /** The bytes of waiting and running tasks, by person and of all. */
  readonly #held = new Map<string, number>();
  #heldInAll = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  /**
   * Adds a task, and calls `added` when it waits. Resolves with its result.
   * @throws AppError `rate_limited`, or the task's error
   */
  add<K extends TaskName>(
    name: K,
    input: TaskInput<K> | (() => Promise<TaskInput<K>>),
    by: By,
    added: () => void,
  ): Promise<TaskOutput<K>> {
    return new Promise((resolve, reject) => {
      this.#checkLimits(by);
      const timer = setTimeout(
        () => this.#leave(task, failure('unavailable', 'The server is too busy. Try again later.')),
        WAIT_MS,
      ).unref();
      const gone = () => this.#leave(task, failure('canceled', 'The client closed the connection.'));
      const { bytes = 0 } = by;
      this.#hold(by.person, bytes);
      const done = () => {
        this.#hold(by.person, -bytes);
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
          } else resolve(verdict.value as TaskOutput<K>);
        },
      };
      by.signal?.addEventListener('abort', gone, { once: true });
      const mine = this.#waiting.get(by.person) ?? [];
      mine.push(task);
      this.#waiting.set(by.person, mine);
      this.#waitingInAll++;
      if (by.signal?.aborted) gone();
      added();
    });
  }

  #checkLimits({ person, bytes = 0 }: By): void {
    const { mostWaitingEach, mostWaiting } = this.#limits;
    const { mostBytesEach = Number.POSITIVE_INFINITY, mostBytes = Number.POSITIVE_INFINITY } = this.#limits;
    if ((this.#waiting.get(person)?.length ?? 0) >= mostWaitingEach) {
      throw new AppError('rate_limited', 'Too many of your requests are waiting. Try again when they have finished.');
    }
    if ((this.#held.get(person) ?? 0) + bytes > mostBytesEach) {
      throw new AppError(
        'rate_limited',
        'Your waiting requests contain too much data. Try again when they have finished.',
      );
    }
    if (this.#waitingInAll >= mostWaiting || this.#heldInAll + bytes > mostBytes) {
      throw new AppError('rate_limited', 'Too many requests are waiting. Try again later.');
    }
  }

  /** Ends a waiting task. A running task continues: it ends soon by itself. */
  #leave(task: Task, verdict: Verdict): void {
    const { person } = task.by;
    const queue = this.#waiting.get(person);
    const at = queue?.indexOf(task) ?? -1;
    if (at < 0) return;
    queue!.splice(at, 1);
    this.#waitingInAll--;
    if (queue!.length === 0) this.#waiting.delete(person);
    task.settle(verdict);
  }

  /** Takes the next task, which then runs until `ended` is called. Undefined if none can run now. */
  take(): Task | undefined {
    for (const [person, tasks] of this.#waiting) {
      if (this.#running.has(person)) continue;
      const task = tasks.shift()!;
      this.#waitingInAll--;
      // the others get their turn first
      this.#waiting.delete(person);
      if (tasks.length > 0) this.#waiting.set(person, tasks);
      this.#running.add(person);
      return task;
    }
    return undefined;
  }

  /** The person's task runs no more. */
  ended({ by }: Task): void {
    this.#running.delete(by.person);
  }

  /** The number of tasks that could run now. */
  get able(): number {
    return [...this.#waiting.keys()].filter((person) => !this.#running.has(person)).length;
  }

  /** Ends all waiting tasks. */
  failAll(why: string): void {
    const tasks = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    this.#waitingInAll = 0;
    for (const task of tasks) task.settle(failure('unavailable', why));
  }

  #hold(person: string, bytes: number): void {
    this.#heldInAll += bytes;
    const now = (this.#held.get(person) ?? 0) + bytes;
    if (now > 0) this.#held.set(person, now);
    else this.#held.delete(person);
  }
}
