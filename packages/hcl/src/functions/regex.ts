import { createContext, runInContext } from 'node:vm';
import { EvaluationError } from '../values.ts';

const POSIX: Record<string, string> = {
  alnum: 'a-zA-Z0-9',
  alpha: 'a-zA-Z',
  blank: '\\t ',
  digit: '0-9',
  lower: 'a-z',
  punct: '!-\\/:-@\\[-`{-~',
  space: '\\t\\n\\v\\f\\r ',
  upper: 'A-Z',
  word: '\\w',
  xdigit: '0-9A-Fa-f',
};
const LIMIT_MS = 50;

/** An RE2 expression as JavaScript has it. Throws EvaluationError when it is none. */
export function fromRe2(pattern: string, extraFlags = ''): RegExp {
  const leading = /^\(\?([ims]+)\)/.exec(pattern);
  const body = (leading ? pattern.slice(leading[0].length) : pattern).replace(
    /\\.|\[:([a-z]+):\]|\(\?P</g,
    (all, name: string | undefined) => {
      if (all === '\\A') return '(?<![\\s\\S])';
      if (all === '\\z') return '(?![\\s\\S])';
      if (all === '(?P<') return '(?<';
      return name === undefined ? all : (POSIX[name] ?? all);
    },
  );
  try {
    return new RegExp(body, [...new Set((leading?.[1] ?? '') + extraFlags)].join(''));
  } catch (err) {
    throw new EvaluationError((err as Error).message);
  }
}

/** Runs a global expression over a text to the end, in at most 50 ms: a template's author must not hold the server up. */
export function allMatches(expression: RegExp, text: string): RegExpMatchArray[] {
  try {
    const context = createContext({ expression, text });
    return runInContext('[...text.matchAll(expression)]', context, { timeout: LIMIT_MS }) as RegExpMatchArray[];
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw err;
    throw new EvaluationError(`The regular expression takes longer than ${LIMIT_MS} ms.`);
  }
}
