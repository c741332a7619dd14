/**
 * Frees a spare uid for the next job: ends its processes and removes its files. Everything except the counting runs
 * with the rights of that uid, so that root never follows a link and never removes another user's files.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { processesWith } from '@ropewalk/kit';
import { giveEnvironment, publicFolders, type Rooms } from './rooms.ts';

const END_MS = 5_000;
const COMMAND_MS = 30_000;
const MAX_WAIT_MS = 200;
const PATH = '/usr/bin:/bin';
/** A shell script that empties a folder. It runs with the rights of the build's uid. */
const EMPTY = 'cd "$1" && { chmod -R u+rwX . 2>/dev/null; find . -mindepth 1 -delete; }';
const REMOVE_PUBLIC = 'find "$@" -xdev -user "$(id -u)" -prune -exec chmod -R u+rwX {} \\; -exec rm -rf {} \\;';

/** Runs a program with the rights of one uid and waits for its end, whatever its outcome. */
export type RunAs = (file: string, args: string[]) => Promise<void>;

const run = promisify(execFile);

/** Ends all processes that have a uid as any of their ids. False if some still run after five seconds. */
export async function endProcesses(uid: number, runAs: RunAs): Promise<boolean> {
  const living = () => processesWith((id) => id === uid);
  const end = performance.now() + END_MS;
  for (let wait = 5; ; wait = Math.min(wait * 2, MAX_WAIT_MS)) {
    if (living().length === 0) return true;
    if (performance.now() > end) return false;
    // all together, so that none can start another in the meantime
    await runAs('/bin/sh', ['-c', 'kill -KILL -1']).catch(() => {});
    // processes that the uid may not signal, or all of them if the uid could not start a process
    for (const pid of living()) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // it has exited
      }
    }
    await delay(wait);
  }
}

/**
 * Empties folders with the rights of the build's uid. A folder itself goes, too, if the uid may change its parent. A build
 * can take rights from its own folders, which only then need the slow way.
 */
export async function emptyFolders(runAs: RunAs, dirs: readonly string[]): Promise<void> {
  const filled = () => dirs.filter((dir) => existsSync(dir) && readdirSync(dir).length > 0);
  const some = filled();
  if (some.length > 0) await runAs('/bin/rm', ['-rf', '--', ...some]);
  for (const dir of filled()) await emptyFolder(runAs, dir);
}

/** Empties one folder, as the uid sees it. */
export const emptyFolder = (runAs: RunAs, dir: string): Promise<void> => runAs('/bin/sh', ['-c', EMPTY, 'sh', dir]);

/** Removes the uid's files from folders that everybody can write. Looks at all files there. */
export async function removeFrom(runAs: RunAs, dirs: readonly string[]): Promise<void> {
  if (dirs.length > 0) await runAs('/bin/sh', ['-c', REMOVE_PUBLIC, 'sh', ...dirs]);
}

/**
 * Finds a setuid file of this uid in the given or the public folders. Another uid could run it to become this one.
 */
export async function setuidFile(uid: number, dirs: string[]): Promise<string | undefined> {
  const places = [...dirs.filter((dir) => existsSync(dir)), ...publicFolders()];
  const who = ['(', '-user', String(uid), '-perm', '-4000', '-o', '-group', String(uid), '-perm', '-2000', ')'];
  // find exits with 1 if a folder was removed in the meantime
  const { stdout } = await run('find', [...places, '-type', 'f', ...who, '-print', '-quit'], {
    env: { PATH },
    timeout: COMMAND_MS,
  }).catch((err: Error & { stdout?: string; killed?: boolean }) => {
    if (err.killed || err.stdout === undefined) throw err;
    return { stdout: err.stdout };
  });
  return stdout.split('\n')[0] || undefined;
}

/** Runs programs of a uid that sees the machine's folders. */
export const onMachine =
  (uid: number): RunAs =>
  (file, args) =>
    ended(spawn(file, args, { ...COMMAND, env: { PATH }, uid, gid: uid, stdio: 'ignore' }));

/** Runs programs of a uid that has a room. */
export const inRoom =
  (uid: number, rooms: Rooms): RunAs =>
  async (file, args) => {
    const entered = await rooms.enter(uid, { file, args, cwd: '/', env: { PATH } });
    const child = spawn(entered.file, entered.args, {
      ...COMMAND,
      env: { PATH },
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    });
    giveEnvironment(child, entered);
    await ended(child);
  };

const COMMAND = { cwd: '/', timeout: COMMAND_MS, killSignal: 'SIGKILL' } as const;

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('error', () => resolve());
    child.once('exit', () => resolve());
  });
}
