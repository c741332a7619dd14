import { linkSync, renameSync, rmSync, writeFileSync } from 'node:fs';

/**
 * Replaces a file so that a reader gets the old or the new content, never a part. The default mode is 0600. In one step,
 * because builds wait for some of these files, and four steps of the thread pool take longer than the writing.
 */
export function replaceFile(path: string, content: string | Uint8Array, { mode = 0o600 } = {}): void {
  whole(path, content, mode, (partial) => renameSync(partial, path));
}

/**
 * Creates a file together with its content: a full disk leaves no empty file that counts as the real one. The default mode
 * is 0600. False if the file exists already.
 */
export function createFile(path: string, content: string | Uint8Array, { mode = 0o600 } = {}): boolean {
  try {
    whole(path, content, mode, (partial) => linkSync(partial, path));
    return true;
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw err;
  }
}

function whole(path: string, content: string | Uint8Array, mode: number, place: (partial: string) => void): void {
  const partial = `${path}.${crypto.randomUUID()}.partial`;
  try {
    writeFileSync(partial, content, { mode });
    place(partial);
  } finally {
    rmSync(partial, { force: true });
  }
}
