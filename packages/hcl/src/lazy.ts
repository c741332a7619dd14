import type { Value } from './values.ts';

/**
 * Something that expressions read in parts, each evaluated when it is first read: the blocks of a module, for example.
 * So a block may refer to one argument of another, whatever the other's remaining arguments depend on.
 */
export abstract class Lazy {
  /** Evaluates all parts. Throws EvaluationError, as do the other methods. */
  abstract value(): Value;
  abstract attribute(name: string): Term;
  abstract index(key: Value): Term;
  /** The keys and elements that a for expression iterates over. Undefined: those of the value. */
  entries(): [Value, Term][] | undefined {
    return undefined;
  }
  /** The elements that a splat reads. Undefined: those of the value. */
  items(): Term[] | undefined {
    return undefined;
  }
}

/** The result of an expression before the parts that nobody reads are evaluated. */
export type Term = Value | Lazy;

export const force = (term: Term): Value => (term instanceof Lazy ? term.value() : term);
