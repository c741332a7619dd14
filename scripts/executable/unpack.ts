import { existsSync, lstatSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit/directory';
import { homeFolder } from '@ropewalk/kit/home';
import { contained } from './contained.ts';

interface Packed {
  path: string;
  mode: number;
  size: number;
}

/** Whether no other user can have written to a folder. In /tmp, anybody may have made one of this name. */
function belongsToUs(folder: string): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return false;
  return process.getuid === undefined || (found.uid === process.getuid() && (found.mode & 0o022) === 0);
}

/** Unpacks a folder from two contained files: an index, and the compressed bytes of all files one after the other. */
export function unpack(name: string, into: string): string {
  const version = contained(`${name}.version`).toString();
  const mark = join(into, 'version');
  if (belongsToUs(into) && existsSync(mark) && readFileSync(mark, 'utf8') === version) return into;
  const fresh = `${into}.${process.pid}`;
  const index = JSON.parse(contained(`${name}.index`).toString()) as Packed[];
  const bytes = process.getBuiltinModule('node:zlib').zstdDecompressSync(contained(`${name}.zst`));
  let offset = 0;
  for (const { path, mode, size } of index) {
    const file = join(fresh, path);
    ensureDirectorySync(dirname(file), { mode: 0o755 });
    writeFileSync(file, bytes.subarray(offset, offset + size), { mode });
    offset += size;
  }
  writeFileSync(join(fresh, 'version'), version);
  rmSync(into, { recursive: true, force: true });
  renameSync(fresh, into);
  return into;
}

/** Where the executable unpacks packages of native code. */
export const cacheFolder = () => join(process.env['XDG_CACHE_HOME'] ?? join(homeFolder(), '.cache'), 'coder');

/** Loads a package from an unpacked folder. */
export const requireFrom = (home: string, name: string) => createRequire(join(home, 'index.cjs'))(name);
