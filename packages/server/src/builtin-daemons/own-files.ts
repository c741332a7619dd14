/**
 * Puts right the owners and modes of the daemons' folder. A release that ran the daemons as root left files there that
 * the daemons' user cannot use.
 *
 * The daemons can write in this folder, so root trusts no path: it opens each folder without following a link, checks
 * its owner, and reaches its entries through the open folder. A file is changed only if it has no second name, because
 * that could be a file elsewhere.
 */
import { closeSync, constants, fchmodSync, fchownSync, fstatSync, lstatSync, openSync, readdirSync } from 'node:fs';

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** How many levels every start looks at: the daemons' folders, their work directories, and what is in them. */
const QUICK_DEPTH = 3;
/** Deep enough for a provider or module in the cache. */
const MAX_DEPTH = 40;

/**
 * Gives the daemons' user everything in `dir` that belongs to root, and access to its own folders. Looks only at the
 * upper levels, unless something is wrong there or `thorough` is set.
 */
export function ownFiles(dir: string, uid: number, { thorough = false } = {}): void {
  const own = (depth: number) => withOpen(dir, (fd) => ownFolder(fd, uid, depth)) ?? false;
  if (thorough || own(QUICK_DEPTH)) own(MAX_DEPTH);
}

/** Returns whether it changed anything. */
function ownFolder(fd: number, uid: number, depth: number): boolean {
  const info = fstatSync(fd);
  // a build's folder
  if (!info.isDirectory() || (info.uid !== 0 && info.uid !== uid)) return false;
  let changed = info.uid === 0;
  if (changed) fchownSync(fd, uid, info.gid === 0 ? uid : info.gid);
  if ((info.mode & 0o700) !== 0o700) {
    fchmodSync(fd, (info.mode & 0o7777) | 0o700);
    changed = true;
  }
  if (depth === 0) return changed;
  for (const entry of readdirSync(`/proc/self/fd/${fd}`, { withFileTypes: true })) {
    const path = `/proc/self/fd/${fd}/${entry.name}`;
    const own = entry.isDirectory()
      ? withOpen(path, (inner) => ownFolder(inner, uid, depth - 1))
      : entry.isFile() && lstatSync(path, { throwIfNoEntry: false })?.uid === 0
        ? withOpen(path, (inner) => ownFile(inner, uid))
        : false;
    changed ||= own ?? false;
  }
  return changed;
}

function ownFile(fd: number, uid: number): boolean {
  const info = fstatSync(fd);
  if (!info.isFile() || info.uid !== 0 || info.nlink !== 1) return false;
  fchownSync(fd, uid, info.gid === 0 ? uid : info.gid);
  return true;
}

/** Opens a file or folder for the time of `work`. Undefined if it is gone or a link. */
function withOpen<T>(path: string, work: (fd: number) => T): T | undefined {
  let fd: number;
  try {
    fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    return work(fd);
  } finally {
    closeSync(fd);
  }
}
