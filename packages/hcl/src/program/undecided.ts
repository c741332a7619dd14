import { EvaluationError } from '../values.ts';
import type { Configuration } from './configuration.ts';

/** Why only Terraform can answer. */
export interface Undecided {
  why: string;
}

/** The answer, or why there is none: an EvaluationError. */
export function decide<T>(answer: () => T): T | Undecided {
  try {
    return answer();
  } catch (err) {
    if (err instanceof EvaluationError) return { why: err.message };
    throw err;
  }
}

/** Types of blocks that declare nothing that expressions refer to, and whose effect is known. */
const OTHER_BLOCKS = new Set(['terraform', 'provider', 'check', 'moved', 'removed']);

/** @throws EvaluationError if a module has a file that cannot be parsed, or blocks that only Terraform knows */
export function checkKnown({ diagnostics, others }: Configuration): void {
  const [problem] = diagnostics;
  if (problem) throw new EvaluationError(`${problem.file}:${problem.line}: ${problem.message}`);
  for (const { type, file, line } of others)
    if (!OTHER_BLOCKS.has(type)) throw new EvaluationError(`${file}:${line}: only Terraform knows blocks ${type}.`);
}
