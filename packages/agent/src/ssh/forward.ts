import { statSync, unlinkSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { errorText } from '@ropewalk/kit';
import type { Connection, ServerChannel } from 'ssh2';
import { scratchDir } from '../scratch.ts';
import { fairWindow, pump, widen } from './channel.ts';
import type { SshConnection } from './connection.ts';

const CONNECT_TIMEOUT_MS = 15_000;
const WINDOW = 2 * 1024 * 1024;
const PACKET = 32 * 1024;

type Opened = (err: Error | undefined, channel?: ServerChannel) => void;

/** Members of ssh2's server side that its type declarations lack. */
interface ConnectionInternals {
  _chanMgr: { add(opened: Opened & { type: string }): number };
  _protocol: { openssh_authAgent(channel: number, window: number, packet: number): void };
  openssh_forwardOutStreamLocal(path: string, opened: Opened): void;
}

/** Connects a channel and a socket both ways until both have ended or either breaks. */
export function joinSocket(channel: ServerChannel, socket: Socket, signal: AbortSignal): void {
  fairWindow(channel);
  widen(channel);
  let open = 2;
  const half = () => {
    open--;
    if (open === 0) channel.close();
  };
  const abort = () => socket.destroy();
  signal.addEventListener('abort', abort, { once: true });
  channel.on('end', half);
  channel.pipe(socket);
  void pump(socket, channel, () => {}).then(() => {
    // Not end(): ssh2 then closes the whole channel, and the client may still be sending.
    channel.eof();
    half();
  });
  socket.on('error', () => channel.close());
  socket.on('close', () => {
    signal.removeEventListener('abort', abort);
    channel.close();
    channel.resume();
  });
  channel.on('close', () => socket.destroy());
}

type Target = { host: string; port: number } | { path: string };

function connectTo(target: Target, accept: () => ServerChannel, reject: () => void, connection: SshConnection): void {
  const socket = connect({ ...target, allowHalfOpen: true, noDelay: true });
  const give = (err: Error) => {
    clearTimeout(timer);
    socket.off('connect', connected);
    connection.log.debug('could not connect a forward', { err: err.message });
    socket.destroy();
    reject();
  };
  const connected = () => {
    clearTimeout(timer);
    socket.off('error', give);
    if (connection.signal.aborted) socket.destroy();
    else joinSocket(accept(), socket, connection.signal);
  };
  const timer = setTimeout(() => give(new Error('no answer')), CONNECT_TIMEOUT_MS);
  socket.once('error', give);
  socket.on('error', () => {});
  socket.once('connect', connected);
}

/** Maps the address of a client's listen request: names that mean "here" or "everywhere" as in OpenSSH. */
function bindHost(address: string): string {
  if (address === '' || address === '*') return '0.0.0.0';
  return address === 'localhost' ? '127.0.0.1' : address;
}

/** Serves forwarding for one connection: to the workspace (-L, -D) and from it (-R), for ports and Unix sockets. */
export function serveForwards(connection: SshConnection): void {
  const { client, signal, log } = connection;
  const inner = client as unknown as ConnectionInternals;
  const listeners = new Map<string, Server>();
  client.on('tcpip', (accept, reject, { destIP, destPort }) =>
    connectTo({ host: destIP, port: destPort }, accept, reject, connection),
  );
  client.on('openssh.streamlocal', (accept, reject, { socketPath }) =>
    connectTo({ path: socketPath }, accept, reject, connection),
  );

  const listen = (key: string, server: Server, at: () => void, listening: () => void, refused: () => void) => {
    if (listeners.has(key) || signal.aborted) return refused();
    listeners.set(key, server);
    server.on('error', (err) => {
      log.debug('could not listen for a forward', { err: err.message });
      listeners.delete(key);
      refused();
    });
    server.on('listening', listening);
    at();
  };
  const carry = (socket: Socket) => (err: Error | undefined, channel?: ServerChannel) => {
    if (err || !channel) socket.destroy();
    else joinSocket(channel, socket, signal);
  };
  const cancel = (key: string, accept?: () => void, reject?: () => void) => {
    const server = listeners.get(key);
    if (!server) return reject?.();
    listeners.delete(key);
    server.close();
    accept?.();
  };

  const onRequest = (
    accept: ((port?: number) => void) | undefined,
    reject: (() => void) | undefined,
    name: string,
    info: { bindAddr: string; bindPort: number; socketPath: string },
  ) => {
    const { bindAddr, bindPort, socketPath } = info;
    const refused = () => reject?.();
    if (name === 'tcpip-forward') {
      let port = bindPort;
      const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
        socket.on('error', () => {});
        client.forwardOut(bindAddr, port, socket.remoteAddress ?? '', socket.remotePort ?? 0, carry(socket));
      });
      const key = () => `${bindAddr}:${port}`;
      listen(
        bindPort === 0 ? `${bindAddr}:new:${listeners.size}` : key(),
        server,
        () => server.listen(bindPort, bindHost(bindAddr)),
        () => {
          port = (server.address() as AddressInfo).port;
          // If the client asked for any port, it cancels with the port that it received.
          listeners.set(key(), server);
          accept?.(port);
        },
        refused,
      );
    } else if (name === 'cancel-tcpip-forward') {
      cancel(`${bindAddr}:${bindPort}`, accept, reject);
    } else if (name === 'streamlocal-forward@openssh.com') {
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        socket.on('error', () => {});
        inner.openssh_forwardOutStreamLocal(socketPath, carry(socket));
      });
      const at = () => {
        removeSocket(socketPath);
        server.listen(socketPath);
      };
      listen(socketPath, server, at, () => accept?.(), refused);
    } else if (name === 'cancel-streamlocal-forward@openssh.com') cancel(socketPath, accept, reject);
    else refused();
  };
  client.on('request', onRequest as never);
  signal.addEventListener('abort', () => {
    for (const server of new Set(listeners.values())) server.close();
    listeners.clear();
  });
}

/** Removes a socket that an earlier listener left. */
function removeSocket(path: string): void {
  try {
    if (statSync(path).isSocket()) unlinkSync(path);
  } catch {
    // listen() reports the failure.
  }
}

/**
 * Creates a socket in the workspace through which programs reach the client's own SSH agent. It ends with the
 * connection.
 */
export async function forwardAgent(connection: SshConnection): Promise<string> {
  const { client, signal, log } = connection;
  const directory = await scratchDir('forward');
  const path = join(directory, 'agent.sock');
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {});
    openAgentChannel(client, (err, channel) => {
      if (err || !channel) socket.destroy();
      else joinSocket(channel, socket, signal);
    });
  });
  const close = () => {
    server.close();
    void rm(directory, { recursive: true, force: true }).catch((err) => log.debug('rm', { err: errorText(err) }));
  };
  signal.addEventListener('abort', close, { once: true });
  await new Promise<void>((resolve, reject) => {
    // also a later one: the system could not accept a connection, and only its client notices
    server.on('error', reject);
    server.listen(path, resolve);
  });
  if (signal.aborted) close();
  return path;
}

function openAgentChannel(client: Connection, opened: Opened): void {
  const inner = client as unknown as ConnectionInternals;
  const wrapper = Object.assign((err: Error | undefined, channel?: ServerChannel) => opened(err, channel), {
    type: 'auth-agent@openssh.com',
  });
  const id = inner._chanMgr.add(wrapper);
  if (id === -1) opened(new Error('no channel left'));
  else inner._protocol.openssh_authAgent(id, WINDOW, PACKET);
}
