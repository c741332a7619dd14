import { RE2JS } from 're2js';

/**
 * Regular expressions of the RE2 syntax, which is Go's and so Terraform's. Matching takes time linear in the text:
 * there are no backreferences and no lookaround.
 */
export interface Expression {
  /** Whether any part of the text matches. @throws Error when the text is too long for this expression. */
  test(text: string): boolean;
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
  const longest = Math.floor(MOST_STEPS / program.programSize());
  return {
    test(text) {
      if (text.length > longest)
        throw new Error(`the text of ${text.length} characters is too long for this expression`);
      return program.test(text);
    },
  };
}
