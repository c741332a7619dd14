// A daemon can have several versions of Terraform and OpenTofu: its engines.

import { Readable } from 'node:stream';
import { requiredVersions } from '@platform/hcl';
import tar from 'tar-stream';
import { type FindOptions, findTerraform } from './binary.ts';
import type { InstallOptions } from './install.ts';
import { type NamedEngine, namedEngine } from './named-engine.ts';
import { firstAllowed } from './requirements.ts';
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

/**
 * The first engine whose version a template allows. The first of all if it allows none, because Terraform itself says
 * that best. `required`: the template's constraint, if the server says it. It includes modules that the archive does
 * not have.
 */
export async function engineFor(
  engines: readonly TerraformBinary[],
  archive: Uint8Array,
  required?: string,
): Promise<TerraformBinary> {
  const [first] = engines;
  if (engines.length === 1) return first!;
  return firstAllowed(engines, required ? [required] : await constraintsIn(archive)) ?? first!;
}

async function constraintsIn(archive: Uint8Array): Promise<string[]> {
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength);
  return bytes.includes('required_version') ? requiredVersions(await sourceFiles(archive)) : [];
}

/** The Terraform files of an archive. Empty for an archive that cannot be read. */
async function sourceFiles(archive: Uint8Array): Promise<Record<string, Uint8Array>> {
  const files: Record<string, Uint8Array> = {};
  const extract = tar.extract();
  Readable.from([Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)]).pipe(extract);
  try {
    for await (const entry of extract) {
      const name = entry.header.name.replace(/^\.\//, '');
      const parts: Buffer[] = [];
      for await (const part of entry as AsyncIterable<Buffer>) if (/\.tf(\.json)?$/.test(name)) parts.push(part);
      if (parts.length > 0) files[name] = Buffer.concat(parts);
    }
  } catch {
    return {}; // the job reports it when it unpacks the archive
  }
  return files;
}
