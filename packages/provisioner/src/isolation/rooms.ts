/**
 * Private temporary folders for builds whose uid another job gets later. A *room* is a mount and IPC namespace in which
 * folders of the build's own take the place of /tmp, /var/tmp and the others that everybody can write. Whatever a build
 * leaves there goes with its room, so that nobody has to search the machine's folders for it.
 *
 * Every process of such a uid runs in its room, also those that signal its processes or empty its folders: one process
 * outside would give the build the machine's folders, by /proc/<pid>/root. For the same reason nothing brings a folder
 * that was opened outside into a room.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, realpathSync, renameSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { AppError, ensureDirectorySync } from '@ropewalk/kit';
import { SYSTEM_PATH } from '@ropewalk/kit/reach';

/** The folders that everybody can write. */
const PUBLIC = ['/tmp', '/var/tmp', '/dev/shm', '/dev/mqueue', '/run/lock'];
const COMMAND_MS = 30_000;
const UNSHARE = ['unshare', '--mount', '--ipc', '--propagation', 'private', '--'] as const;
/** Binds each of `$1` to `$2`, `$3` to `$4`, … and lives until its standard input closes. */
const OPEN = 'while [ $# -gt 1 ]; do mount --bind "$1" "$2" || exit 1; shift 2; done; echo ready; exec cat';
/**
 * Reads the environment from descriptor 3, because a program that still is root must not get variables of a build:
 * LD_PRELOAD is one. Changes the folder with the rights of the build.
 */
const ENTER = 'eval "$(cat <&3)"; exec 3<&-; cd -- "$1" && shift && exec "$@"';
/** Names that a shell can export. It cannot assign to some of its variables. */
const EXPORTABLE = /^(?!(?:_|UID|EUID|PPID|SHELLOPTS|BASHOPTS)$)[A-Za-z_][A-Za-z0-9_]*$/;

/** The folders of this system that everybody can write. */
export const publicFolders = (): string[] => PUBLIC.filter((dir) => existsSync(dir));

/** A command in a room, and what it reads from descriptor 3. */
export interface Entered {
  file: string;
  args: string[];
  environment: string;
}

/** Sends the environment to a child that was started with a pipe as descriptor 3. */
export function giveEnvironment(child: ChildProcess, { environment }: Entered): void {
  const pipe = child.stdio[3] as Writable;
  // the child could not be started
  pipe.on('error', () => {});
  pipe.end(environment);
}

export class Rooms {
  readonly #base: string;
  /** The folders that a room replaces. */
  readonly #replaced: string[];
  /** The public folders that a room does not replace, because builds need what is below them. */
  readonly shared: string[];
  /** The process that keeps each room, by uid. */
  readonly #keepers = new Map<number, Promise<ChildProcess>>();

  /** `base` is a folder that only root can write. Builds run in folders below `builds`. */
  constructor(base: string, builds: string) {
    this.#base = join(base, 'rooms');
    const needed = realpathSync(builds);
    const all = publicFolders();
    this.shared = all.filter((dir) => needed.startsWith(`${dir}/`));
    this.#replaced = all.filter((dir) => !this.shared.includes(dir));
  }

