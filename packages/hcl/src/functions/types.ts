import { Dict, EvaluationError, Seq, typeName, type Value } from '../values.ts';

/** The limits of an evaluation. Each method throws EvaluationError beyond its limit. */
export interface Meter {
  /** Counts steps of work. */
  steps(n: number): void;
  /** Checks that this much more text may be created. The text itself counts when it exists. */
  room(characters: number): void;
}

/** The files of a template. Paths have no leading `./`. */
export interface Files {
  /** The content of a file. Undefined if the file does not exist. */
  read(path: string): Uint8Array | undefined;
  paths(): Iterable<string>;
}

interface Signature {
  least: number;
  /** The maximum number of arguments. Default: `least`. */
  most?: number;
  /** Whether null arguments are allowed. Otherwise they are an error. */
  nulls?: true;
  /** Only rearranges its arguments: unknown elements are passed through. */
  structural?: true;
  /** Does not read all of its arguments, so their size costs nothing. */
  constant?: true;
}

/**
 * A function of Terraform's language over known values. Its time and memory are linear in its arguments, whose size the
 * evaluator counts. A function that can take or create more is `metered` and counts it.
 */
export type Fn = Signature &
  (
    | { run(...args: Value[]): Value }
    | { metered(meter: Meter, ...args: Value[]): Value }
    | { reads(files: Files, meter: Meter, ...args: Value[]): Value }
  );

export const MANY = Number.MAX_SAFE_INTEGER;

/** Checks that an argument is a list, set or tuple. */
export function seq(value: Value | undefined, what = 'argument'): Seq {
  if (value instanceof Seq) return value;
  throw new EvaluationError(`A list is needed for the ${what}, not ${typeName(value ?? null)}.`);
}

/** Checks that an argument is a map or object. */
export function dict(value: Value | undefined, what = 'argument'): Dict {
  if (value instanceof Dict) return value;
  throw new EvaluationError(`A map is needed for the ${what}, not ${typeName(value ?? null)}.`);
}
