import { collection } from './collection.ts';
import { conversion } from './conversion.ts';
import { encoding } from './encoding.ts';
import { numeric } from './numeric.ts';
import { text } from './text.ts';
import type { Fn } from './types.ts';

/** Terraform's functions by name. `try` and `can` are the evaluator's own. */
export const functions: Readonly<Record<string, Fn>> = {
  ...numeric,
  ...text,
  ...collection,
  ...encoding,
  ...conversion,
};
