import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';

/** Reads a small file without surrounding white space. Empty if the file does not exist. */
export function readConfig(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw err;
  }
}

/** Writes a file that only its owner can read: some of these hold secrets. */
export function writeConfig(path: string, text: string): void {
  ensureDirectorySync(dirname(path), { mode: 0o700 });
  writeFileSync(path, text, { mode: 0o600 });
}

export function removeConfig(path: string): void {
  rmSync(path, { force: true });
}
