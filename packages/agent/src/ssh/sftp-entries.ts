import type { Stats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Attributes, FileEntry } from 'ssh2';

/** The file attributes that a client sent. Times are in seconds. */
export type GivenAttributes = { [K in keyof Attributes]?: Attributes[K] | undefined };

export function attributes(stats: Stats): Attributes {
  return {
    mode: stats.mode,
    uid: stats.uid,
    gid: stats.gid,
    size: stats.size,
    atime: Math.floor(stats.atimeMs / 1000),
    mtime: Math.floor(stats.mtimeMs / 1000),
  };
}

const KINDS: [number, string][] = [
  [0o140000, 's'],
  [0o120000, 'l'],
  [0o100000, '-'],
  [0o060000, 'b'],
  [0o040000, 'd'],
  [0o020000, 'c'],
  [0o010000, 'p'],
];

function permissions(mode: number): string {
  const kind = KINDS.find(([bits]) => (mode & 0o170000) === bits)?.[1] ?? '?';
  const bits = [...'rwxrwxrwx'].map((letter, i) => (mode & (0o400 >> i) ? letter : '-'));
  const special = (flag: number, at: number, on: string, off: string) => {
    if (mode & flag) bits[at] = bits[at] === 'x' ? on : off;
  };
  special(0o4000, 2, 's', 'S');
  special(0o2000, 5, 's', 'S');
  special(0o1000, 8, 't', 'T');
  return kind + bits.join('');
}

const HALF_A_YEAR_MS = 182 * 86_400_000;

/** Returns a file of a directory with the line that clients show for it. Undefined if it is gone. */
export async function entry(directory: string, name: string): Promise<FileEntry | undefined> {
  let stats: Stats;
  try {
    stats = await lstat(join(directory, name));
  } catch {
    return undefined;
  }
  const { mtime } = stats;
  const month = mtime.toLocaleString('en-US', { month: 'short' });
  const old = Math.abs(Date.now() - mtime.getTime()) > HALF_A_YEAR_MS;
  const two = (value: number) => String(value).padStart(2, '0');
  const time = old ? ` ${mtime.getFullYear()}` : `${two(mtime.getHours())}:${two(mtime.getMinutes())}`;
  const owner = `${String(stats.uid).padEnd(8)} ${String(stats.gid).padEnd(8)}`;
  const date = `${month} ${String(mtime.getDate()).padStart(2)} ${time}`;
  const longname = `${permissions(stats.mode)} ${String(stats.nlink).padStart(4)} ${owner} ${String(stats.size).padStart(8)} ${date} ${name}`;
  return { filename: name, longname, attrs: attributes(stats) };
}
