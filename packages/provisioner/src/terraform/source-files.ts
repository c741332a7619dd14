import { constants } from 'node:fs';
import { join, posix } from 'node:path';
import { MAX_PROVIDERS_BYTES } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import { listReadable, openReadable } from '../isolation/tree.ts';
import { MANIFEST, moduleFolders } from './modules.ts';

/** The maximum number of bytes of a file, and of all files, that a plan is predicted from. */
const MAX_FILE = 1 << 20;
const MAX_FILES = 20 << 20;

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

/**
 * The files from which Terraform makes a plan, by their paths in an initialized directory: those of the template and of
 * all its modules. With `uid`, this reads only files that a build with this uid can read. Undefined if one of them cannot
 * be read or is too large, or if OpenTofu reads others.
 */
export async function planSources(dir: string, uid: number | undefined): Promise<Map<string, Uint8Array> | undefined> {
  const files = new Map<string, Uint8Array>();
  let left = MAX_FILES;
  try {
    const manifest = await wholeFile(join(dir, MANIFEST), uid).catch(() => undefined);
    if (manifest) files.set(MANIFEST, manifest);
    for (const folder of await moduleFolders(dir)) {
      for (const { name } of await listReadable(join(dir, folder), uid)) {
        if (/\.tofu(\.json)?$/.test(name)) return undefined;
        const isVariables = folder === '.' && /\.tfvars(\.json)?$/.test(name);
        if (!isVariables && !/\.tf(\.json)?$/.test(name)) continue;
        const data = await wholeFile(join(dir, folder, name), uid);
        left -= data?.length ?? Number.POSITIVE_INFINITY;
        if (!data || left < 0) return undefined;
        files.set(posix.join(folder, name), data);
      }
    }
  } catch (err) {
    if (!(err instanceof AppError) && (err as NodeJS.ErrnoException).code === undefined) throw err;
    return undefined;
  }
  return files;
}

/** Undefined for a large file, a folder or a device. */
async function wholeFile(path: string, uid: number | undefined): Promise<Uint8Array | undefined> {
  const { handle, info } = await openReadable(path, uid, constants.O_NONBLOCK);
  try {
    if (!info.isFile() || info.size > MAX_FILE) return undefined;
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(info.size), 0, info.size, 0);
    return bytesRead === info.size ? buffer : undefined;
  } finally {
    await handle.close();
  }
}
