/**
 * Makes a spare uid free for the next job: ends its processes and removes its files. All but the counting is done with
 * the rights of that uid, so that root follows no link and removes nothing of anybody else.
 */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { processesWith } from '@platform/kit';

const END_MS = 5_000;
const COMMAND_MS = 30_000;
const MOST_WAIT_MS = 200;
/** Where everybody can write. */
const PUBLIC = ['/tmp', '/var/tmp', '/dev/shm'];
const PATH = '/usr/bin:/bin';
/** Empties a folder with the rights of the uid it runs as. */
export const EMPTY = 'cd "$1" && { chmod -R u+rwX . 2>/dev/null; rm -rf ./* ./.[!.]* ./..?*; }';
const REMOVE_PUBLIC = 'find "$@" -xdev -user "$(id -u)" -prune -exec chmod -R u+rwX {} \\; -exec rm -rf {} \\;';

const run = promisify(execFile);

/** The command that runs another one such that no setuid file gives it privileges; empty where the machine has none. */
export function noNewPrivileges(uid: number): string[] {
  for (const file of ['/usr/bin/setpriv', '/bin/setpriv', '/usr/local/bin/setpriv']) {
    const command = [file, '--no-new-privs'];
    const probe = spawnSync(file, ['--no-new-privs', '/bin/true'], { cwd: '/', env: { PATH }, uid, gid: uid });
    if (probe.status === 0) return command;
  }
  return [];
}

/** Ends all processes that have a uid, in whichever way. False where some are left after five seconds. */
export async function endProcesses(uid: number): Promise<boolean> {
  const living = () => processesWith((id) => id === uid);
  const end = performance.now() + END_MS;
  for (let wait = 5; ; wait = Math.min(wait * 2, MOST_WAIT_MS)) {
    if (living().length === 0) return true;
    if (performance.now() > end) return false;
    // all at once, so that none can start another meanwhile
    await as(uid, 'kill -KILL -1', []);
    // those that the uid may not signal, or when it may not start a process
    for (const pid of living()) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // it has ended
      }
    }
    await delay(wait);
  }
}

/** Empties the home of a uid and removes its files from where everybody can write. */
export async function removeFiles(uid: number, home: string): Promise<void> {
  if (existsSync(home)) await as(uid, EMPTY, [home]);
  const dirs = PUBLIC.filter((dir) => existsSync(dir));
  if (dirs.length > 0) await as(uid, REMOVE_PUBLIC, dirs);
}

/** A file, in these folders or where everybody can write, by which another uid could become this one. */
export async function setuidFile(uid: number, dirs: string[]): Promise<string | undefined> {
  const places = [...dirs, ...PUBLIC].filter((dir) => existsSync(dir));
  const who = ['(', '-user', String(uid), '-perm', '-4000', '-o', '-group', String(uid), '-perm', '-2000', ')'];
  // exits with 1 where a folder was removed meanwhile
  const { stdout } = await run('find', [...places, '-type', 'f', ...who, '-print', '-quit'], {
    env: { PATH },
    timeout: COMMAND_MS,
  }).catch((err: Error & { stdout?: string; killed?: boolean }) => {
    if (err.killed || err.stdout === undefined) throw err;
    return { stdout: err.stdout };
  });
  return stdout.split('\n')[0] || undefined;
}

/** Runs a script under a uid to its end, however it ends. */
function as(uid: number, script: string, args: string[]): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn('/bin/sh', ['-c', script, 'sh', ...args], {
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
