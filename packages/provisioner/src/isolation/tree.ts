import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, chown, lstat, mkdir, open, readdir, readlink, rename, rm, symlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { AppError } from '@platform/kit';

/**
 * What the daemon does with folders that a build can write. A build may put links and pipes there, so nothing is opened
 * through a link, and nothing is read but regular files of the build's own.
 */

/** Lets a build write a tree that the daemon made: by its group, of which the daemon is a member. */
export async function shareTree(path: string, gid: number): Promise<void> {
  const info = await lstat(path).catch(() => undefined);
  if (!info || info.uid !== process.getuid!()) return;
  if (info.isSymbolicLink()) return;
  const owner = info.mode & 0o700;
  await chown(path, info.uid, gid);
  // after chown, which clears the bit: what the build makes is of its group
  await chmod(path, info.isDirectory() ? 0o2770 : owner | (owner >> 3));
  if (info.isDirectory()) for (const name of await readdir(path)) await shareTree(join(path, name), gid);
}

/**
 * Opens a regular file that `uid` owns. `alsoOwn`: or one that the daemon itself put there, which is only safe in a
 * folder whose path the build cannot change; a hard link to another file of the daemon's is not taken for it.
 * @throws AppError `forbidden` for anything else.
 */
export async function openOwned(path: string, uid: number, { alsoOwn = false } = {}) {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const info = await handle.stat().catch(() => undefined);
  const own = alsoOwn && info?.uid === process.getuid!() && info.nlink === 1;
  if (info?.isFile() && (info.uid === uid || own)) return { handle, info };
  await handle.close();
  throw new AppError('forbidden', `${path} is not a regular file of the build.`);
}

export interface CopyOptions {
  uid: number;
  /** Called for a folder by its path below the root; a path that it gives is linked to instead of a copy. */
  place?: (path: string, from: string) => Promise<string | undefined>;
  /** Takes all names and contents. */
  hash?: Hash;
}

/** Copies a build's tree into files of the daemon's own: the build cannot change them any more. */
export async function copyOwned(from: string, to: string, options: CopyOptions, root = from): Promise<void> {
  const { uid, place, hash } = options;
  await mkdir(to, { mode: 0o755 });
  for (const entry of (await readdir(from, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    const path = relative(root, source);
    if (entry.isDirectory()) {
      hash?.update(`d ${path}\0`);
      const placed = await place?.(path, source);
      if (placed !== undefined) await symlink(placed, target, 'dir');
      else await copyOwned(source, target, options, root);
    } else if (entry.isSymbolicLink()) {
      const link = await readlink(source);
      hash?.update(`l ${path}\0${link}\0`);
      await symlink(link, target);
    } else if (entry.isFile()) {
      const { handle, info } = await openOwned(source, uid);
      try {
        const mode = info.mode & 0o100 ? 0o755 : 0o644;
        hash?.update(`f ${path}\0${mode} ${info.size}\0`);
        const out = await open(target, 'wx', mode);
        try {
          for await (const chunk of handle.createReadStream({ autoClose: false, highWaterMark: 1 << 20 })) {
            hash?.update(chunk as Buffer);
            await out.writeFile(chunk as Buffer);
          }
        } finally {
          await out.close();
        }
      } finally {
        await handle.close();
      }
    }
  }
}

/** Keeps one copy of a tree by its content below `store`, and gives the path of it. */
export async function keepByContent(from: string, store: string, name: string, uid: number): Promise<string> {
  await mkdir(store, { recursive: true, mode: 0o711 });
  const partial = join(store, `.${crypto.randomUUID()}`);
  const hash = createHash('sha256');
  try {
    await copyOwned(from, partial, { uid, hash });
    const sum = hash.digest('hex');
    const folder = join(store, sum.slice(0, 2), sum, ...name.split('/').slice(0, -1));
    const kept = join(store, sum.slice(0, 2), sum, name);
    await mkdir(folder, { recursive: true, mode: 0o755 });
    await rename(partial, kept).catch((err: NodeJS.ErrnoException) => {
      if (err.code !== 'ENOTEMPTY' && err.code !== 'EEXIST') throw err; // the same content is there
    });
    return kept;
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}
