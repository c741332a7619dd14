import { AppError } from '@ropewalk/kit';
import { type Kept, ShortLived } from '../app/values/short-lived.ts';
import { checkWritable, isPgError, ping, READ_ONLY, type Sql } from '../db/connect.ts';

/**
 * A database that neither answers nor breaks its connections (a stopped process, a frozen machine, a full disk under it)
 * leaves every statement waiting without an error. When requests have waited for long, the server sends the database a
 * query on a separate connection. If that gets no answer, all of these requests get a 503. Their statements may still
 * run later.
 */
export interface DatabaseStall {
  /**
   * The outcome of the work, or `unavailable` if it waits for a database that does not answer. A request that is
   * `answered` meanwhile, such as a stream, is left alone.
   */
  guard<T>(work: Promise<T>, answered?: () => boolean): Promise<T>;
  /** Resolves if the database answers and accepts writes. @throws AppError `unavailable` after two seconds at most. */
  answers(): Promise<void>;
  close(): void;
}

const EVERY_MS = 250;
/** How long a request waits before the check. Together with the check's own limit this is less than five seconds. */
const SLOW_MS = 2_500;
const ANSWER_MS = 1_500;
const READY_MS = 2_000;

interface Waiting extends Kept {
  since: number;
  answered: (() => boolean) | undefined;
  giveUp(reason: AppError): void;
}

const away = () =>
  new AppError('unavailable', 'The database does not answer. Try again in a moment.', {
    detail: 'The request may still take effect when the database answers again.',
  });

const readOnly = () =>
  new AppError('unavailable', 'The database accepts no changes at the moment.', {
    detail:
      'The database is a standby, or a primary that is being replaced. The server continues when the database accepts changes again.',
  });

/** @param sql a pool of one connection that nothing else uses */
export function watchDatabaseStall(sql: Sql): DatabaseStall {
  const waiting = new ShortLived<Waiting>();
  let checking: Promise<boolean | 'read-only'> | undefined;
  let asked: { since: number; answer: Promise<boolean> } | undefined;

  /** One query at a time. A second one would only wait behind the first. */
  function ask(): { since: number; answer: Promise<boolean> } {
    if (asked) return asked;
    const answer = ping(sql).then(
      () => true,
      () => false,
    );
    const mine = { since: performance.now(), answer };
    asked = mine;
    void answer.then((answered) => {
      if (asked === mine) asked = undefined;
      if (!answered) giveUp();
    });
    return mine;
  }

  /** Whether the database accepts writes, or else does not answer. */
  function writable(): Promise<boolean | 'read-only'> {
    checking ??= checkWritable(sql)
      .then(
        () => true,
        (err) => isPgError(err, READ_ONLY) && ('read-only' as const),
      )
      .finally(() => {
        checking = undefined;
      });
    return checking;
  }

  /** The requests that have waited for long. */
  function slow(): Waiting[] {
    const before = performance.now() - SLOW_MS;
    return waiting.all().filter((request) => {
      if (request.since > before) return false;
      if (!request.answered?.()) return true;
      waiting.delete(request);
      return false;
    });
  }

  function giveUp(): void {
    for (const request of slow()) {
      waiting.delete(request);
      request.giveUp(away());
    }
  }

  const look = async () => {
    if (slow().length === 0) return;
    const mine = ask();
    if (performance.now() - mine.since < ANSWER_MS) return;
    // after a pause of this process, the answer may have arrived without being read
    await new Promise(setImmediate);
    if (asked === mine) giveUp();
  };
  const timer = setInterval(() => void look(), EVERY_MS).unref();

  return {
    guard(work, answered) {
      return new Promise((resolve, reject) => {
        const mine: Waiting = { at: -1, since: performance.now(), answered, giveUp: reject };
        waiting.add(mine);
        work.then(
          (value) => {
            waiting.delete(mine);
            resolve(value);
          },
          (err) => {
            waiting.delete(mine);
            reject(err);
          },
        );
      });
    },
    async answers() {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), READY_MS);
      });
      const answered = await Promise.race([ask().answer.then((yes) => yes && writable()), late]);
      clearTimeout(timer);
      if (!answered) throw away();
      if (answered === 'read-only') throw readOnly();
    },
    close: () => clearInterval(timer),
  };
}
