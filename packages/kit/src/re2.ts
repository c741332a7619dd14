import { RE2JS } from 're2js';

/**
 * Regular expressions of the RE2 syntax, which is Go's and so Terraform's. Matching takes time linear in the text:
 * there are no backreferences and no lookaround. Each expression refuses texts on which even that takes too long.
 */
export interface Expression {
  /** Instructions of the program that it was made into: repetitions are written out. */
  size: number;
  /** Whether any part of the text matches. @throws Error when the text is too long for this expression. */
  test(text: string): boolean;
  /**
   * All matches from left to right, as Go finds them. Before each search `spend` is told the most that it may take:
   * instructions times characters. @throws Error when the text is too long to find them all.
   */
  matches(text: string, spend?: (steps: number) => void): Generator<Match>;
}

export interface Match {
  /** In UTF-16 units. */
  index: number;
  text: string;
  /** Of the groups in order; undefined for a group that took no part. */
  groups: (string | undefined)[];
  /** Of the groups with names, where there are any. */
  named?: Record<string, string | undefined>;
}

const MOST_CHARACTERS = 10_000;
/** Instructions of the expression times characters of the text: about half a second. */
const MOST_STEPS = 32 * 1024 * 1024;

/** @throws SyntaxError for an expression that RE2 rejects, or that is longer than 10,000 characters. */
export function compile(pattern: string): Expression {
  if (pattern.length > MOST_CHARACTERS)
    throw new SyntaxError(`the expression is longer than ${MOST_CHARACTERS.toLocaleString('en')} characters`);
  let program: RE2JS;
  try {
    program = RE2JS.compile(pattern);
  } catch (err) {
    throw new SyntaxError((err as Error).message, { cause: err });
  }
  const size = program.programSize();
  const tooLong = (text: string) => new Error(`the text of ${text.length} characters is too long for this expression`);
  return {
    size,
    test(text) {
      if (text.length * size > MOST_STEPS) throw tooLong(text);
      return program.test(text);
    },
    *matches(text, spend) {
      const matcher = program.matcher(text);
      const names = Object.entries(program.namedGroups());
      let steps = 0;
      let end = -1;
      for (;;) {
        // a search may read to the end of the text, and find a match here
        const cost = size * (text.length - Math.max(end, 0) + 1);
        steps += cost;
        if (steps > MOST_STEPS) throw tooLong(text);
        spend?.(cost);
        if (!matcher.find()) return;
        const [index, before] = [matcher.start(), end];
        end = matcher.end();
        // as in Go, nothing is found right behind a match
        if (index === end && index === before) continue;
        const group = (at: number) => matcher.group(at) ?? undefined;
        const groups = Array.from({ length: matcher.groupCount() }, (_, i) => group(i + 1));
        const named = Object.fromEntries(names.map(([name, at]) => [name, group(at)]));
        yield { index, text: text.slice(index, end), groups, ...(names.length > 0 ? { named } : {}) };
      }
    },
  };
}
