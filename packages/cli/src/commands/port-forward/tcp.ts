import { createServer, type Server, type Socket } from 'node:net';
import { AppError } from '@ropewalk/kit/errors';
import { type Forwarding, noteEnd, type Opener } from './forwarding.ts';
import { endpoint, type ForwardSpec } from './specs.ts';

const LOOPBACK = ['127.0.0.1', '::1'];

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      // the system could not accept a connection, such as for want of files: only its client notices
      server.on('error', () => {});
      resolve();
    });
  });
}

/** Listens on a TCP port and forwards each connection to the port of the workspace. @throws AppError if it cannot listen. */
export async function forwardTcp(spec: ForwardSpec, open: Opener, notify: (text: string) => void): Promise<Forwarding> {
  const { splice } = await import('@ropewalk/client/tunnel-streams');
  const sockets = new Set<Socket>();
  const forward = async (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    try {
      const stream = await open('tcp', spec.remotePort);
      stream.on('error', () => {});
      if (socket.destroyed) stream.destroy();
      else await splice(socket, stream).catch((err) => noteEnd(`Port ${spec.remotePort}`, err, notify));
    } catch (err) {
      notify(`Port ${spec.remotePort}: ${(err as Error).message}`);
      socket.resetAndDestroy();
    }
  };
  const make = () => createServer({ allowHalfOpen: true, noDelay: true }, (s) => void forward(s));
  const hosts = spec.host === '' ? LOOPBACK : [spec.host];
  const servers: Server[] = [];
  let port = spec.localPort;
  for (const host of hosts) {
    const server = make();
    try {
      await listen(server, host, port);
      servers.push(server);
      port = (server.address() as { port: number }).port;
    } catch (err) {
      // the second address of the loopback interface is optional
      if (servers.length > 0) continue;
      throw cannotListen(host, spec.localPort, err as NodeJS.ErrnoException);
    }
  }
  return {
    local: endpoint(hosts[0]!, port),
    connections: () => sockets.size,
    close() {
      for (const server of servers) server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

export function cannotListen(host: string, port: number, err: NodeJS.ErrnoException): AppError {
  const reasons: Record<string, string> = {
    EADDRINUSE: 'another program uses this port',
    EACCES: 'permission denied',
    EADDRNOTAVAIL: 'this machine has no such address',
    ENOTFOUND: 'the host name does not exist',
  };
  const why = reasons[err.code ?? ''] ?? err.message;
  return new AppError('conflict', `Could not listen on ${endpoint(host, port)}: ${why}.`, { cause: err });
}
