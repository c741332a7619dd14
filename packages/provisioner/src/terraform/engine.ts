import { Readable } from 'node:stream';
import { requiredVersions } from '@platform/hcl';
import tar from 'tar-stream';
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
