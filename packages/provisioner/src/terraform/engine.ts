import { requiredVersions } from '@ropewalk/hcl';
import { archiveFiles } from './archive-files.ts';
import { firstAllowed } from './requirements.ts';
import type { TerraformBinary } from './version.ts';

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
  return bytes.includes('required_version') ? requiredVersions(await archiveFiles(archive, /\.tf(\.json)?$/)) : [];
}
