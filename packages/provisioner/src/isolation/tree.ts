import { createHash, type Hash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { chmod, chown, lstat, mkdir, open, readdir, readlink, rename, rm, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
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

/**
 * The text of a regular file of the build's or the daemon's own, up to so many bytes. Without a uid (a system that has
 * none) any regular file is read. @throws AppError `forbidden` for anything else, `too_large`.
 */
export async function readOwned(path: string, uid: number | undefined, most: number): Promise<string> {
  const { handle, info } = uid === undefined ? await openAny(path) : await openOwned(path, uid, { alsoOwn: true });
  try {
    if (info.size > most) throw new AppError('too_large', `${path} is larger than ${most} bytes.`);
    const bytes = Buffer.alloc(info.size);
    const { bytesRead } = await handle.read(bytes, 0, info.size, 0);
    return bytes.toString('utf8', 0, bytesRead);
  } finally {
    await handle.close();
  }
}

async function openAny(path: string) {
  const handle = await open(path, 'r');
  return { handle, info: await handle.stat() };
}

/**
 * Opens a file or folder, links included, that a build could open, too. The daemon is a member of all builds' groups, so
 * that a link could lead it to what is another build's or its own. @throws AppError `forbidden` where the build cannot.
 */
export async function openAs(path: string, uid: number, flags = 0) {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | flags);
  try {
    const may = (info: Stats, other: number) =>
      (info.mode & (info.uid === uid ? other << 6 : info.gid === uid ? other << 3 : other)) !== 0;
    const info = await handle.stat();
    // where it really is, which is not the build's to change: folders that the build closes are its own
    let folder = await readlink(`/proc/self/fd/${handle.fd}`);
    let allowed = may(info, 0o4);
    while (allowed && folder !== '/') {
      folder = dirname(folder);
      allowed = may(await lstat(folder), 0o1);
    }
    if (allowed) return { handle, info };
  } catch (err) {
    await handle.close();
    throw err;
  }
  await handle.close();
  throw new AppError('forbidden', `${path} leads to what the build cannot read.`);
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
