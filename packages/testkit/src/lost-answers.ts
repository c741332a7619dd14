import type { Sql } from '@ropewalk/server/db/connect';

export interface LostAnswers {
  sql: Sql;
  /** How many answers were lost. */
  lost: () => number;
}

/**
 * A database whose connection breaks after statements that contain `text`: they take effect, and their answers are lost.
 * `isLost` says for which of them. `nth` counts from 1.
 */
export function loseAnswers(sql: Sql, text: string, isLost: (nth: number, rows: unknown[]) => boolean): LostAnswers {
  let nth = 0;
  let lost = 0;
  const breaking = new Proxy(sql, {
    apply(target, self, args) {
      const statement = Reflect.apply(target, self, args);
      if (!Array.isArray(args[0]) || !args[0].join('').includes(text)) return statement;
      return Promise.resolve(statement).then((rows: unknown[]) => {
        if (!isLost(++nth, rows)) return rows;
        lost++;
        throw Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
      });
    },
  });
  return { sql: breaking, lost: () => lost };
}
