/**
 * Answers of worker threads for transactions. A transaction that waited for a thread would hold its connection and
 * locks while an expensive template is evaluated. So a transaction that lacks an answer is rolled back, the thread
 * computes the answer, and the transaction runs again with it. The second run may ask something else, which is computed
 * in turn.
 */
import { isDeepStrictEqual } from 'node:util';
import { AppError } from '@ropewalk/kit';
import type { Ctx } from '../context/context.ts';
import type { TaskInput, TaskName, TaskOutput } from '../threads/protocol.ts';
import type { By } from '../threads/task-queue.ts';

type Ask<T> = (ctx: Ctx, by: Omit<By, 'what'>) => Promise<T>;

export interface Answers {
  /** The result of a thread for `input`, which is plain data. @throws AppError of the result */
  of<K extends TaskName>(task: K, input: TaskInput<K>, ask: Ask<TaskOutput<K>>): TaskOutput<K>;
  /** Calls `report` once, after the last run of the transaction. Replaces what an earlier run gave. */
  whenOver(report: (committed: boolean) => void): void;
}

interface Question {
  task: TaskName;
  input: unknown;
}

class Unanswered extends Error {
  readonly question: Question;
  readonly ask: Ask<unknown>;
  constructor(question: Question, ask: Ask<unknown>) {
    super('A worker thread must compute an answer first.');
    this.question = question;
    this.ask = ask;
  }
}

/** The maximum number of runs of a transaction. Each run may need other answers because other transactions change its data. */
const MAX_ROUNDS = 6;

/**
 * Runs a transaction that needs answers. When one is missing, `run` throws, is rolled back, and runs again. `templateId`:
 * the template of a build that the server begins by itself. Answers for other templates do not wait for its answers.
 */
export async function withAnswers<T>(ctx: Ctx, run: (answers: Answers) => Promise<T>, templateId = ''): Promise<T> {
  const known: (Question & { answer: { value: unknown } | { error: AppError } })[] = [];
  let report = (_committed: boolean): void => {};
  const forget = () => {
    report = () => {};
  };
  const answers: Answers = {
    whenOver(given) {
      report = given;
    },
    of(task, input, ask) {
      // much faster than a key built from texts of several megabytes
      const answer = known.find((one) => one.task === task && isDeepStrictEqual(one.input, input))?.answer;
      if (!answer) throw new Unanswered({ task, input }, ask);
      if ('error' in answer) throw answer.error;
      return answer.value as TaskOutput<typeof task>;
    },
  };
  const by = { person: ctx.actor.kind === 'user' ? ctx.actor.id : templateId, signal: ctx.signal };
  for (let round = 0; round < MAX_ROUNDS; round++) {
    forget();
    try {
      const value = await run(answers);
      report(true);
      return value;
    } catch (err) {
      if (!(err instanceof Unanswered)) {
        report(false);
        throw err;
      }
      const answer = await err.ask(ctx, by).then(
        (value) => ({ value }),
        (error: unknown) => {
          if (error instanceof AppError) return { error };
          throw error;
        },
      );
      known.push({ ...err.question, answer });
    }
  }
  throw new AppError('conflict', 'The data for this request keeps changing. Try again.');
}
