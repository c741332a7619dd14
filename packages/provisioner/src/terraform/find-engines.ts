// A daemon can have several versions of Terraform and OpenTofu: its engines.

import { type FindOptions, findTerraform } from './binary.ts';
import type { InstallOptions } from './install.ts';
import { type NamedEngine, namedEngine } from './named-engine.ts';
import type { TerraformBinary } from './version.ts';

export interface EngineChoice {
  /** Paths of programs. */
  paths: readonly string[];
  /** Programs to download. They come after those of `paths`. */
  named: readonly NamedEngine[];
}

/**
 * The chosen engines, or the one that `findTerraform` finds without a choice.
 * @throws AppError `unavailable` if one of them is not usable.
 */
export async function findEngines(
  { paths, named }: EngineChoice,
  options: Omit<FindOptions, 'path' | 'install'> & { install: InstallOptions },
): Promise<TerraformBinary[]> {
  if (paths.length + named.length === 0) return [await findTerraform(options)];
  return Promise.all([
    ...paths.map((path) => findTerraform({ ...options, path })),
    ...named.map((one) => namedEngine(one, options.install)),
  ]);
}
