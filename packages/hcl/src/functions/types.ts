import { Dict, EvaluationError, Seq, typeName, type Value } from '../values.ts';

/** A function of Terraform's language, over values that are known. */
export interface Fn {
  least: number;
  /** Most arguments; as many as `least` by default. */
  most?: number;
  /** Null arguments are passed on; otherwise they are an error. */
  nulls?: true;
  /** Only arranges what it is given: elements that are unknown are passed through. */
  structural?: true;
  run(...args: Value[]): Value;
}

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
