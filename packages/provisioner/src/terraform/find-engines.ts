// A daemon can have several versions of Terraform and OpenTofu: its engines.

import { isAtLeast } from '@ropewalk/kit/version';
import { type FindOptions, findTerraform } from './binary.ts';
import { type InstallOptions, installableTerraform } from './install.ts';
import { type NamedEngine, namedEngine } from './named-engine.ts';
import type { TerraformBinary } from './version.ts';

export interface EngineChoice {
  /** Paths of programs. */
  paths: readonly string[];
  /** Programs to download. They come after those of `paths`. */
  named: readonly NamedEngine[];
}

/**
 * The chosen engines. Without a choice, the one that `findTerraform` finds, and the version to install if that is newer:
 * jobs whose template excludes the terraform on PATH then download it.
 * @throws AppError `unavailable` if one of them is not usable.
 */
export async function findEngines(
  { paths, named }: EngineChoice,
  options: Omit<FindOptions, 'path' | 'install'> & { install: InstallOptions },
): Promise<TerraformBinary[]> {
  if (paths.length + named.length === 0) {
    const found = await findTerraform(options);
    const newer = installableTerraform(options.install);
    return newer && !isAtLeast(found.version, newer.version) ? [found, newer] : [found];
  }
  return Promise.all([
    ...paths.map((path) => findTerraform({ ...options, path })),
    ...named.map((one) => namedEngine(one, options.install)),
  ]);
}