  /** Whether this system allows rooms. Containers usually do not. */
  isPossible(): boolean {
    ensureDirectorySync(this.#base, { mode: 0o700 });
    chmodSync(this.#base, 0o700);
    const args = [...UNSHARE.slice(1), '/bin/sh', '-c', OPEN, 'sh', this.#base, '/tmp'];
    const probe = spawnSync(UNSHARE[0], args, {
      cwd: '/',
      env: { PATH: SYSTEM_PATH },
      input: '',
      timeout: COMMAND_MS,
      encoding: 'utf8',
    });
    const entering = spawnSync('nsenter', ['--version'], { cwd: '/', env: { PATH: SYSTEM_PATH }, timeout: COMMAND_MS });
    return probe.status === 0 && probe.stdout === 'ready\n' && entering.status === 0;
  }

  /** How a program with this environment starts in the uid's room, in `cwd`. Opens the room if necessary. */
  async enter(
    uid: number,
    program: { file: string; args: string[]; cwd: string; env: Record<string, string> },
  ): Promise<Entered> {
    const { pid } = await this.#keeper(uid);
    const names = Object.keys(program.env);
    const quoted = (name: string) => `export ${name}='${program.env[name]!.replaceAll("'", "'\\''")}'\n`;
    // a shell has no variables with other names, such as TF_VAR_a-b
    const others = names.filter((name) => !EXPORTABLE.test(name)).map((name) => `${name}=${program.env[name]}`);
    const command = others.length > 0 ? ['/usr/bin/env', ...others, program.file] : [program.file];
    const namespaces = ['--target', String(pid), '--mount', '--ipc', '--setgid', String(uid), '--setuid', String(uid)];
    return {
      file: 'nsenter',
      args: [...namespaces, '--', '/bin/sh', '-c', ENTER, 'sh', program.cwd, ...command, ...program.args],
      environment: names
        .filter((name) => EXPORTABLE.test(name))
        .map(quoted)
        .join(''),
    };
  }

  /**
   * Ends the room of a uid without processes, and removes its folders. `empty` removes what is in a folder, with the
   * rights of the uid and in the room.
   */
  async close(uid: number, empty: (dir: string) => Promise<void>): Promise<void> {
    const dir = join(this.#base, String(uid));
    if (existsSync(dir)) for (const replaced of this.#replaced) await empty(replaced);
    const keeper = await this.#keepers.get(uid)?.catch(() => undefined);
    this.#keepers.delete(uid);
    if (keeper && keeper.exitCode === null && keeper.signalCode === null) {
      const ended = new Promise((resolve) => keeper.once('exit', resolve));
      keeper.ref();
      keeper.stdin!.destroy();
      await ended;
    }
    if (!existsSync(dir)) return;
    try {
      for (const name of readdirSync(dir)) rmdirSync(join(dir, name));
      rmdirSync(dir);
    } catch {
      // Another user's process got the folder from the build and left files in it. The next room has new folders.
      renameSync(dir, join(this.#base, `left-${uid}-${crypto.randomUUID()}`));
    }
  }

  #keeper(uid: number): Promise<ChildProcess> {
    const known = this.#keepers.get(uid);
    if (known) return known;
    const opened = this.#open(uid);
    this.#keepers.set(uid, opened);
    const forget = () => {
      if (this.#keepers.get(uid) === opened) this.#keepers.delete(uid);
    };
    opened.then((keeper) => keeper.once('exit', forget), forget);
    return opened;
  }

  #open(uid: number): Promise<ChildProcess> {
    const dir = join(this.#base, String(uid));
    ensureDirectorySync(dir, { mode: 0o700 });
    const binds = this.#replaced.flatMap((target) => {
      const own = join(dir, target.replaceAll('/', '_'));
      if (!existsSync(own)) {
        mkdirSync(own, { mode: 0o700 });
        chownSync(own, uid, uid);
      }
      return [own, target];
    });
    return new Promise((resolve, reject) => {
      const args = [...UNSHARE.slice(1), '/bin/sh', '-c', OPEN, 'sh', ...binds];
      const keeper = spawn(UNSHARE[0], args, {
        cwd: '/',
        env: { PATH: SYSTEM_PATH },
        stdio: ['pipe', 'pipe', 'ignore'],
      });
      const fail = (why: string) => {
        keeper.kill('SIGKILL');
        reject(new AppError('unavailable', `Could not make private temporary folders for uid ${uid}: ${why}`));
      };
      const timer = setTimeout(() => fail('the system does not answer'), COMMAND_MS);
      keeper.stdin!.on('error', () => {});
      keeper.once('error', (err) => fail(err.message));
      keeper.once('exit', (code) => {
        clearTimeout(timer);
        fail(`exit code ${code}`);
      });
      keeper.stdout!.once('data', () => {
        clearTimeout(timer);
        keeper.stdout!.destroy();
        keeper.unref();
        resolve(keeper);
      });
    });
  }
}
