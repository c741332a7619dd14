import { chmodSync, chownSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AppError, isAlive } from '@platform/kit';

/** The longest path of a Unix socket that every system takes. */
const MAX_PATH = 100;

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
 * `base` unless its path is too long; every start of the server has a path of its own, since a server that was killed
 * leaves its socket behind.
 */
export async function openOwnSocket(given: {
  server: Server;
  /** An existing folder. */
  base: string;
  /** Who may connect beside this process's own user. */
  uid: number | undefined;
}): Promise<OwnSocket> {
  sweep(given.base);
  const prefix = `server-${process.pid}-`;
  const name = join(`${prefix}XXXXXX`, 'launcher.sock');
  const parent = join(given.base, name).length <= MAX_PATH ? given.base : tmpdir();
  const dir = mkdtempSync(join(parent, prefix));
  const path = join(dir, 'daemons.sock');
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
    beside: (other) => join(dir, other),
    owns: (socket) => sockets.has(socket),
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open) socket.destroy();
      await closed;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Removes the folders of servers that were killed. */
function sweep(base: string): void {
  for (const name of readdirSync(base)) {
    const pid = /^server-(\d+)-\w{6}$/.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(base, name), { recursive: true, force: true });
  }
}
