import { type AddressInfo, createServer, type Socket } from 'node:net';

export interface Echo {
  /** On 127.0.0.1. */
  port: number;
  /** The number of open connections. */
  connections(): number;
  close(): void;
}

/** A TCP server that sends back what it receives. */
export async function startEcho(): Promise<Echo> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => sockets.size,
    close: () => void server.close(),
  };
}
