import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
} from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { resolve, sep } from 'node:path';
import { createInterface } from 'node:readline';
import { StringDecoder } from 'node:string_decoder';
import {
  AppError,
  daemonUid,
  errorText,
  idsOfProcess,
  type LauncherInput,
  signalGroup,
  type UidBlock,
} from '@ropewalk/kit';
import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import { hasNoNewPrivileges, noNewPrivileges } from '@ropewalk/kit/no-new-privileges';
import { processRef } from '@ropewalk/kit/process-ref';
import { SYSTEM_PATH } from '@ropewalk/kit/reach';
import { endRest } from '../terraform/signal.ts';
import { moveEarlierHome } from './earlier-homes.ts';
import type { LauncherReply, LauncherRequest, RunRequest } from './protocol.ts';
import { giveEnvironment, Rooms } from './rooms.ts';
import { Users } from './users.ts';
import { emptyFolders } from './vacate.ts';

const MAX_LINE = 8 << 20;
const REQUEST_MS = 30_000;
const SIGNALS: readonly string[] = ['SIGINT', 'SIGTERM', 'SIGKILL'];

/**
 * The process that starts builds under their uids; see protocol.ts. Exits when its server is gone, no build runs and no
 * daemon needs it.
 */
export function runLauncher(): void {
  releaseMemoryWhenIdle();
  let busy = 0;
  let orphan = false;
  const endIfIdle = () => {
    if (orphan && busy === 0) process.exit(0);
  };
  // these signals are for the server or a terminal, and runs outlive both
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE'] as const) process.on(name, () => {});
  process.stdout.on('error', () => {});
  process.stdin.on('error', () => {});
  closeInherited();
  // a build shares files with the daemon through its group, and with nobody else
  process.umask(0o007);
  const lines = createInterface({ input: process.stdin });
  lines.once('line', (line) => serve(JSON.parse(line) as LauncherInput));
  lines.once('close', () => {
    orphan = true;
    endIfIdle();
  });

  function serve(input: LauncherInput): void {
    const launcher = new Launcher(input);
    const server = createServer((socket) => {
      busy++;
      socket.once('close', () => {
        busy--;
        endIfIdle();
      });
      socket.on('error', () => socket.destroy());
      readLine(socket)
        .then((text) => launcher.handle(socket, JSON.parse(text) as LauncherRequest))
        .catch((err) => reply(socket, { error: errorText(err) }, true));
    });
    rmSync(input.socketPath, { force: true });
    server.listen(input.socketPath, () => {
      const uid = daemonUid(input.block);
      chownSync(input.socketPath, uid, uid);
      chmodSync(input.socketPath, 0o600);
      process.stdout.write('ready\n');
      // the system could not accept a connection: only its client notices
      server.on('error', () => {});
    });
  }
}

/** Closes the files that the server's shell or service left open, because builds would inherit them. */
function closeInherited(): void {
  const CLOSED_BY_EXEC = 0o2000000;
  for (const fd of readdirSync('/proc/self/fd').map(Number)) {
    if (fd <= 2) continue;
    try {
      const flags = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))![1]!;
      if ((Number.parseInt(flags, 8) & CLOSED_BY_EXEC) === 0) closeSync(fd);
    } catch {
      // the descriptor of the listing itself, which is already closed
    }
  }
}

class Launcher {
  readonly #block: UidBlock;
  readonly #dir: string;
  readonly #base: string;
  readonly #users: Users;
  /**
   * The command that starts a program without privileges from setuid files. Empty if the launcher itself has none, or if
   * the machine has no such command.
   */
  readonly #wrapper: string[];
  /** Connections by token. A later `run` request uses them as a program's output. */
  readonly #streams = new Map<string, Socket>();

