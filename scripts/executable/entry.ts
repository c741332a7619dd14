// The entry of the single executable. It provides the assets to the programs and then runs the command.
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { getAsset, getAssetKeys, getRawAsset } from 'node:sea';
import { homeFolder } from '@platform/kit/home';

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

/** Unpacks a folder from two assets: an index, and the compressed bytes of all files one after the other. */
function unpack(name: string, into: string): string {
  const version = getAsset(`${name}.version`, 'utf8');
  const mark = join(into, 'version');
  if (belongsToUs(into) && existsSync(mark) && readFileSync(mark, 'utf8') === version) return into;
  const fresh = `${into}.${process.pid}`;
  const index = JSON.parse(getAsset(`${name}.index`, 'utf8')) as Packed[];
  const bytes = process.getBuiltinModule('node:zlib').zstdDecompressSync(Buffer.from(getRawAsset(`${name}.zst`)));
  let offset = 0;
  for (const { path, mode, size } of index) {
    const file = join(fresh, path);
    mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
    writeFileSync(file, bytes.subarray(offset, offset + size), { mode });
    offset += size;
  }
  writeFileSync(join(fresh, 'version'), version);
  rmSync(into, { recursive: true, force: true });
  renameSync(fresh, into);
  return into;
}

const lazily = <K extends keyof typeof globalThis>(name: K, make: () => unknown) =>
  Object.defineProperty(globalThis, name, { configurable: true, get: make });

lazily('PLATFORM_MIGRATIONS' as never, () => JSON.parse(getAsset('migrations', 'utf8')));
lazily('PLATFORM_EXAMPLES' as never, () => JSON.parse(getAsset('examples', 'utf8')));
lazily('PLATFORM_WORKER' as never, () => getAsset('worker.js', 'utf8'));
lazily('PLATFORM_INSTALL_SCRIPT' as never, () => getAsset('install.sh', 'utf8'));
lazily('PLATFORM_DASHBOARD' as never, () => ({
  index: getAsset('dashboard.json', 'utf8'),
  bytes: Buffer.from(getRawAsset('dashboard.bin')),
}));
lazily('PLATFORM_UNPACK_POSTGRES' as never, () =>
  getAssetKeys().includes('postgres.zst')
    ? (base: string) => join(unpack('postgres', join(base, 'pg-bin')), 'native')
    : undefined,
);
const cacheFolder = () => join(process.env['XDG_CACHE_HOME'] ?? join(homeFolder(), '.cache'), 'coder');
const requireFrom = (home: string, name: string) => createRequire(join(home, 'index.cjs'))(name);
lazily(
  'PLATFORM_LOAD_ARGON2' as never,
  () => async () => requireFrom(unpack('argon2', join(cacheFolder(), 'argon2')), '@node-rs/argon2'),
);
lazily('PLATFORM_LOAD_PTY' as never, () => async () => {
  let home: string;
  try {
    home = unpack('pty', join(cacheFolder(), 'pty'));
  } catch {
    // the home folder is not writable
    home = unpack('pty', join('/tmp', `coder-pty-${process.getuid?.() ?? 0}`));
  }
  return requireFrom(home, '@lydell/node-pty');
});

// a static import would run before the lines above
void import('../../packages/cli/src/start.ts');
