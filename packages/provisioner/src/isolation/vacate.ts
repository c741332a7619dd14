/**
 * Frees a spare uid for the next job: ends its processes and removes its files. Everything except the counting runs
 * with the rights of that uid, so that root never follows a link and never removes another user's files.
 */
import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { processesWith } from '@platform/kit';

const END_MS = 5_000;
const COMMAND_MS = 30_000;
const MOST_WAIT_MS = 200;
/** The folders that everybody can write. */
const PUBLIC = ['/tmp', '/var/tmp', '/dev/shm'];
const PATH = '/usr/bin:/bin';
/** A shell script that empties a folder. It runs with the rights of the build's uid. */
const EMPTY = 'cd "$1" && { chmod -R u+rwX . 2>/dev/null; rm -rf ./* ./.[!.]* ./..?*; }';
const REMOVE_PUBLIC = 'find "$@" -xdev -user "$(id -u)" -prune -exec chmod -R u+rwX {} \\; -exec rm -rf {} \\;';

const run = promisify(execFile);

/** Ends all processes that have a uid as any of their ids. False if some still run after five seconds. */
export async function endProcesses(uid: number): Promise<boolean> {
  const living = () => processesWith((id) => id === uid);
  const end = performance.now() + END_MS;
  for (let wait = 5; ; wait = Math.min(wait * 2, MOST_WAIT_MS)) {
    if (living().length === 0) return true;
    if (performance.now() > end) return false;
    // all at once, so that none can start another in the meantime
    await as(uid, 'kill -KILL -1', []);
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
export async function emptyFolders(uid: number, dirs: readonly string[]): Promise<void> {
  const filled = () => dirs.filter((dir) => existsSync(dir) && readdirSync(dir).length > 0);
  const some = filled();
  if (some.length > 0) await started(uid, '/bin/rm', ['-rf', '--', ...some]);
  for (const dir of filled()) await as(uid, EMPTY, [dir]);
}

/** Empties the home of a uid and removes its files from the folders that everybody can write. */
export async function removeFiles(uid: number, home: string): Promise<void> {
  if (existsSync(home)) await as(uid, EMPTY, [home]);
  const dirs = PUBLIC.filter((dir) => existsSync(dir));
  if (dirs.length > 0) await as(uid, REMOVE_PUBLIC, dirs);
}

/**
 * Finds a setuid file of this uid in the given or the public folders. Another uid could run it to become this one.
 */
export async function setuidFile(uid: number, dirs: string[]): Promise<string | undefined> {
  const places = [...dirs, ...PUBLIC].filter((dir) => existsSync(dir));
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

/** Runs a script under a uid and waits for its end. Ignores the outcome. */
const as = (uid: number, script: string, args: string[]): Promise<void> =>
  started(uid, '/bin/sh', ['-c', script, 'sh', ...args]);

/** Runs a program under a uid and waits for its end. Ignores the outcome. */
function started(uid: number, file: string, args: string[]): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn(file, args, {
      cwd: '/',
      env: { PATH },
      uid,
      gid: uid,
      stdio: 'ignore',
      timeout: COMMAND_MS,
      killSignal: 'SIGKILL',
    });
    child.once('error', () => resolve());
    child.once('exit', () => resolve());
  });
}
