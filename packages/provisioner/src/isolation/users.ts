import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { AppError, ensureDirectorySync, errorText, processesWith, type UidBlock } from '@ropewalk/kit';
import { createFile, replaceFile } from '@ropewalk/kit/files';
import { SYSTEM_PATH } from '@ropewalk/kit/reach';
import { type BuildUser, type OwnKey, SPARE_UIDS } from './protocol.ts';
import { publicFolders, type Rooms } from './rooms.ts';
import { emptyFolder, endProcesses, inRoom, onMachine, type RunAs, removeFrom, setuidFile } from './vacate.ts';

const COMMAND_TIMEOUT_MS = 30_000;
/** Longer than the resolution of a file's time. */
const CLOCK_TICK_MS = 1_000;
/** The maximum number of uids that get a user name: every process that looks up a user reads the whole list. */
const MAX_NAMES = 2_000;

/** The folder for temporary files in a home. */
const TMP = 'tmp';

interface Record_ {
  /** The key of a `user` request, or the session folder of a `spare` request. */
  key: string;
  name?: string;
  /** Whether its processes run in a room, so that they leave nothing in the machine's folders. */
  room?: boolean;
  /** Whether its home has a folder for temporary files. */
  tmp?: boolean;
}

/** The uids that an installation has given out. Each is a file in `<base>/uids` that only root can write. */
export class Users {
  readonly #block: UidBlock;
  readonly #dir: string;
  readonly #homes: string;
  readonly #builds: string;
  readonly #setuid: boolean;
  readonly #say: (text: string) => void;
  readonly #rooms: Rooms | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  /** The uids by key, and when their folder had changed last. Another launcher can change it. */
  #known: { uids: Map<string, number>; changed: number | undefined } = { uids: new Map(), changed: undefined };

