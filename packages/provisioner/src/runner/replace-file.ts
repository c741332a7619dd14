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
