import { readdir } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { type VersionRequirement, versionRequirements } from '@ropewalk/hcl';
import { allowedVersions, isAllowed } from '@ropewalk/kit/version-constraint';
import { sourceFiles } from './source-files.ts';
import type { TerraformBinary } from './version.ts';

/** The maximum number of folders to search. The constraints of the rest are left out: Terraform reports them. */
const MAX_FOLDERS = 2_000;
const MODULES = '.terraform/modules';

/**
 * The versions of Terraform that a template and the modules require that an init has fetched, even if the init failed.
 * With `uid`, this reads only files that a build with this uid can read.
 */
export async function fetchedRequirements(dir: string, uid: number | undefined): Promise<VersionRequirement[]> {
  const files: Record<string, string> = {};
  for (const folder of await sourceFolders(dir))
    for (const [name, text] of Object.entries(await sourceFiles(join(dir, folder), uid)))
      files[posix.join(folder, name)] = text;
  return versionRequirements(files);
}

/** The template's folders and those of its modules. A module that an absolute path names is a link. */
async function sourceFolders(dir: string): Promise<string[]> {
  const links = (await entriesOf(join(dir, MODULES))).filter((entry) => entry.isSymbolicLink());
  const found = ['.', MODULES, ...links.map(({ name }) => posix.join(MODULES, name))];
  for (const folder of found) {
    for (const entry of await entriesOf(join(dir, folder))) {
      if (found.length >= MAX_FOLDERS) return found;
      if (entry.isDirectory() && !entry.name.startsWith('.')) found.push(posix.join(folder, entry.name));
    }
  }
  return found;
}

const entriesOf = (path: string) => readdir(path, { withFileTypes: true }).catch(() => []);

/** The first engine that all of these constraints allow. */
export function firstAllowed(
  engines: readonly TerraformBinary[],
  constraints: readonly string[],
): TerraformBinary | undefined {
  const ranges = allowedVersions(constraints);
  return engines.find(({ version }) => isAllowed(version, ranges));
}

/** The requirements that exclude an engine. */
export const unmetBy = ({ version }: TerraformBinary, requirements: readonly VersionRequirement[]) =>
  requirements.filter(({ constraint }) => !isAllowed(version, allowedVersions([constraint])));