  constructor({ block, base, daemonDir }: LauncherInput) {
    this.#block = block;
    this.#dir = daemonDir;
    this.#base = base;
    const say = (text: string) => process.stdout.write(`say ${text}\n`);
    // what it starts inherits it. A command before each program would take a millisecond
    const has = hasNoNewPrivileges();
    this.#wrapper = has ? [] : noNewPrivileges();
    const setuid = !has && this.#wrapper.length === 0;
    if (setuid)
      say(
        'setpriv is not installed, so builds can run setuid programs and gain other uids. Install util-linux to prevent this',
      );
    const rooms = new Rooms(base, daemonDir);
    const possible = rooms.isPossible();
    if (!possible)
      say(
        'this system does not allow private temporary folders (mount namespaces), so the files that an import leaves in /tmp are found by a search of it',
      );
    this.#users = new Users(block, { base, builds: daemonDir, setuid, say, rooms: possible ? rooms : undefined });
  }

  async handle(socket: Socket, request: LauncherRequest): Promise<void> {
    switch (request.op) {
      case 'stream':
        this.#streams.set(request.token, socket);
        socket.once('close', () => this.#streams.delete(request.token));
        setTimeout(() => this.#streams.has(request.token) && socket.destroy(), REQUEST_MS).unref();
        return reply(socket, { ok: true });
      case 'stay':
        // reads on, to learn when the connection ends
        socket.resume();
        return reply(socket, { ok: true });
      case 'user': {
        const user = this.#users.user(request.key, request.name, request.own);
        const runAs = this.#users.runAs(user.uid);
        if (request.earlier) await moveEarlierHome(this.#base, request.earlier, { ...user, runAs });
        return reply(socket, { user }, true);
      }
      case 'vacate':
        await this.#users.vacate(request.key);
        return reply(socket, { ok: true }, true);
      case 'spare':
        return reply(socket, { user: await this.#users.spare(request.session) }, true);
      case 'release':
        await this.#users.release(request.session);
        return reply(socket, { ok: true }, true);
      case 'signal': {
        const { process: wanted, signal } = request;
        const now = processRef(wanted.pid);
        const ids = idsOfProcess(wanted.pid);
        if (!Number.isInteger(wanted.pid)) throw new AppError('invalid', 'The process id is not a whole number.');
        if (!SIGNALS.includes(signal)) throw new AppError('invalid', `The launcher does not send ${signal}.`);
        if (now?.startTime === wanted.startTime && ids) {
          for (const id of [...ids.uids, ...ids.gids]) this.#check(id);
          signalGroup(wanted.pid, signal);
        }
        return reply(socket, { ok: true }, true);
      }
      case 'clear': {
        this.#check(request.uid);
        const dirs = request.dirs.map((dir) => this.#below(dir));
        await emptyFolders(this.#users.runAs(request.uid), dirs);
        return reply(socket, { ok: true }, true);
      }
      case 'hold': {
        this.#check(request.uid);
        // cat exits when the caller closes the connection, which is its standard input. It outlives the launcher, because
        // Terraform ends its calls to the provider when this process is gone
        const program = { file: '/bin/cat', args: [], cwd: '/', env: {} };
        const child = await this.#start(request.uid, program, [socket, 'ignore', 'ignore'], { cwd: '/' });
        const exit = ended(child);
        if (child.pid === undefined) await exit;
        exit.catch(() => {});
        const started = processRef(child.pid!) ?? { pid: child.pid!, startTime: '' };
        return void socket.write(lineOf({ started }), () => socket.destroy());
      }
      case 'run':
        return this.#run(socket, request);
      default:
        // a connection without an answer would keep the launcher running for ever
        throw new AppError('invalid', `Unknown operation: ${JSON.stringify((request as { op: unknown }).op)}.`);
    }
  }

  async #run(socket: Socket, request: RunRequest): Promise<void> {
    this.#check(request.uid);
    const outputs = [request.out, request.err].map((token) => {
      const stream = this.#streams.get(token);
      if (!stream) throw new AppError('invalid', 'The output of the run is not connected.');
      return stream;
    });
    let folder: number | undefined;
    try {
      folder = this.#open(request.cwd);
      const [file, ...args] = [...this.#wrapper, request.file, ...request.args] as [string, ...string[]];
      const { uid, cwd, env } = request;
      const child = await this.#start(uid, { file, args, cwd, env }, ['ignore', outputs[0]!, outputs[1]!], {
        cwd: `/proc/self/fd/${folder}`,
        detached: true,
      });
      closeSync(folder);
      folder = undefined;
      const exit = ended(child);
      if (child.pid !== undefined)
        reply(socket, { started: processRef(child.pid) ?? { pid: child.pid, startTime: '' } });
      // only the program holds them now
      for (const stream of outputs) stream.destroy();
      for (const token of [request.out, request.err]) this.#streams.delete(token);
      const outcome = await exit;
      endRest(child.pid!, outcome);
      reply(socket, { exit: outcome }, true);
    } finally {
      if (folder !== undefined) closeSync(folder);
      for (const stream of outputs) stream.destroy();
    }
  }

  /** Starts a program of a uid, in its room if it has one. On the machine, it starts in the folder that `spawned` names. */
  async #start(
    uid: number,
    program: { file: string; args: string[]; cwd: string; env: Record<string, string> },
    stdio: ('pipe' | 'ignore' | Socket)[],
    spawned: { cwd: string; detached?: boolean },
  ): Promise<ChildProcess> {
    const entered = await this.#users.room(uid)?.enter(uid, program);
    if (!entered) return spawn(program.file, program.args, { ...spawned, env: program.env, uid, gid: uid, stdio });
    const child = spawn(entered.file, entered.args, {
      ...spawned,
      cwd: '/',
      env: { PATH: SYSTEM_PATH },
      stdio: [...stdio, 'pipe'],
    });
    giveEnvironment(child, entered);
    return child;
  }

  /** Rejects the daemon's own uid and every uid outside the block. */
  #check(uid: number): void {
    const { first, count } = this.#block;
    if (!Number.isInteger(uid) || uid <= first || uid >= first + count)
      throw new AppError('forbidden', `uid ${uid} is not one of this installation's builds.`);
  }

  /**
   * Opens a folder of builds. A child changes to its folder while it is still root, and a daemon can replace a part of
   * the path with a link. So the launcher opens the folder, checks its real path and passes the open folder to the
   * child.
   */
  #open(dir: string): number {
    const path = this.#below(dir);
    let folder: number;
    try {
      folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    } catch (err) {
      throw new AppError('unavailable', `Could not start a program in ${path}: ${errorText(err)}`);
    }
    if (readlinkSync(`/proc/self/fd/${folder}`).startsWith(`${realpathSync(this.#dir)}${sep}`)) return folder;
    closeSync(folder);
    throw new AppError('forbidden', `${dir} is not a folder of builds.`);
  }

  #below(dir: string): string {
    const path = resolve(dir);
    if (!path.startsWith(`${this.#dir}${sep}`)) throw new AppError('forbidden', `${dir} is not a folder of builds.`);
    return path;
  }
}

function ended(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    child.once('error', (err) =>
      reject(new AppError('unavailable', `Could not start ${child.spawnfile}: ${err.message}`)),
    );
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
}

function reply(socket: Socket, value: LauncherReply, last = false): void {
  if (socket.destroyed) return;
  if (last) socket.end(lineOf(value));
  else socket.write(lineOf(value));
}

const lineOf = (value: LauncherReply): string => `${JSON.stringify(value)}\n`;

/** Reads the request of a connection: its first line. The rest is not read, because output goes the other way. */
function readLine(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    // a character can be split between two parts
    const decoder = new StringDecoder('utf8');
    const timer = setTimeout(() => socket.destroy(new Error('no request')), REQUEST_MS);
    const onClose = () => reject(new AppError('invalid', 'The connection ended without a request.'));
    const onData = (data: Buffer) => {
      text += decoder.write(data);
      const end = text.indexOf('\n');
      if (end < 0 && text.length < MAX_LINE) return;
      clearTimeout(timer);
      socket.off('data', onData);
      socket.off('close', onClose);
      socket.pause();
      if (end < 0) reject(new AppError('too_large', 'The request is too large.'));
      else resolve(text.slice(0, end));
    };
    socket.on('data', onData);
    socket.once('close', onClose);
  });
}
