import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';

/** Replaces a file so that a reader gets the old or the new content, never a part. The mode is 0600. */
export async function replaceFile(path: string, content: string | Uint8Array): Promise<void> {
  const partial = `${path}.${crypto.randomUUID()}.partial`;
  try {
    await writeFile(partial, content, { mode: 0o600 });
    await rename(partial, path);
  } catch (err) {
    await rm(partial, { force: true });
    throw err;
  }
}

/** `replaceFile` in one step, for what a build waits for: four steps of the thread pool take longer than the writing. */
export function replaceInOneStep(path: string, content: string | Uint8Array): void {
  const partial = `${path}.${crypto.randomUUID()}.partial`;
  try {
    writeFileSync(partial, content, { mode: 0o600 });
    renameSync(partial, path);
  } catch (err) {
    rmSync(partial, { force: true });
    throw err;
  }
}
