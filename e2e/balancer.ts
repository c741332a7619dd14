import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP load balancer without stickiness, as it stands in front of several servers. */
export interface Balancer {
  url: string;
  /** Directs new connections only to these ports, each in turn. */
  use(...ports: number[]): void;
  close(): void;
}

/** Connections go to each backend in turn. A backend that refuses is skipped. */
export async function startBalancer(): Promise<Balancer> {
  let backends: number[] = [];
  let next = 0;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  };
  const forward = (client: Socket, tries: number) => {
    const port = backends[next++ % backends.length];
    if (port === undefined || tries === 0) return void client.destroy();
    const server = connect({ port, host: '127.0.0.1', noDelay: true });
    keep(server);
    server.once('error', () => forward(client, tries - 1));
    server.once('connect', () => {
      server.removeAllListeners('error');
      for (const [from, to] of [
        [client, server],
        [server, client],
      ] as const) {
        from.on('error', () => {});
        from.on('close', () => to.destroy());
        from.pipe(to);
      }
    });
    client.once('close', () => server.destroy());
  };
  const listener = createServer({ noDelay: true, pauseOnConnect: true }, (client) => {
    keep(client);
    client.on('error', () => {});
    forward(client, backends.length);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    use(...ports) {
      backends = ports;
    },
    close() {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
