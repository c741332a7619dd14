// Packages for other systems. npm fetches them, and this checks them against the lock file and unpacks them to a cache.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';

const root = dirname(dirname(import.meta.dirname));
const cache = join(root, 'node_modules/.cache/platform-packages');

interface Locked {
  version: string;
  integrity: string;
}

/** The entry of a package in the lock file. Undefined if it has none. */
function locked(name: string): Locked | undefined {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>;
  };
  return packages[`node_modules/${name}`];
}

/** The folder of an installed package. */
export function packageHome(name: string): string {
  return dirname(findPackageJSON(name, import.meta.url)!);
}

/** The folder of a package that may be for another system. Undefined if the lock file does not have the package. */
export function foreignPackageHome(name: string): string | undefined {
  const lock = locked(name);
  if (!lock) return undefined;
  const installed = join(root, 'node_modules', name);
  if (existsSync(installed)) return installed;
  const home = join(cache, `${name.replaceAll('/', '+')}@${lock.version}`, 'node_modules', name);
  if (existsSync(home)) return home;
  ensureDirectorySync(cache);
  const work = mkdtempSync(join(cache, 'fetch-'));
  try {
    const packed = spawnSync('npm', ['pack', `${name}@${lock.version}`, '--silent', '--pack-destination', work], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: 600_000,
    });
    if (packed.status !== 0) throw new Error(`Cannot fetch ${name}@${lock.version} with npm`);
    const file = join(work, packed.stdout.trim().split('\n').at(-1)!);
    const [algorithm, sum] = lock.integrity.split(/-(.*)/s) as [string, string];
    if (createHash(algorithm).update(readFileSync(file)).digest('base64') !== sum) {
      throw new Error(`${name}@${lock.version} does not match the checksum in the lock file`);
    }
    const unpacked = spawnSync('tar', ['-xzf', file, '-C', work], { stdio: 'inherit' });
    if (unpacked.status !== 0) throw new Error(`Cannot unpack ${name}@${lock.version}`);
    ensureDirectorySync(dirname(home));
    renameSync(join(work, 'package'), home);
    return home;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
