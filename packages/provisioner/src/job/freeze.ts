import { createHash } from 'node:crypto';
import { AppError, errorText } from '@platform/kit';
import { DataUploadType, LogLevel, type Module } from '@platform/wire/proto/provisioner';
import { type FrozenPackage, freeze, installedPackages } from '../terraform/frozen.ts';
import type { ModuleFiles } from '../terraform/modules.ts';
import { packPackage } from '../terraform/packages.ts';
import type { Prepared } from '../terraform/prepare.ts';
import type { Stages } from './stages.ts';

/** The largest file that the server stores. */
const MOST_PACKAGE = 100 << 20;

/** Modules inside the template have relative sources. Terraform fetches all others. */
const isFetched = ({ source }: Module): boolean => !/^\.\.?[\\/]/.test(source);

/**
 * Stores on the server what the import has fixed, so that every daemon builds the version with the same providers and
 * modules, also without a registry. The version works without that, so a failure is only a warning.
 */
export async function freezeVersion(
  stages: Stages,
  prepared: Prepared,
  { modules, files }: { modules: readonly Module[]; files: ModuleFiles | undefined },
): Promise<void> {
  const { ctx, shipper } = stages;
  const { frozen } = ctx.port;
  // without their files, the modules are not fixed
  if (!frozen || (!files && modules.some(isFetched))) return;
  try {
    const version = await freeze(prepared.entry, {
      attached: ctx.attachProvider,
      engine: ctx.terraform.engine,
      modulesHash: files?.hash ?? new Uint8Array(),
    });
    if (!version) return;
    const missing = new Set(await frozen.keep(version));
    for (const one of version.packages)
      if (missing.has(one.checksum)) one.fileHash = await uploadPackage(stages, prepared.entry, one);
    if (version.packages.some(({ fileHash }) => fileHash.length > 0)) await frozen.keep(version);
    await ctx.versions.setFrozen(prepared, version.id);
  } catch (err) {
    ctx.signal.throwIfAborted();
    const text = `Cannot store the providers and modules of this version: ${errorText(err)}`;
    shipper.say(LogLevel.WARN, `${text} Daemons that have not prepared it fetch them from their registries.`);
  }
}

/** Uploads a package and returns the SHA-256 of its archive. Empty if the archive is too large. */
async function uploadPackage({ ctx, shipper }: Stages, entry: string, one: FrozenPackage): Promise<Uint8Array> {
  const { address, version } = one;
  const found = (await installedPackages(entry)).find(
    (other) => other.address === address && other.version === version,
  );
  if (!found) throw new AppError('internal', `The provider ${address} is gone from the cache.`);
  const data = await packPackage(found.path, MOST_PACKAGE);
  if (!data) {
    const limit = `more than ${MOST_PACKAGE >> 20} MiB compressed`;
    const text = `The provider ${address} ${version} has ${limit}, so the server does not store it.`;
    shipper.say(LogLevel.INFO, `${text} Daemons that do not have it fetch this version of it from its registry.`);
    return new Uint8Array();
  }
  const hash = createHash('sha256').update(data).digest();
  await ctx.port.upload({ type: DataUploadType.UPLOAD_TYPE_MODULE_FILES, data, hash });
  return hash;
}
