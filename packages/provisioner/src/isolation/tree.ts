import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  type Stats,
} from 'node:fs';
import { lstat, mkdir, open, readdir, readlink, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { setImmediate as immediate } from 'node:timers/promises';
import { AppError } from '@ropewalk/kit';

/**
 * Access of the daemon to folders that a build can write. A build can put links and pipes there, so the daemon opens
 * nothing through a link and reads only regular files that belong to the build.
 */

/** Lets a build write a tree that the daemon made, through the build's group. The daemon is a member of that group. */
export async function shareTree(path: string, gid: number): Promise<void> {
  const info = lstatSync(path, { throwIfNoEntry: false });
  if (!info || info.uid !== process.getuid!()) return;
  if (info.isSymbolicLink()) return;
  const owner = info.mode & 0o700;
  chownSync(path, info.uid, gid);
  // after chown, which clears the setgid bit. With it, new files of the build belong to its group.
  chmodSync(path, info.isDirectory() ? 0o2770 : owner | (owner >> 3));
  if (!info.isDirectory()) return;
  const names = readdirSync(path);
  if (names.length > 0) await immediate();
  for (const name of names) await shareTree(join(path, name), gid);
}

/**
 * Opens a regular file that `uid` owns. With `alsoOwn`, it also opens a file of the daemon, which is safe only in a
 * folder whose path the build cannot change. It rejects a hard link, because that may be another file of the daemon.
 * @throws AppError `forbidden` for any other file.
 */
export function openOwned(path: string, uid: number, { alsoOwn = false } = {}): { fd: number; info: Stats } {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const info = fstatSync(fd);
    const own = alsoOwn && info.uid === process.getuid!() && info.nlink === 1;
    if (info.isFile() && (info.uid === uid || own)) return { fd, info };
  } catch (err) {
    closeSync(fd);
    throw err;
  }
  closeSync(fd);
  throw new AppError('forbidden', `${path} is not a regular file of the build.`);
}

/**
 * The text of a regular file that belongs to the build or the daemon. Without a uid (builds have no separate users)
 * the owner does not matter. @throws AppError `forbidden` for any other file, `too_large` over `most` bytes.
 */
export function readOwned(path: string, uid: number | undefined, most: number): string {
  const { fd, info } = uid === undefined ? openAny(path) : openOwned(path, uid, { alsoOwn: true });
  try {
    if (info.size > most) throw new AppError('too_large', `${path} is larger than ${most} bytes.`);
    const bytes = Buffer.alloc(info.size);
    return bytes.toString('utf8', 0, readSync(fd, bytes, 0, info.size, 0));
  } finally {
    closeSync(fd);
  }
}

function openAny(path: string): { fd: number; info: Stats } {
  const fd = openSync(path, 'r');
  return { fd, info: fstatSync(fd) };
}

/**
 * Opens a file or folder, also through links, if the build could open it too. The daemon is a member of all builds'
 * groups, so a link could lead it to its own files or those of another build. @throws AppError `forbidden` if the build
 * cannot open it.
 */
export async function openAs(path: string, uid: number, flags = 0) {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | flags);
  try {
    const may = (info: Stats, other: number) =>
      (info.mode & (info.uid === uid ? other << 6 : info.gid === uid ? other << 3 : other)) !== 0;
    const info = await handle.stat();
    // the real path. The build can close only folders that it owns.
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
  throw new AppError('forbidden', `${path} leads to a file that the build cannot read.`);
}

/** Opens a file or folder, with `uid` only if a build with this uid could open it too. */
export async function openReadable(path: string, uid: number | undefined, flags = 0) {
  if (uid !== undefined) return openAs(path, uid, flags);
  const handle = await open(path, constants.O_RDONLY | flags);
  return { handle, info: await handle.stat() };
}

/** The entries of a folder, with `uid` only if a build with this uid could list it too. */
export async function listReadable(path: string, uid: number | undefined) {
  if (uid === undefined) return readdir(path, { withFileTypes: true });
  const { handle } = await openAs(path, uid, constants.O_DIRECTORY);
  try {
    return await readdir(`/proc/self/fd/${handle.fd}`, { withFileTypes: true });
  } finally {
    await handle.close();
  }
}

export interface CopyOptions {
  uid: number;
  /** Called for each folder with its path below the root. If it returns a path, the copy has a link to that path. */
  place?: (path: string, from: string) => Promise<string | undefined>;
  /** Receives the SHA-256 of each file by its path below the root, in hex. Files then become executable, and links are left out. */
  sums?: Map<string, string>;
}

/** Copies a build's tree into files that the daemon owns, so that the build can no longer change them. */
export async function copyOwned(from: string, to: string, options: CopyOptions, root = from): Promise<void> {
  const { uid, place, sums } = options;
  await mkdir(to, { mode: 0o755 });
  for (const entry of (await readdir(from, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    const path = relative(root, source);
    if (entry.isDirectory()) {
      const placed = await place?.(path, source);
      if (placed !== undefined) await symlink(placed, target, 'dir');
      else await copyOwned(source, target, options, root);
    } else if (entry.isSymbolicLink()) {
      if (!sums) await symlink(await readlink(source), target);
    } else if (entry.isFile()) {
      const { fd, info } = openOwned(source, uid);
      // closes the file after its last read has ended, also if it is destroyed before
      const content = createReadStream('', { fd, highWaterMark: 1 << 20 });
      try {
        const mode = sums || info.mode & 0o100 ? 0o755 : 0o644;
        const hash = sums && createHash('sha256');
        const out = await open(target, 'wx', mode);
        try {
          for await (const chunk of content) {
            hash?.update(chunk as Buffer);
            await out.writeFile(chunk as Buffer);
          }
        } finally {
          await out.close();
        }
        if (hash) sums.set(path, hash.digest('hex'));
      } finally {
        content.destroy();
      }
    }
  }
}
