import { chmodSync, chownSync, lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { AppError, isAlive } from '@ropewalk/kit';

/** The longest path of a Unix socket that every system takes. */
const MAX_PATH = 100;
const SOCKET = 'daemons.sock';
/** Of the process that starts builds under their own uids. It can outlive the server. */
export const LAUNCHER_SOCKET = 'launcher.sock';
/** A server listens this long after it has created its folder, in ms. */
const OPENING_MS = 60_000;
/** How long a launcher without builds and daemons takes to end, at most, in ms. */
const LAUNCHER_ENDS_MS = 1_000;
const LAUNCHER_POLL_MS = 20;

/** The server's own Unix socket. Built-in daemons connect here only, and nobody else does. */
export interface OwnSocket {
  path: string;
  /** A path in the socket's folder, which goes with it. */
  beside(name: string): string;
  /** Whether a connection came in here. No header and no proxy can claim that. */
  owns(socket: object): boolean;
  close(): Promise<void>;
}

/**
 * Listens on a fresh socket that only one uid can connect to, and passes upgrades on to the HTTP server. The folder is
 * `base` unless its path is too long; every start of the server has its own path, since a server that was killed
 * leaves its socket behind.
 */
export async function openOwnSocket(given: {
  server: Server;
  /** An existing folder. */
  base: string;
  /** Who may connect in addition to this process's own user. */
  uid: number | undefined;
}): Promise<OwnSocket> {
  const prefix = `server-${process.pid}-`;
  const name = join(`${prefix}XXXXXX`, LAUNCHER_SOCKET);
  const parent = join(given.base, name).length <= MAX_PATH ? given.base : tmpdir();
  await sweep(parent);
  const dir = mkdtempSync(join(parent, prefix));
  const path = join(dir, SOCKET);
  const beside = (other: string) => join(dir, other);
  const sockets = new WeakSet<object>();
  const open = new Set<Socket>();
  const server = createServer((_request, response) => {
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ message: 'Only built-in provisioner daemons connect here.' }));
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  server.on('upgrade', (...event) => given.server.emit('upgrade', ...event));
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(path, resolve);
    });
    // the system could not accept a connection, such as for want of files: only its client notices
    server.on('error', () => {});
    chmodSync(path, 0o600);
    if (given.uid !== undefined) {
      chownSync(path, given.uid, given.uid);
      chmodSync(dir, 0o711);
    }
  } catch (err) {
    server.close();
    rmSync(dir, { recursive: true, force: true });
    throw new AppError('unavailable', `Could not open the socket of the built-in provisioner daemons: ${err}`, {
      cause: err,
    });
  }
  return {
    path,
    beside,
    owns: (socket) => sockets.has(socket),
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open) socket.destroy();
      await closed;
      // daemons that finish their jobs need the launcher. The next start removes its folder then
      const until = performance.now() + LAUNCHER_ENDS_MS;
      while (await answers(beside(LAUNCHER_SOCKET))) {
        if (performance.now() > until) return;
        await delay(LAUNCHER_POLL_MS);
      }
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Removes the folders of the sockets of servers that were killed. Other users cannot have made them, also not in a folder for everybody. */
async function sweep(parent: string): Promise<void> {
  for (const name of readdirSync(parent)) {
    const pid = /^server-(\d+)-\w{6}$/.exec(name)?.[1];
    if (pid === undefined) continue;
    const dir = join(parent, name);
    const found = lstatSync(dir, { throwIfNoEntry: false });
    if (!found?.isDirectory() || (process.getuid && found.uid !== process.getuid())) continue;
    if (await isLeft(dir, Number(pid), found.mtimeMs)) rmSync(dir, { recursive: true, force: true });
  }
}

/**
 * Whether no server uses a folder. A living process with its pid need not be that server: every start in a container has
 * the same pid, and elsewhere the system uses pids again.
 */
async function isLeft(dir: string, pid: number, changedMs: number): Promise<boolean> {
  // daemons that finish their jobs without their server still start programs through the launcher
  if (await answers(join(dir, LAUNCHER_SOCKET))) return false;
  if (pid === process.pid || !isAlive(pid)) return true;
  return Date.now() - changedMs > OPENING_MS && !(await answers(join(dir, SOCKET)));
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}
