import { collection } from './collection.ts';
import { conversion } from './conversion.ts';
import { deferred } from './deferred.ts';
import { encoding } from './encoding.ts';
import { files } from './files.ts';
import { network } from './network.ts';
import { numeric } from './numeric.ts';
import { text } from './text.ts';
import { time } from './time.ts';
import type { Fn } from './types.ts';
import { yaml } from './yaml.ts';

/** Terraform's functions by name. The evaluator implements `try`, `can`, `templatefile` and `templatestring`. */
export const functions: Readonly<Record<string, Fn>> = {
  ...numeric,
  ...text,
  ...collection,
  ...encoding,
  ...conversion,
  ...deferred,
  ...files,
  ...network,
  ...time,
  ...yaml,
};
