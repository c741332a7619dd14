import { mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

export interface DirectoryOptions {
  /** The mode of each directory that this call creates. Existing directories keep theirs. */
  mode?: number;
}

/**
 * Creates a directory and its missing parents. Replaces the `recursive` option of Node's mkdir, which repeats forever
 * if the file system answers ENOENT below a parent that exists, as `/proc` does. `scripts/directories.test.ts` checks
 * that no other code uses that option. Throws the error of mkdir, whose `path` is the directory that failed.
 */
export async function ensureDirectory(path: string, options: DirectoryOptions = {}): Promise<void> {
  const at = resolve(path);
  try {
    await mkdir(at, options).catch(async (err: NodeJS.ErrnoException) => {
      if (err.code !== 'ENOENT' || dirname(at) === at) throw err;
      await ensureDirectory(dirname(at), options);
      await mkdir(at, options);
    });
  } catch (err) {
    // the code for an existing directory depends on the system and on the file system
    const exists = await stat(at).catch(() => undefined);
    if (!exists?.isDirectory()) throw err;
  }
}

/** Does the same as {@link ensureDirectory} synchronously. */
export function ensureDirectorySync(path: string, options: DirectoryOptions = {}): void {
  const at = resolve(path);
  try {
    try {
      mkdirSync(at, options);
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(at) === at) throw err;
      ensureDirectorySync(dirname(at), options);
      mkdirSync(at, options);
    }
  } catch (err) {
    if (!isDirectory(at)) throw err;
  }
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
