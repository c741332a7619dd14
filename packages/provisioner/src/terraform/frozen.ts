// A frozen version is what the import of a template version has fixed, so that every later build uses the same: the
// providers (by Terraform's lock file and their packages) and the fetched modules. The server keeps it. A daemon that has
// not prepared the version gets everything from there, so it needs no registry.

import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { chmod, cp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError, ensureDirectory, errorText, type Logger } from '@ropewalk/kit';
import { isProviderPackage } from '@ropewalk/rules/provider-package';
import { unpackArchive } from './archive.ts';
import { platformKey } from './install.ts';
import { checksumOf, type PackageStore } from './packages.ts';

export const LOCK_FILE = '.terraform.lock.hcl';

/** A provider as its registry delivered it. */
export interface FrozenPackage {
  /** `host/namespace/type`. */
  address: string;
  version: string;
  /** `h1:…`, as in the lock file. */
  checksum: string;
  /** The SHA-256 of the archive on the server, or of its first part. Empty if the server does not have it. */
  fileHash: Uint8Array;
  /** The SHA-256 of the archive's other parts, in order. */
  moreHashes: Uint8Array[];
}

export interface FrozenVersion {
  id: string;
  platform: string;
  /** `terraform` or `opentofu`. */
  engine: string;
  /** Whether the daemon attached its own coder provider, so that it is not among the packages. */
  attached: boolean;
  lockFile: Uint8Array;
  /** The SHA-256 of the archive of the modules. Empty without modules. */
  moduleFilesHash: Uint8Array;
  packages: FrozenPackage[];
}

/** The server's copy of the frozen version of a job. */
export interface FrozenSource {
  id: string;
  get(): Promise<FrozenVersion | undefined>;
  /** Passes a file to `read`, again from its start if the connection breaks. */
  file<T>(hash: Uint8Array, read: (pieces: AsyncIterable<Uint8Array>) => Promise<T>): Promise<T>;
}

/** The providers of an initialized directory: `host/namespace/type`, version, and the folder of the package. */
export function installedPackages(dir: string): { address: string; version: string; path: string }[] {
  const root = join(dir, '.terraform', 'providers');
  let level = [''];
  for (let depth = 0; depth < 5; depth++) {
    const next: string[] = [];
    for (const path of level) for (const name of entriesOf(join(root, path))) next.push(join(path, name));
    level = next;
  }
  return level.sort().map((path) => {
    const parts = path.split('/');
    return { address: parts.slice(0, 3).join('/'), version: parts[3]!, path: join(root, path) };
  });
}

function entriesOf(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return []; // a file, or nothing
  }
}

/**
 * What init has fixed in a directory that the daemon owns, and the folder of each package by its checksum. Undefined if
 * init has fetched nothing.
 */
export async function freeze(
  dir: string,
  how: { attached: boolean; engine: string; modulesHash: Uint8Array },
): Promise<{ version: FrozenVersion; folders: Map<string, string> } | undefined> {
  const lockFile = await readFile(join(dir, LOCK_FILE)).catch(() => new Uint8Array());
  const packages: FrozenPackage[] = [];
  const folders = new Map<string, string>();
  for (const { address, version, path } of installedPackages(dir)) {
    const checksum = await checksumOf(path);
    packages.push({ address, version, checksum, fileHash: new Uint8Array(), moreHashes: [] });
    folders.set(checksum, path);
  }
  if (packages.length === 0 && how.modulesHash.length === 0) return undefined;
  const { attached, engine, modulesHash: moduleFilesHash } = how;
  const sum = createHash('sha256').update(JSON.stringify([attached, engine, platformKey()]));
  const id = sum.update(lockFile).update(moduleFilesHash).digest('hex');
  const version = { id, platform: platformKey(), engine, attached, lockFile, moduleFilesHash, packages };
  return { version, folders };
}

export interface Restored {
  /** Whether nothing remains for init. */
  complete: boolean;
  /** The stored modules. Undefined if the version has none. */
  modulesDir: string | undefined;
}

/**
 * Puts a frozen version into a session's directory. If a part is missing, such as a package that is too large for the
 * server, init has to fetch that part, in the version that the lock file names.
 */
