import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AppError, type UidBlock } from '@platform/kit';
import { type BuildUser, SPARE_UIDS } from './protocol.ts';

const COMMAND_TIMEOUT_MS = 30_000;
/** Beyond it uids stay without a name: every process that looks a user up reads the whole list. */
const MOST_NAMES = 2_000;

interface Record_ {
  /** Of `user` requests: its key. Of `spare` requests: the folder of the session. */
  key: string;
  name?: string;
}

/** The uids that an installation has given out, one file each in `<base>/uids`, written by root alone. */
export class Users {
  readonly #block: UidBlock;
  readonly #dir: string;
  readonly #homes: string;
  readonly #say: (text: string) => void;

  constructor(block: UidBlock, base: string, say: (text: string) => void) {
    this.#block = block;
    this.#dir = join(base, 'uids');
    this.#homes = join(base, 'homes');
    this.#say = say;
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    mkdirSync(this.#homes, { recursive: true });
    chmodSync(this.#homes, 0o711);
  }

  /** The uid of a key, which it keeps for ever; with a name of its own where one is wanted and can be made. */
  user(key: string, person: string | undefined): BuildUser {
    const from = this.#block.first + 1 + SPARE_UIDS;
    const uid = this.#find(key) ?? this.#take(key, from, this.#block.first + this.#block.count);
    const home = this.#home(uid);
    const record = this.#read(uid)!;
    if (record.name === undefined && person !== undefined) {
      const name = this.#makeUser(uid, home, person);
      if (name !== undefined) this.#write(uid, { ...record, name });
      return { uid, home, ...(name === undefined ? {} : { name }) };
    }
    return { uid, home, ...(record.name === undefined ? {} : { name: record.name }) };
  }

  /** A uid that nothing of an earlier job can still use. */
  spare(session: string): BuildUser {
    const from = this.#block.first + 1;
    const known = this.#find(session);
    if (known !== undefined) return { uid: known, home: this.#home(known) };
    const living = livingUids();
    for (let uid = from; uid < from + SPARE_UIDS; uid++) {
      const record = this.#read(uid);
      if (living.has(uid) || (record && existsSync(record.key))) continue;
      rmSync(join(this.#dir, String(uid)), { force: true });
      // no process of it lives, so that nobody is there to change what is removed
      rmSync(join(this.#homes, String(uid)), { recursive: true, force: true });
      if (this.#create(uid, { key: session })) return { uid, home: this.#home(uid) };
    }
    throw new AppError('unavailable', `All ${SPARE_UIDS} uids for imports and dry runs are in use.`);
  }

  #take(key: string, from: number, to: number): number {
    const used = new Set(readdirSync(this.#dir).map(Number));
    for (let uid = from; uid < to; uid++) if (!used.has(uid) && this.#create(uid, { key })) return uid;
    throw new AppError(
      'unavailable',
      `All ${to - from} uids of this installation are in use. Use external provisioner daemons.`,
    );
  }

  #find(key: string): number | undefined {
    for (const name of readdirSync(this.#dir)) if (this.#read(Number(name))?.key === key) return Number(name);
    return undefined;
  }

  #read(uid: number): Record_ | undefined {
    try {
      return JSON.parse(readFileSync(join(this.#dir, String(uid)), 'utf8')) as Record_;
    } catch {
      return undefined;
    }
  }

  /** False where another launcher was quicker. */
  #create(uid: number, record: Record_): boolean {
    try {
      writeFileSync(join(this.#dir, String(uid)), JSON.stringify(record), { flag: 'wx', mode: 0o600 });
      return true;
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw err;
    }
  }

  #write(uid: number, record: Record_): void {
    writeFileSync(join(this.#dir, String(uid)), JSON.stringify(record), { mode: 0o600 });
  }

  #home(uid: number): string {
    const home = join(this.#homes, String(uid));
    if (!existsSync(home)) {
      mkdirSync(home, { mode: 0o700 });
      chmodSync(home, 0o700);
      chownSync(home, uid, uid);
    }
    return home;
  }

  /** A system user, for what asks who it runs as: whoami, OpenSSH, git. Undefined where none can be made. */
  #makeUser(uid: number, home: string, person: string): string | undefined {
    if (readdirSync(this.#dir).filter((name) => this.#read(Number(name))?.name).length >= MOST_NAMES) return undefined;
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
        `made the system user ${name} (uid ${uid}) for workspaces on this machine; "userdel ${name}" removes it`,
      );
      return name;
    }
    return undefined;
  }

  #without(name: string, program: string, { error, stderr }: ReturnType<typeof run>): undefined {
    const why = error ? error.message : stderr.trim().split('\n').at(-1);
    this.#say(`cannot make the system user ${name}, its uid stays without a name: ${program}: ${why}`);
    return undefined;
  }
}

function run(program: string, args: string[]) {
  const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };
  return spawnSync(program, args, { encoding: 'utf8', env, timeout: COMMAND_TIMEOUT_MS });
}

/** The uids that processes of this machine have now. */
function livingUids(): Set<number> {
  const uids = new Set<number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const uid = uidOf(Number(name));
    if (uid !== undefined) uids.add(uid);
  }
  return uids;
}

/** The real uid of a process; the owner of its folder is root's where it cannot be traced. */
export function uidOf(pid: number): number | undefined {
  try {
    return Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  } catch {
    return undefined;
  }
}
