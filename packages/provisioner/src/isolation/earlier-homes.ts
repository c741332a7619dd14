/**
 * Moves the homes of workspaces from the scheme of releases that ran all builds under one uid. There, a workspace of the
 * template `local` has its home in `<base>/home/workspaces/<owner>/<workspace>`, which belongs to that uid, and so do its
 * processes. The uid that the workspace has now can neither read that home nor stop those processes.
 *
 * Processes of the old uid may still run and change these folders. So root trusts no path: it opens each folder without
 * following a link and reaches the next one through it.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  lchownSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { AppError, processesWith } from '@ropewalk/kit';
import type { EarlierHome } from './protocol.ts';
import type { RunAs } from './vacate.ts';

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = constants;
const NAME = /^[A-Za-z0-9][A-Za-z0-9-]*$/;
/** The time for the shutdown scripts of the agent, as in the template. */
const SHUTDOWN_MS = 10_000;
const POLL_MS = 100;
/** Where the earlier home goes if a release between the two has made another home. */
const BESIDE = 'home-of-earlier-release';
/** A shell script that moves a home and leaves a link, because files may name the old path. */
const MOVE = `to=$2; [ ! -e "$2" ] || to=$2/${BESIDE}; mkdir -p "$(dirname "$to")" && mv -T "$1" "$to" && ln -s "$to" "$1"`;

export interface Owner {
  uid: number;
  home: string;
  runAs: RunAs;
}

/**
 * Gives a workspace's earlier home to its uid, and ends the processes that still run there under the old one. Does
 * nothing without such a home. Before a deletion the home stays in its place, where the template removes it.
 * @throws AppError `unavailable` if something is left to do. The next build tries again.
 */
export async function moveEarlierHome(
  base: string,
  { owner, workspace, deleted }: EarlierHome,
  to: Owner,
): Promise<void> {
  if (!NAME.test(owner) || !NAME.test(workspace)) return;
  const place = join(base, 'home', 'workspaces', owner, workspace);
  if (!lstatSync(place, { throwIfNoEntry: false })?.isDirectory()) return;
  const folders: number[] = [];
  try {
    let path = base;
    for (const name of ['home', 'workspaces', owner, workspace]) {
      path = folders.length === 0 ? join(base, name) : `/proc/self/fd/${folders.at(-1)}/${name}`;
      folders.push(openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_DIRECTORY));
    }
    const [, , ofOwner, home] = folders as [number, number, number, number];
    const from = fstatSync(home).uid;
    if (from !== 0) await endProcesses(from, place);
    // Others pass these folders, so what was private because of them becomes private itself. In the folder of a person,
    // each uid may rename and remove what belongs to it.
    for (const [at, next] of ['workspaces', owner, workspace].entries()) closeOthers(folders[at]!, next, from);
    for (const folder of folders.slice(0, 3)) {
      fchownSync(folder, 0, 0);
      fchmodSync(folder, folder === ofOwner ? 0o1777 : 0o711);
    }
    if (from !== to.uid) give(home, from, to.uid);
  } catch (err) {
    throw new AppError(
      'unavailable',
      `Could not move the workspace's home ${place} from an earlier release: ${(err as Error).message}`,
    );
  } finally {
    for (const folder of folders) closeSync(folder);
  }
  if (deleted) return;
  await to.runAs('/bin/sh', ['-c', MOVE, 'sh', place, join(to.home, 'workspaces', owner, workspace)]);
  if (!lstatSync(place, { throwIfNoEntry: false })?.isDirectory()) return;
  throw new AppError(
    'unavailable',
    `Could not move the workspace's home ${place} from an earlier release to ${join(to.home, 'workspaces', owner)}. ` +
      'Move it there, with its owner, or remove what is in its place.',
  );
}

/** Takes the rights of others on everything of a uid in an open folder, except one entry. */
function closeOthers(fd: number, except: string, uid: number): void {
  for (const entry of readdirSync(`/proc/self/fd/${fd}`, { withFileTypes: true })) {
    if (entry.name === except || !(entry.isDirectory() || entry.isFile())) continue;
    const inner = openSync(`/proc/self/fd/${fd}/${entry.name}`, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const info = fstatSync(inner);
      if (info.uid === uid) fchmodSync(inner, info.mode & 0o700);
    } finally {
      closeSync(inner);
    }
  }
}

/** Gives everything in an open folder that belongs to `from`. Another name of a file of root could be elsewhere. */
function give(fd: number, from: number, to: number): void {
  for (const entry of readdirSync(`/proc/self/fd/${fd}`, { withFileTypes: true })) {
    const path = `/proc/self/fd/${fd}/${entry.name}`;
    if (entry.isDirectory()) {
      const inner = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_DIRECTORY);
      try {
        give(inner, from, to);
      } finally {
        closeSync(inner);
      }
    } else if (entry.isFile()) {
      const file = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      try {
        const info = fstatSync(file);
        if (info.isFile() && info.uid === from && (from !== 0 || info.nlink === 1)) {
          fchownSync(file, to, to);
          // without the bits that would give others the new uid
          fchmodSync(file, info.mode & 0o777);
        }
      } finally {
        closeSync(file);
      }
    } else if (lstatSync(path).uid === from) lchownSync(path, to, to);
  }
  const info = fstatSync(fd);
  if (info.uid !== from) return;
  fchownSync(fd, to, to);
  fchmodSync(fd, info.mode & 0o777);
}

/** Ends the processes of a uid whose HOME is this folder, with time for the agent's shutdown scripts. */
async function endProcesses(uid: number, home: string): Promise<void> {
  const living = () => processesWith((id) => id === uid).filter((pid) => homeOf(pid) === home);
  const signal = (name: NodeJS.Signals) => {
    for (const pid of living()) {
      try {
        process.kill(pid, name);
      } catch {
        // it has ended
      }
    }
  };
  if (living().length === 0) return;
  signal('SIGTERM');
  const end = performance.now() + SHUTDOWN_MS;
  while (living().length > 0 && performance.now() < end) await delay(POLL_MS);
  for (let tries = 0; living().length > 0; tries++) {
    if (tries > SHUTDOWN_MS / POLL_MS) throw new AppError('unavailable', `uid ${uid} still has processes there`);
    signal('SIGKILL');
    await delay(POLL_MS);
  }
}

function homeOf(pid: number): string | undefined {
  try {
    return /(?:^|\0)HOME=([^\0]*)/.exec(readFileSync(`/proc/${pid}/environ`, 'utf8'))?.[1];
  } catch {
    return undefined;
  }
}
