import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Base, ItemError, type ItemFiles, type Module, readBase, readModule } from './items.ts';

/** The limits of a folder of bases and modules, so that one of the wrong size cannot stop the server. */
const MAX_ITEMS = 200;
const MAX_FILES = 100;
const MAX_FILE_BYTES = 256 * 1024;
const MAX_DEPTH = 8;
const MAX_BYTES = 16 * 1024 * 1024;

/** Bases and modules by id, and what is wrong with the folders that are left out. */
export interface CatalogItems {
  bases: Map<string, Base>;
  modules: Map<string, Module>;
  problems: string[];
}

export const noItems = (): CatalogItems => ({ bases: new Map(), modules: new Map(), problems: [] });

interface Room {
  bytes: number;
}

/** The regular files of a folder. Throws an ItemError for links, and for more or larger files than the limits allow. */
async function filesOf(root: string, place: string, room: Room): Promise<ItemFiles> {
  const files = new Map<string, Uint8Array>();
  const walk = async (folder: string, depth: number): Promise<void> => {
    const names = (await readdir(join(root, place, folder))).filter((name) => !name.startsWith('.')).sort();
    for (const name of names) {
      const path = folder === '' ? name : `${folder}/${name}`;
      const at = `${place}/${path}`;
      const stats = await lstat(join(root, at));
      if (stats.isDirectory()) {
        if (depth >= MAX_DEPTH) throw new ItemError(`${at} is nested deeper than ${MAX_DEPTH} folders.`);
        await walk(path, depth + 1);
        continue;
      }
      if (!stats.isFile()) throw new ItemError(`${at} is not a regular file.`);
      if (files.size >= MAX_FILES) throw new ItemError(`${place} has more than ${MAX_FILES} files.`);
      if (stats.size > MAX_FILE_BYTES) throw new ItemError(`${at} is larger than ${MAX_FILE_BYTES / 1024} KiB.`);
      room.bytes += stats.size;
      if (room.bytes > MAX_BYTES) throw new ItemError(`${at}: all files together are larger than 16 MiB.`);
      files.set(path, await readFile(join(root, at)));
    }
  };
  await walk('', 0);
  return files;
}

async function readKind<T extends { id: string }>(
  root: string,
  kind: 'bases' | 'modules',
  read: (place: string, id: string, files: ItemFiles) => T,
  { items, problems, room }: { items: Map<string, T>; problems: string[]; room: Room },
): Promise<boolean> {
  let names: string[];
  try {
    names = (await readdir(join(root, kind))).filter((name) => !name.startsWith('.')).sort();
  } catch (err) {
    const { code } = err as NodeJS.ErrnoException;
    if (code === 'ENOENT') return false;
    problems.push(`${kind} cannot be read: ${code}.`);
    return true;
  }
  if (names.length > MAX_ITEMS) problems.push(`${kind} has more than ${MAX_ITEMS} folders. The others are ignored.`);
  for (const id of names.slice(0, MAX_ITEMS)) {
    const place = `${kind}/${id}`;
    try {
      if (!(await lstat(join(root, place))).isDirectory()) {
        if (id !== 'README.md') problems.push(`${place} is not a folder.`);
        continue;
      }
      items.set(id, read(place, id, await filesOf(root, place, room)));
    } catch (err) {
      if (err instanceof ItemError) problems.push(err.message);
      else problems.push(`${place} cannot be read: ${(err as NodeJS.ErrnoException).code ?? String(err)}.`);
    }
  }
  return true;
}

/** Reads `bases/NAME` and `modules/NAME` of a folder. Never throws: `problems` names each file that is wrong. */
export async function readFolder(root: string): Promise<CatalogItems> {
  const found = noItems();
  const { problems } = found;
  const room = { bytes: 0 };
  const hasBases = await readKind(root, 'bases', readBase, { items: found.bases, problems, room });
  const hasModules = await readKind(root, 'modules', readModule, { items: found.modules, problems, room });
  if (!hasBases && !hasModules) problems.push('It has neither a folder "bases" nor a folder "modules".');
  return found;
}
