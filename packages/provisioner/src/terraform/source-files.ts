import { constants } from 'node:fs';
import { join } from 'node:path';
import { MAX_PROVIDERS_BYTES } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import { listReadable, openReadable } from '../isolation/tree.ts';

/**
 * The Terraform files of one module, by name. With `uid`, this reads only files that a build with this uid can read.
 * Leaves out what cannot be read and what is too large to declare versions.
 */
export async function sourceFiles(folder: string, uid: number | undefined): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  try {
    for (const { name } of await listReadable(folder, uid)) {
      if (!/\.tf(\.json)?$/.test(name)) continue;
      const { handle, info } = await openReadable(join(folder, name), uid, constants.O_NONBLOCK);
      try {
        if (!info.isFile() || info.size > MAX_PROVIDERS_BYTES) continue;
        // Not to the end: a file of /proc has the size 0 and can block its reader for ever.
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(info.size), 0, info.size, 0);
        files[name] = buffer.toString('utf8', 0, bytesRead);
      } finally {
        await handle.close();
      }
    }
  } catch (err) {
    if (!(err instanceof AppError) && (err as NodeJS.ErrnoException).code === undefined) throw err;
  }
  return files;
}
