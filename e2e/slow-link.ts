import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy in front of a server that is far away: bytes take `delayMs` in each direction. */
export interface SlowLink {
  url: string;
  /** The bytes that it has carried, in both directions. */
  bytes(): number;
  close(): void;
}

/** `host`: the address on which clients reach the proxy. */
export async function startSlowLink(host: string, target: string, delayMs: number): Promise<SlowLink> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let bytes = 0;
  const carry = (from: Socket, to: Socket) => {
    const later = (work: () => void) => void setTimeout(work, delayMs);
    from.on('data', (part) => {
      bytes += part.length;
      later(() => {
        if (!to.destroyed && !to.write(part)) from.pause();
      });
    });
    to.on('drain', () => from.resume());
    from.on('end', () => later(() => to.end()));
    from.on('error', () => {});
    from.on('close', () => later(() => to.destroy()));
  };
  const listener = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const server = connect({ host: hostname, port: Number(port), noDelay: true, allowHalfOpen: true });
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    }
    carry(client, server);
    carry(server, client);
  });
  await new Promise<void>((resolve) => listener.listen(0, host, resolve));
  return {
    url: `http://${host}:${(listener.address() as AddressInfo).port}`,
    bytes: () => bytes,
    close() {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
