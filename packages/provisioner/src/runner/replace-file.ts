import { renameSync, rmSync, writeFileSync } from 'node:fs';

/**
 * Replaces a file so that a reader gets the old or the new content, never a part. The mode is 0600. In one step, because
 * builds wait for these files, and four steps of the thread pool take longer than the writing.
 */
export function replaceFile(path: string, content: string | Uint8Array): void {
  const partial = `${path}.${crypto.randomUUID()}.partial`;
  try {
    writeFileSync(partial, content, { mode: 0o600 });
    renameSync(partial, path);
  } catch (err) {
    rmSync(partial, { force: true });
    throw err;
  }
}
