import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from 'node:net';

export interface Pipe {
  /** On 127.0.0.1. */
  port: number;
  /** Breaks open connections and rejects new ones until `mend`. */
  cut(): void;
  /** Passes no bytes on until `mend`, as a network that drops packets. Connections stay open. */
  stall(): void;
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
  let stalled = false;
  const held = new Map<Socket, () => void>();
  const hold = (socket: Socket) => {
    // a pipe resumes a socket that is only paused
    const stop = () => void socket.pause();
    socket.on('resume', stop);
    held.set(socket, () => socket.off('resume', stop).resume());
    socket.pause();
  };
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
      if (stalled) hold(socket);
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
    stall() {
      stalled = true;
      for (const socket of sockets) hold(socket);
    },
    mend() {
      down = false;
      stalled = false;
      for (const release of held.values()) release();
      held.clear();
    },
    close() {
      server.close();
      cutAll();
    },
  };
}