  /**
   * `setuid`: whether builds can run setuid programs. If so, a file that an earlier job left can give them its uid.
   * `rooms`: where uids run that other jobs get later. Absent: the system does not allow rooms.
   */
  constructor(
    block: UidBlock,
    given: { base: string; builds: string; setuid?: boolean; rooms?: Rooms | undefined; say?: (text: string) => void },
  ) {
    const { base } = given;
    this.#block = block;
    this.#builds = given.builds;
    this.#setuid = given.setuid ?? false;
    this.#rooms = given.rooms;
    this.#dir = join(base, 'uids');
    this.#homes = join(base, 'homes');
    this.#say = given.say ?? (() => {});
    ensureDirectorySync(this.#dir, { mode: 0o700 });
    ensureDirectorySync(this.#homes);
    chmodSync(this.#homes, 0o711);
  }

  /** The permanent uid of a key. With `person`, the uid gets a user name if the system allows one. */
  user(key: string, person: string | undefined, own?: OwnKey): BuildUser {
    const from = this.#block.first + 1 + SPARE_UIDS;
    const take = (wanted: Record_) =>
      this.#find(wanted.key) ?? this.#take(wanted, from, this.#block.first + this.#block.count);
    const uid = (own && this.#find(own.key)) ?? take(own?.take ? this.#temporary(own.key) : { key });
    const user = this.#user(uid);
    const record = this.#read(uid)!;
    if (record.name === undefined && person !== undefined) {
      const name = this.#makeUser(uid, user.home, person);
      if (name !== undefined) this.#write(uid, { ...record, name });
      return { ...user, ...(name === undefined ? {} : { name }) };
    }
    return user;
  }

  /** The room of a uid. Undefined if its processes see the machine's folders. @throws AppError `unavailable` */
  room(uid: number): Rooms | undefined {
    if (!this.#read(uid)?.room) return undefined;
    if (this.#rooms) return this.#rooms;
    throw new AppError('unavailable', `The system no longer allows private temporary folders, which uid ${uid} has.`);
  }

  /** How programs of a uid run. */
  runAs(uid: number): RunAs {
    const rooms = this.room(uid);
    return rooms ? inRoom(uid, rooms) : onMachine(uid);
  }

  /** The record of a uid that another job gets later. */
  #temporary(key: string): Record_ {
    return { key, tmp: true, ...(this.#rooms ? { room: true } : {}) };
  }

  #user(uid: number): BuildUser {
    const { name, tmp } = this.#read(uid) ?? {};
    const home = this.#home(uid);
    return { uid, home, ...(name === undefined ? {} : { name }), ...(tmp ? { tmp: join(home, TMP) } : {}) };
  }

  /** Frees the uid of a workspace that had one for itself. */
  vacate(key: string): Promise<void> {
    return this.#inTurn(async () => {
      const uid = this.#find(key);
      if (uid === undefined) return;
      const name = this.#read(uid)?.name;
      if ((await this.#vacate(uid)) && name !== undefined) run('userdel', [name]);
    });
  }

  /** A uid that no process or file of an earlier job has. */
  spare(session: string): Promise<BuildUser> {
    return this.#inTurn(async () => {
      const known = this.#find(session);
      if (known !== undefined) return this.#user(known);
      const from = this.#block.first + 1;
      for (let uid = from; uid < from + SPARE_UIDS; uid++) {
        const record = this.#read(uid);
        if (record && existsSync(record.key)) continue;
        if (!(await this.#vacate(uid))) continue;
        if (this.#create(uid, this.#temporary(session))) return this.#user(uid);
      }
      throw new AppError(
        'unavailable',
        `All ${SPARE_UIDS} uids for imports and dry runs are in use. Try again after other imports have finished.`,
      );
    });
  }

  /** Ends the processes of a session's spare uid. Frees the uid for other jobs if the session's folder is gone. */
  release(session: string): Promise<void> {
    return this.#inTurn(async () => {
      const uid = this.#find(session);
      if (uid === undefined || uid > this.#block.first + SPARE_UIDS) return;
      if (existsSync(session)) await endProcesses(uid, this.runAs(uid));
      else await this.#vacate(uid);
    });
  }

  /** Runs one operation at a time, because concurrent operations would undo each other's changes. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }

  /** Ends a spare uid's processes and removes its files and its record. False if a process or file remains. */
  async #vacate(uid: number): Promise<boolean> {
    const home = join(this.#homes, String(uid));
    const known = existsSync(join(this.#dir, String(uid))) || existsSync(home);
    if (!known && processesWith((id) => id === uid).length === 0) return true;
    try {
      const rooms = this.room(uid);
      const runAs = this.runAs(uid);
      if (!(await endProcesses(uid, runAs))) throw new Error('cannot end its processes');
      if (existsSync(home)) await emptyFolder(runAs, home);
      // what a build in a room leaves depends on that build alone. Elsewhere its files have to be found among all others
      await removeFrom(runAs, rooms ? rooms.shared : publicFolders());
      await rooms?.close(uid, (dir) => emptyFolder(runAs, dir));
      // the uid emptied the folder with its rights. Root removes only the folder itself.
      if (existsSync(home)) rmdirSync(home);
      const left = this.#setuid ? await setuidFile(uid, [this.#homes, this.#builds]) : undefined;
      if (left !== undefined) throw new Error(`its setuid file ${JSON.stringify(left)} still exists`);
      rmSync(join(this.#dir, String(uid)), { force: true });
      return true;
    } catch (err) {
      this.#say(`cannot reuse uid ${uid} yet: ${errorText(err)}`);
      return false;
    }
  }

  #take(record: Record_, from: number, to: number): number {
    const used = new Set(readdirSync(this.#dir).map(Number));
    for (let uid = from; uid < to; uid++) if (!used.has(uid) && this.#create(uid, record)) return uid;
    throw new AppError(
      'unavailable',
      `All ${to - from} uids of this installation are in use. Use external provisioner daemons.`,
    );
  }

  #find(key: string): number | undefined {
    const { mtimeMs } = statSync(this.#dir);
    if (this.#known.changed !== mtimeMs) {
      const uids = new Map<string, number>();
      for (const name of readdirSync(this.#dir)) {
        const uid = Number(name);
        const record = this.#read(uid);
        if (record) uids.set(record.key, uid);
      }
      // a change within one tick of the clock can leave the time as it was
      this.#known = { uids, changed: Date.now() - mtimeMs > CLOCK_TICK_MS ? mtimeMs : undefined };
    }
    return this.#known.uids.get(key);
  }

  #read(uid: number): Record_ | undefined {
    try {
      return JSON.parse(readFileSync(join(this.#dir, String(uid)), 'utf8')) as Record_;
    } catch {
      return undefined;
    }
  }

  /** False if another launcher has created the record first. */
  #create(uid: number, record: Record_): boolean {
    return createFile(join(this.#dir, String(uid)), JSON.stringify(record));
  }

  #write(uid: number, record: Record_): void {
    replaceFile(join(this.#dir, String(uid)), JSON.stringify(record));
  }

  #home(uid: number): string {
    const home = join(this.#homes, String(uid));
    if (!existsSync(home)) {
      mkdirSync(home, { mode: 0o700 });
      chmodSync(home, 0o700);
      if (this.#read(uid)?.tmp) {
        // before the uid can put a link in its place
        mkdirSync(join(home, TMP), { mode: 0o700 });
        chownSync(join(home, TMP), uid, uid);
      }
      chownSync(home, uid, uid);
    }
    return home;
  }

  /**
   * Creates a system user, because programs such as whoami, OpenSSH and git look up the name of their uid. Undefined if
   * the system rejects it.
   */
  #makeUser(uid: number, home: string, person: string): string | undefined {
    if (readdirSync(this.#dir).filter((name) => this.#read(Number(name))?.name).length >= MAX_NAMES) return undefined;
    const stem = `coder-${person.toLowerCase().replaceAll(/[^a-z0-9_-]/g, '-')}`.slice(0, 28);
    for (let number = 1; number < 100; number++) {
      const name = number === 1 ? stem : `${stem}-${number}`;
      if (run('getent', ['passwd', name]).status === 0 || run('getent', ['group', name]).status === 0) continue;
      const group = run('groupadd', ['--system', '--gid', String(uid), name]);
      if (group.status !== 0) return this.#without(name, 'groupadd', group);
      const shell = existsSync('/bin/bash') ? '/bin/bash' : '/bin/sh';
      const identity = ['--uid', String(uid), '--gid', String(uid), '--home-dir', home, '--shell', shell];
      const comment = `Workspaces of ${person.replaceAll(/[^\w .@-]/g, '-')}`;
      const made = run('useradd', [
        '--system',
        '--no-log-init',
        '--no-create-home',
        ...identity,
        '--comment',
        comment,
        name,
      ]);
      if (made.status !== 0) {
        run('groupdel', [name]);
        return this.#without(name, 'useradd', made);
      }
      this.#say(
        `created the system user ${name} (uid ${uid}) for workspaces on this machine; to remove it, run "userdel ${name}"`,
      );
      return name;
    }
    return undefined;
  }

  #without(name: string, program: string, { error, stderr }: ReturnType<typeof run>): undefined {
    const why = error ? error.message : stderr.trim().split('\n').at(-1);
    this.#say(`cannot create the system user ${name}, so its uid has no name: ${program}: ${why}`);
    return undefined;
  }
}

function run(program: string, args: string[]) {
  const env = { PATH: SYSTEM_PATH };
  return spawnSync(program, args, { encoding: 'utf8', env, timeout: COMMAND_TIMEOUT_MS });
}
