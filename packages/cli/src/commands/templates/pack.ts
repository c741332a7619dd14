import { type Dirent, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { ensureDirectorySync } from '@ropewalk/kit';
import { AppError } from '@ropewalk/kit/errors';

/** The size of an archive, in bytes. Upstream's server rejects larger ones. */
export const ARCHIVE_LIMIT = 1 << 20;

const LOCK_FILE = '.terraform.lock.hcl';

const isLeftOut = (name: string, path: string) =>
  (name.startsWith('.') && name !== LOCK_FILE) ||
  path.includes('.tfstate') ||
  /^terraform\.tfvars(\.json)?$/.test(name) ||
  /\.auto\.tfvars(\.json)?$/.test(name);

interface Entry {
  path: string;
  type: 'file' | 'directory';
  mode: number;
  mtime: Date;
}

function entriesOf(root: string): { entries: Entry[]; links: string[] } {
  const entries: Entry[] = [];
  const links: string[] = [];
  const walk = (dir: string) => {
    const children = readdirSync(join(root, dir), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const child of children) {
      const path = dir === '' ? child.name : `${dir}/${child.name}`;
      if (isLeftOut(child.name, path)) continue;
      if (child.isSymbolicLink()) {
        links.push(path);
        continue;
      }
      const { mode, mtime } = statSync(join(root, path));
      if (child.isDirectory()) {
        entries.push({ path: `${path}/`, type: 'directory', mode: mode & 0o777, mtime });
        walk(path);
      } else if (child.isFile()) {
        entries.push({ path, type: 'file', mode: mode & 0o777, mtime });
      }
    }
  };
  walk('');
  return { entries, links };
}

/** Whether the directory pins its providers. */
export function hasLockFile(root: string): boolean {
  return readdirSync(root, { withFileTypes: true }).some((child) => child.name === LOCK_FILE && child.isFile());
}

export interface PackedTemplate {
  bytes: Uint8Array<ArrayBuffer>;
  /** Paths of the symbolic links that were left out. */
  links: string[];
}

/**
 * Packs a template's directory as a tar archive, without state, variable values, hidden files and symbolic links. A
 * symbolic link could point to another place on the server.
 * @throws AppError when the directory is not a template or exceeds the limit.
 */
export async function packTemplate(root: string, limit = ARCHIVE_LIMIT): Promise<PackedTemplate> {
  let top: Dirent[];
  try {
    top = readdirSync(root, { withFileTypes: true });
  } catch (err) {
    throw new AppError('invalid', `Could not read the template's directory ${root}: ${(err as Error).message}`);
  }
  const parts = top.filter(({ name }) => /\.tf(\.json)?$/.test(name));
  if (parts.every((part) => part.isSymbolicLink())) {
    const noLinks = parts.length > 0 ? ' (symbolic links do not count)' : '';
    throw new AppError(
      'invalid',
      `${root} is not a template: it has no .tf file${noLinks}. Use --directory for another directory, or write an example with: coder templates init`,
    );
  }
  const { pack } = await import('tar-stream');
  const archive = pack();
  const packed = buffer(archive);
  let size = 0;
  const largest: { path: string; size: number }[] = [];
  const { entries, links } = entriesOf(root);
  for (const { path, type, mode, mtime } of entries) {
    if (type !== 'file') {
      archive.entry({ name: path, type, mode, mtime });
      continue;
    }
    const bytes = readFileSync(join(root, path));
    size += bytes.length;
    largest.push({ path, size: bytes.length });
    if (size > limit) {
      const names = largest.sort((a, b) => b.size - a.size).slice(0, 3);
      throw new AppError(
        'too_large',
        `The template exceeds ${limit / 1024} KiB. The largest files so far: ${names.map((one) => `${one.path} (${Math.ceil(one.size / 1024)} KiB)`).join(', ')}.`,
      );
    }
    archive.entry({ name: path, type: 'file', mode, mtime, size: bytes.length }, bytes);
  }
  archive.finalize();
  const bytes = new Uint8Array(await packed);
  if (bytes.length > limit) {
    throw new AppError(
      'too_large',
      `The archive of the template has ${bytes.length} bytes. The limit is ${limit} bytes.`,
    );
  }
  return { bytes, links };
}

/** Unpacks a tar archive of a template into a directory. @throws AppError for paths that lead out of it. */
export async function unpackTemplate(tar: Uint8Array, into: string): Promise<void> {
  const { extract } = await import('tar-stream');
  const { writeFileSync } = await import('node:fs');
  const { dirname } = await import('node:path');
  const reading = extract();
  reading.end(Buffer.from(tar));
  for await (const entry of reading) {
    const { name, type = 'file', mode } = entry.header;
    if (name.startsWith('/') || name.split(/[/\\]/).includes('..')) {
      throw new AppError('invalid', `Invalid archive: the path ${JSON.stringify(name)} leads out of the directory.`);
    }
    const path = join(into, name);
    if (type === 'directory') ensureDirectorySync(path);
    if (type === 'file') {
      ensureDirectorySync(dirname(path));
      writeFileSync(path, await buffer(entry), { mode: mode ? mode & 0o755 : 0o644 });
    } else entry.resume();
  }
}
