import { collection } from './collection.ts';
import { conversion } from './conversion.ts';
import { encoding } from './encoding.ts';
import { numeric } from './numeric.ts';
import { text } from './text.ts';
import type { Fn } from './types.ts';

/** Terraform's functions by name. The evaluator implements `try` and `can`. */
export const functions: Readonly<Record<string, Fn>> = {
  ...numeric,
  ...text,
  ...collection,
  ...encoding,
  ...conversion,
};
