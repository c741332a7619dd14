import { RE2JS } from 're2js';

/**
 * Regular expressions in RE2 syntax, as in Go and therefore Terraform. Matching takes time linear in the text: it
 * excludes backreferences and lookaround. Each expression rejects texts on which even linear time is too long.
 */
export interface Expression {
  /** The number of instructions of the compiled program. Repetitions are expanded. */
  size: number;
  /** Whether any part of the text matches. @throws Error if the text is too long for this expression. */
  test(text: string): boolean;
  /**
   * All matches from left to right, as Go finds them. Each search first passes the most steps that it may take
   * (instructions times characters) to `spend`. @throws Error if the text is too long to find them all.
   */
  matches(text: string, spend?: (steps: number) => void): Generator<Match>;
}

export interface Match {
  /** In UTF-16 units. */
  index: number;
  text: string;
  /** The groups in order. Undefined for a group that took no part. */
  groups: (string | undefined)[];
  /** The named groups, if there are any. */
  named?: Record<string, string | undefined>;
}

const MAX_CHARACTERS = 10_000;
/** The limit of instructions times characters of the text: about half a second. */
const MAX_STEPS = 32 * 1024 * 1024;

/** Compiles an expression. @throws SyntaxError if RE2 rejects it or it has more than 10,000 characters. */
export function compile(pattern: string): Expression {
  if (pattern.length > MAX_CHARACTERS)
    throw new SyntaxError(`the expression is longer than ${MAX_CHARACTERS.toLocaleString('en')} characters`);
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
      if (text.length * size > MAX_STEPS) throw tooLong(text);
      return program.test(text);
    },
    *matches(text, spend) {
      const matcher = program.matcher(text);
      const names = Object.entries(program.namedGroups());
      let steps = 0;
      let end = -1;
      for (;;) {
        // A search may read to the end of the text, and find a match here.
        const cost = size * (text.length - Math.max(end, 0) + 1);
        steps += cost;
        if (steps > MAX_STEPS) throw tooLong(text);
        spend?.(cost);
        if (!matcher.find()) return;
        const [index, before] = [matcher.start(), end];
        end = matcher.end();
        // As in Go, an empty match directly after a match does not count.
        if (index === end && index === before) continue;
        const group = (at: number) => matcher.group(at) ?? undefined;
        const groups = Array.from({ length: matcher.groupCount() }, (_, i) => group(i + 1));
        const named = Object.fromEntries(names.map(([name, at]) => [name, group(at)]));
        yield { index, text: text.slice(index, end), groups, ...(names.length > 0 ? { named } : {}) };
      }
    },
  };
}
