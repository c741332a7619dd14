import { createContext, runInContext } from 'node:vm';

const POSIX: Record<string, string> = {
  alnum: 'a-zA-Z0-9',
  alpha: 'a-zA-Z',
  ascii: '\\x00-\\x7F',
  blank: '\\t ',
  cntrl: '\\x00-\\x1F\\x7F',
  digit: '0-9',
  graph: '!-~',
  lower: 'a-z',
  print: ' -~',
  punct: '!-\\/:-@\\[-`{-~',
  space: '\\t\\n\\v\\f\\r ',
  upper: 'A-Z',
  word: '\\w',
  xdigit: '0-9A-Fa-f',
};

const LIMIT_MS = 50;

/** A template's regular expression (RE2 syntax) in JavaScript's: named groups, leading flags, anchors, POSIX classes. */
export function fromRe2(pattern: string): RegExp {
  const leading = /^\(\?([imsU]+)\)/.exec(pattern);
  const flags = [...(leading?.[1] ?? '')].filter((flag) => flag !== 'U').join('');
  const body = (leading ? pattern.slice(leading[0].length) : pattern).replace(
    /\\.|\[:(\^?)([a-z]+):\]|\(\?P</g,
    (all, not: string | undefined, name: string | undefined) => {
      if (all === '\\A') return '(?<![\\s\\S])';
      if (all === '\\z') return '(?![\\s\\S])';
      if (all === '(?P<') return '(?<';
      if (name === undefined) return all;
      const set = POSIX[name];
      if (set === undefined || not) throw new SyntaxError(`unknown character class ${all}`);
      return set;
    },
  );
  return new RegExp(body, [...new Set(flags)].join(''));
}

/** Whether the expression is one that can be run. */
export function regexError(pattern: string): string | undefined {
  try {
    fromRe2(pattern);
    return undefined;
  } catch (err) {
    return (err as Error).message;
  }
}

/**
 * Whether the value matches, within 50 ms: an expression that backtracks without end must not hold up the server or daemon that checks it.
 * Throws when it takes longer.
 */
export function matches(pattern: string, value: string): boolean {
  const context = createContext({ expression: fromRe2(pattern), value });
  try {
    return runInContext('expression.test(value)', context, { timeout: LIMIT_MS }) as boolean;
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw err;
    throw new Error(`the expression took longer than ${LIMIT_MS} ms`);
  }
}