export async function restore(
  frozen: FrozenVersion,
  to: {
    dir: string;
    source: FrozenSource;
    store: PackageStore;
    modulesStore: string;
    /** Whether to put the modules into the directory, too. Otherwise init fetches them. */
    withModules: boolean;
    attached: boolean;
    engine: string;
    log: Logger;
  },
): Promise<Restored> {
  const { dir, log } = to;
  const sameEngine = frozen.engine === to.engine;
  const samePlatform = frozen.platform === platformKey();
  const folder = join(dir, '.terraform');
  await rm(folder, { recursive: true, force: true });
  await ensureDirectory(folder, { mode: 0o755 });
  if (sameEngine && frozen.lockFile.length > 0)
    await writeFile(join(dir, LOCK_FILE), samePlatform ? frozen.lockFile : withoutPlatform(frozen.lockFile));
  const hasModules = frozen.moduleFilesHash.length > 0;
  const modulesDir = hasModules && to.withModules ? await modules(frozen.moduleFilesHash, to) : undefined;
  let complete = (to.withModules || !hasModules) && sameEngine && samePlatform && (to.attached || !frozen.attached);
  for (const one of sameEngine && samePlatform ? frozen.packages : []) {
    const name = `${one.version}/${frozen.platform}`;
    try {
      if (!isProviderPackage(one, frozen.platform))
        throw new AppError('invalid', 'Its address or version is not one that Terraform uses.');
      const kept = (await to.store.find(one.checksum, name)) ?? (await download(one, name, to));
      const link = join(folder, 'providers', one.address, name);
      await ensureDirectory(dirname(link), { mode: 0o755 });
      await symlink(kept, link, 'dir');
    } catch (err) {
      complete = false;
      log.warn('a provider does not come from the server; init fetches it from its registry', {
        provider: one.address,
        version: one.version,
        reason: errorText(err),
      });
    }
  }
  if (modulesDir && complete) await symlink(modulesDir, join(folder, 'modules'), 'dir');
  // init writes the manifest of the modules again
  else if (modulesDir) await cp(modulesDir, join(folder, 'modules'), { recursive: true });
  return { complete, modulesDir };
}

async function download(
  { address, checksum, fileHash, moreHashes }: FrozenPackage,
  name: string,
  { source, store }: { source: FrozenSource; store: PackageStore },
): Promise<string> {
  if (fileHash.length === 0) throw new AppError('not_found', `The server does not store the package of ${address}.`);
  if (moreHashes.length === 0) return source.file(fileHash, (pieces) => store.unpack(pieces, checksum, name));
  return store.unpack(partsOf(source, [fileHash, ...moreHashes]), checksum, name);
}

/** The parts of an archive, one after the other in memory. */
async function* partsOf(source: FrozenSource, hashes: Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const hash of hashes) yield await source.file(hash, (pieces) => verified(pieces, hash, 'part of the package'));
}

/** The content of a file, if it has this SHA-256. */
async function verified(pieces: AsyncIterable<Uint8Array>, hash: Uint8Array, what: string): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(piece);
  const data = Buffer.concat(parts);
  const actual = createHash('sha256').update(data).digest('hex');
  const expected = Buffer.from(hash).toString('hex');
  if (actual !== expected) throw new AppError('invalid', `The ${what} has the SHA-256 ${actual}, not ${expected}.`);
  return data;
}

/** The folder of the modules, which all versions with the same modules share. */
async function modules(
  hash: Uint8Array,
  { source, modulesStore }: { source: FrozenSource; modulesStore: string },
): Promise<string> {
  const hex = Buffer.from(hash).toString('hex');
  const place = join(modulesStore, hex);
  const inside = join(place, '.terraform', 'modules');
  const known = await stat(inside).catch(() => undefined);
  if (known) return inside;
  const archive = await source.file(hash, (pieces) => verified(pieces, hash, 'archive of the modules'));
  await ensureDirectory(modulesStore, { mode: 0o711 });
  const partial = join(modulesStore, `.${crypto.randomUUID()}`);
  try {
    await unpackArchive(archive, partial);
    await openToBuilds(partial);
    await rename(partial, place).catch((err: NodeJS.ErrnoException) => {
      if (err.code !== 'ENOTEMPTY' && err.code !== 'EEXIST') throw err; // it is already stored
    });
    return inside;
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

/** Lets every user read a tree. */
async function openToBuilds(dir: string): Promise<void> {
  await chmod(dir, 0o755);
  for (const entry of await readdir(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) await openToBuilds(path);
    else await chmod(path, (await stat(path)).mode | 0o444);
  }
}

/** A lock file without the checksums that hold for one platform only. Those that a registry signs remain. */
export function withoutPlatform(lockFile: Uint8Array): string {
  const lines = Buffer.from(lockFile).toString('utf8').split('\n');
  const text = lines.filter((line) => !/^\s*"h1:/.test(line)).join('\n');
  return text.replace(/\n\s*hashes = \[\s*\]/g, '');
}
