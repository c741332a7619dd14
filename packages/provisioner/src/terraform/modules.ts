import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { AppError } from '@ropewalk/kit';
import { type Module, ModuleSchema } from '@ropewalk/wire/proto/provisioner';
import tar from 'tar-stream';
import { listReadable, openReadable } from '../isolation/tree.ts';

const MAX_MODULE_FILES = 20 << 20;
/** Where init lists the modules that it has fetched. */
export const MANIFEST = '.terraform/modules/modules.json';
/** Fixed, so that equal modules give equal archives. */
const OWNER = 1000;

interface ManifestEntry {
  Key?: string;
  Source?: string;
  Version?: string;
  Dir?: string;
}

async function manifest(dir: string): Promise<ManifestEntry[]> {
  try {
    const path = join(dir, MANIFEST);
    // a template's code wrote it, and a pipe would block the reader
    if (!(await lstat(path)).isFile()) throw new AppError('invalid', `${MANIFEST} is not a file.`);
    const text = await readFile(path, 'utf8');
    return (JSON.parse(text) as { Modules?: ManifestEntry[] }).Modules ?? [];
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return []; // a template without modules
    throw err;
  }
}

/** Reads the modules that the template uses from an initialized directory. */
export async function readModules(dir: string): Promise<Module[]> {
  return (await manifest(dir))
    .filter(({ Source }) => Source)
    .map(({ Source, Version, Key }) =>
      create(ModuleSchema, { source: Source ?? '', version: Version ?? '', key: Key ?? '' }),
    );
}

/** The folders of the template and its modules, relative to an initialized directory. */
export async function moduleFolders(dir: string): Promise<string[]> {
  return [...new Set(['.', ...(await manifest(dir)).map(({ Dir }) => posix.normalize(Dir ?? '.'))])];
}

export interface ModuleFiles {
  /** A tar. */
  archive: Uint8Array;
  /** The SHA-256 of the archive. */
  hash: Uint8Array;
}

/**
 * The fetched modules as a tar, with which the server evaluates the template's parameters. Undefined if init fetched
 * none. A module with an absolute path is a link. With `uid`, this reads only files that a build with this uid can
 * read. `templateDir` has the template's files, of which an error names the one with the largest module.
 * @throws AppError `too_large` over 20 MiB, `forbidden` for a file that the build cannot read.
 */
export async function archiveModules(
  dir: string,
  { uid, templateDir = dir }: { uid?: number | undefined; templateDir?: string } = {},
): Promise<ModuleFiles | undefined> {
  const entries = await manifest(dir);
  const dirs = entries
    .map(({ Dir }) => posix.normalize(Dir ?? ''))
    .filter((path) => path.startsWith('.terraform/modules/'));
  if (dirs.length === 0) return undefined;
  const pack = tar.pack();
  let size = 0;
  let files = 0;
  const sizes = new Map<string, number>();
  let module = MANIFEST;
  const header = (name: string) => ({ name, mtime: new Date(0), uid: OWNER, gid: OWNER });
  const add = async (path: string) => {
    const { handle, info } = await openReadable(join(dir, path), uid, constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      if (!info.isFile()) return;
      size += info.size;
      sizes.set(module, (sizes.get(module) ?? 0) + info.size);
      if (size > MAX_MODULE_FILES) throw await tooLarge(templateDir, entries, sizes);
      // A file of /proc has content although its size is 0, and can block its reader for ever. Other files can grow.
      const content = Buffer.alloc(info.size);
      if (info.size > 0) await handle.read(content, 0, info.size, 0);
      pack.entry({ ...header(path), mode: info.mode & 0o777 }, content);
      files++;
    } finally {
      await handle.close();
    }
  };
  const walk = async (path: string) => {
    const entries = await listReadable(join(dir, path), uid);
    pack.entry({ ...header(`${path}/`), type: 'directory', mode: 0o755 });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (entry.isDirectory() && entry.name !== '.git') await walk(`${path}/${entry.name}`);
      else if (entry.isFile()) await add(`${path}/${entry.name}`);
    }
  };
  const parts: Buffer[] = [];
  const collected = (async () => {
    for await (const part of pack as AsyncIterable<Buffer>) parts.push(part);
  })();
  try {
    // A module's directory can be inside another's, which already includes it.
    for (const path of [...new Set(dirs)].sort()) {
      if (dirs.some((other) => other !== path && path.startsWith(`${other}/`))) continue;
      module = path;
      await walk(path);
    }
    await add(MANIFEST);
    pack.finalize();
    await collected;
  } catch (err) {
    pack.destroy();
    await collected.catch(() => {});
    throw err;
  }
  if (files === 1) return undefined;
  const archive = Buffer.concat(parts);
  return { archive, hash: createHash('sha256').update(archive).digest() };
}

/** Names the module with the most files so far. */
async function tooLarge(templateDir: string, entries: ManifestEntry[], sizes: Map<string, number>): Promise<AppError> {
  const [dir, bytes] = [...sizes].sort((a, b) => b[1] - a[1])[0]!;
  const { Key: key = '', Source: source = '' } = entries.find(({ Dir }) => posix.normalize(Dir ?? '') === dir) ?? {};
  const place = await placeOf(templateDir, key.split('.')[0]!);
  return new AppError(
    'too_large',
    `The template's modules are larger than ${MAX_MODULE_FILES >> 20} MiB: module ${JSON.stringify(key)}` +
      `${place ? ` at ${place}` : ''} (source ${JSON.stringify(source)}) has ${(bytes / 2 ** 20).toFixed(1)} MiB or more. ` +
      'Use a source with fewer files, such as a release instead of a whole repository.',
  );
}

/** The file and line of a module's block in the template's top folder. */
async function placeOf(templateDir: string, name: string): Promise<string | undefined> {
  for (const file of await readdir(templateDir)) {
    if (!file.endsWith('.tf')) continue;
    const lines = (await readFile(join(templateDir, file), 'utf8')).split('\n');
    const at = lines.findIndex((line) => line.trim().startsWith(`module "${name}"`));
    if (at >= 0) return `${file}:${at + 1}`;
  }
  return undefined;
}
