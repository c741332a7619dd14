import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from 'node:net';

export interface Pipe {
  /** On 127.0.0.1. */
  port: number;
  /** Breaks open connections and rejects new ones until `mend`. */
  cut(): void;
  mend(): void;
  close(): void;
}

/**
 * A TCP proxy in front of a server. Each connection calls `watch` for a reader of its client's bytes. `rewrite` changes the
 * first bytes of a client, which contain the headers of its request.
 */
export async function startPipe(
  target: NetConnectOpts,
  watch?: () => (part: Buffer) => void,
  rewrite: (head: Buffer) => Buffer = (head) => head,
): Promise<Pipe> {
  const sockets = new Set<Socket>();
  let down = false;
  const server = createServer({ noDelay: true }, (inside) => {
    if (down) return void inside.on('error', () => {}).destroy();
    const outside = connect(target);
    if (watch) inside.on('data', watch());
    inside.once('data', (head: Buffer) => {
      outside.write(rewrite(head));
      inside.pipe(outside);
    });
    outside.pipe(inside);
    for (const socket of [inside, outside]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        inside.destroy();
        outside.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cutAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      down = true;
      cutAll();
    },
    mend() {
      down = false;
    },
    close() {
      server.close();
      cutAll();
    },
  };
}
