import { createHash } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, errorText } from '@ropewalk/kit';
import { DataUploadType, LogLevel, type Module } from '@ropewalk/wire/proto/provisioner';
import { type FrozenPackage, freeze } from '../terraform/frozen.ts';
import { archiveModules, type ModuleFiles } from '../terraform/modules.ts';
import { packPackage } from '../terraform/packages.ts';
import type { Prepared } from '../terraform/prepare.ts';
import type { JobContext } from './context.ts';

/** The largest file that a server stores. An older server takes archives of one file only. */
const MAX_FILE = 100 << 20;
/** A part of an archive, in bytes. The server has it in memory. */
const PART = 8 << 20;

/** Modules inside the template have relative sources. Terraform fetches all others. */
const isFetched = ({ source }: Module): boolean => !/^\.\.?[\\/]/.test(source);

/**
 * Archives the fetched modules, and stores on the server what the import has fixed. So every daemon builds the version
 * with the same providers and modules, also without a registry. The version works without that, so a failure is only a
 * warning. Returns the archive of the modules.
 */
export async function freezeVersion(
  ctx: JobContext,
  prepared: Prepared,
  modules: readonly Module[],
): Promise<ModuleFiles | undefined> {
  const files = await moduleFiles(ctx, prepared.entry);
  // without their files, the modules are not fixed
  if (files || !modules.some(isFetched)) await storeFrozen(ctx, prepared, files);
  return files;
}

async function moduleFiles({ session, shipper }: JobContext, dir: string): Promise<ModuleFiles | undefined> {
  try {
    return await archiveModules(dir, { uid: session.entry.user?.uid, templateDir: session.templateDir });
  } catch (err) {
    shipper.say(LogLevel.WARN, `Cannot archive the fetched modules: ${errorText(err)}`);
    return undefined;
  }
}

async function storeFrozen(ctx: JobContext, prepared: Prepared, files: ModuleFiles | undefined): Promise<void> {
  const { frozen } = ctx.port;
  if (!frozen) return;
  try {
    const fixed = await freeze(prepared.entry, {
      attached: ctx.attachProvider,
      engine: ctx.terraform.engine,
      modulesHash: files?.hash ?? new Uint8Array(),
    });
    if (!fixed) return;
    const { version, folders } = fixed;
    const { missing, mostBytes } = await frozen.keep(version);
    const limits = mostBytes > 0 ? { most: mostBytes, part: PART } : { most: MAX_FILE, part: MAX_FILE };
    for (const one of version.packages.filter(({ checksum }) => missing.includes(checksum))) {
      const [first = new Uint8Array(), ...more] = await uploadPackage(ctx, one, folders.get(one.checksum)!, limits);
      one.fileHash = first;
      one.moreHashes = more;
    }
    if (version.packages.some(({ fileHash }) => fileHash.length > 0)) await frozen.keep(version);
    await ctx.versions.setFrozen(prepared, version.id);
  } catch (err) {
    ctx.signal.throwIfAborted();
    const text = `Cannot store the providers and modules of this version: ${errorText(err)}`;
    ctx.shipper.say(LogLevel.WARN, `${text} Daemons that have not prepared it fetch them from their registries.`);
  }
}

/** Uploads a package in parts and returns the SHA-256 of each. Empty if its archive is larger than `most`. */
async function uploadPackage(
  { session, port, shipper, signal }: JobContext,
  { address, version }: FrozenPackage,
  folder: string,
  { most, part }: { most: number; part: number },
): Promise<Uint8Array[]> {
  const archive = join(session.dir, `package-${crypto.randomUUID()}`);
  try {
    const size = await packPackage(folder, archive, most);
    if (size === undefined) {
      const limit = `more than ${most >> 20} MiB compressed`;
      const text = `The provider ${address} ${version} has ${limit}, so the server does not store it.`;
      shipper.say(LogLevel.INFO, `${text} Daemons that do not have it fetch this version of it from its registry.`);
      return [];
    }
    const hashes: Uint8Array[] = [];
    for (let at = 0; at < size; at += part) {
      signal.throwIfAborted();
      const data = await readPart(archive, at, Math.min(part, size - at));
      const hash = createHash('sha256').update(data).digest();
      await port.upload({ type: DataUploadType.UPLOAD_TYPE_MODULE_FILES, data, hash });
      hashes.push(hash);
    }
    return hashes;
  } finally {
    await rm(archive, { force: true });
  }
}

async function readPart(path: string, at: number, length: number): Promise<Buffer> {
  const file = await open(path);
  try {
    const data = Buffer.allocUnsafeSlow(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await file.read(data, done, length - done, at + done);
      if (bytesRead === 0) throw new AppError('internal', `${path} ends early.`);
      done += bytesRead;
    }
    return data;
  } finally {
    await file.close();
  }
}
