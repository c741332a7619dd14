import { Dict, EvaluationError, Seq, typeName, type Value } from '../values.ts';

/** The limits of an evaluation; each throws EvaluationError past one. */
export interface Meter {
  /** Counts steps of work. */
  steps(n: number): void;
  /** Checks that this much more text may be made; the text itself is counted when it is there. */
  room(characters: number): void;
}

interface Signature {
  least: number;
  /** Most arguments; as many as `least` by default. */
  most?: number;
  /** Null arguments are passed on; otherwise they are an error. */
  nulls?: true;
  /** Only arranges what it is given: elements that are unknown are passed through. */
  structural?: true;
  /** Does not read its arguments through, so that their size costs nothing. */
  constant?: true;
}

/**
 * A function of Terraform's language, over values that are known. Its time and memory are linear in its arguments, whose
 * size the evaluator counts; what can take or make more than that is `metered` and counts it as it goes.
 */
export type Fn = Signature & ({ run(...args: Value[]): Value } | { metered(meter: Meter, ...args: Value[]): Value });

export const MANY = Number.MAX_SAFE_INTEGER;

/** An argument that must be a list, set or tuple. */
export function seq(value: Value | undefined, what = 'argument'): Seq {
  if (value instanceof Seq) return value;
  throw new EvaluationError(`A list is needed for the ${what}, not ${typeName(value ?? null)}.`);
}

/** An argument that must be a map or object. */
export function dict(value: Value | undefined, what = 'argument'): Dict {
  if (value instanceof Dict) return value;
  throw new EvaluationError(`A map is needed for the ${what}, not ${typeName(value ?? null)}.`);
}
