import { rmSync } from 'node:fs';
import { chmod, lstat, rename, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { type DrpcHandlers, implement, serveDrpc } from '@ropewalk/wire/drpc';
import { AgentSocket } from '@ropewalk/wire/proto/agentsocket';
import { scratchDir } from '../scratch.ts';
import type { AgentClient } from '../wire-types.ts';
import { createUnits, type Units } from './units.ts';

const MAX_CONNECTIONS = 256;
/** How long to wait for an answer at a path that another process may use. */
const PROBE_MS = 2_000;

/** The agent's socket for programs in the workspace, such as `coder exp sync`. Only the agent's own user can use it. */
export interface LocalSocket {
  /** The path at which the agent listens. Undefined if it cannot listen: the log has the reason. Never rejects. */
  readonly path: Promise<string | undefined>;
  /** The connection to the server, for calls that the agent passes on. */
  setServer(client: AgentClient): void;
  /** This connection has ended. Has no effect if there is a newer one. */
  unsetServer(client: AgentClient): void;
  close(): Promise<void>;
}

/**
 * Listens at `wanted`, or if another agent of this machine listens there, at a private path. Other users cannot
 * connect: the socket gets its mode in a private directory before it moves to a shared one.
 */
export function startLocalSocket({ wanted, log }: { wanted: string; log: Logger }): LocalSocket {
  let client: AgentClient | undefined;
  const open = new Set<Socket>();
  const calls = socketCalls(createUnits(), () => client);
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => open.delete(socket));
    serveDrpc(socket, [implement(AgentSocket, calls)]);
  });
  server.maxConnections = MAX_CONNECTIONS;
  // after it listens, an error is about one connection that could not be accepted
  server.on('error', (err) => log.debug('the local socket failed', { err: errorText(err) }));
  let dir: string | undefined;
  let path: string | undefined;

  async function begin(): Promise<string> {
    if (process.platform === 'win32') {
      await listening(server, wanted);
      return wanted;
    }
    dir = await scratchDir('socket');
    const own = join(dir, 'agent.sock');
    await listening(server, own);
    await chmod(own, 0o600);
    if (!(await isFree(wanted))) {
      log.info('another program listens at the path of the local socket', { path: wanted, instead: own });
      return own;
    }
    try {
      await rename(own, wanted);
      // a killed agent would leave it
      rmSync(dir, { recursive: true, force: true });
      return wanted;
    } catch (err) {
      log.info('could not place the local socket', { path: wanted, instead: own, err: errorText(err) });
      return own;
    }
  }
  const started = begin().then(
    (found) => {
      path = found;
      return found;
    },
    (err) => {
      log.warn('could not open the local socket', { path: wanted, err: errorText(err) });
      return undefined;
    },
  );
  return {
    path: started,
    setServer(next) {
      client = next;
    },
    unsetServer(ended) {
      if (client === ended) client = undefined;
    },
    async close() {
      await started;
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      if (path !== undefined && process.platform !== 'win32') await rm(path, { force: true }).catch(() => {});
      if (dir !== undefined) rmSync(dir, { recursive: true, force: true });
    },
  };
}

function listening(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Whether a path has no file, or a socket of this user at which nobody listens. */
async function isFree(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (!found) return true;
  if (!found.isSocket() || found.uid !== process.getuid?.()) return false;
  return new Promise((resolve) => {
    const socket = connect(path);
    const done = (free: boolean) => {
      socket.destroy();
      resolve(free);
    };
    socket.setTimeout(PROBE_MS, () => done(false));
    socket.once('connect', () => done(false));
    socket.once('error', () => done(true));
  });
}

function socketCalls(units: Units, server: () => AgentClient | undefined): DrpcHandlers<typeof AgentSocket> {
  return {
    ping: () => ({}),
    syncStart({ unit }) {
      units.start(unit);
      return {};
    },
    syncWant({ unit, dependsOn }) {
      units.want(unit, dependsOn);
      return {};
    },
    syncComplete({ unit }) {
      units.complete(unit);
      return {};
    },
    syncReady: ({ unit }) => ({ ready: units.isReady(unit) }),
    syncStatus: ({ unit }) => ({
      status: units.status(unit),
      isReady: units.isReady(unit),
      dependencies: units.dependencies(unit).map((one) => ({ ...one, requiredStatus: 'completed' })),
    }),
    syncList: () => ({ units: units.list() }),
    async updateAppStatus(request, { signal }) {
      const client = server();
      if (!client) throw new AppError('unavailable', 'The agent is not connected to the server.');
      return client.updateAppStatus(request, { signal });
    },
  };
}
