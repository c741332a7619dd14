import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface DatabasePipe {
  /** The database URL with the proxy's address. */
  url: string;
  /** Breaks open connections and rejects new ones until `mend`. */
  cut(): void;
  mend(): void;
  close(): void;
}

/** A TCP proxy in front of a database. Each connection calls `watch` for a reader of its client's bytes. */
export async function pipeDatabase(databaseUrl: string, watch?: () => (part: Buffer) => void): Promise<DatabasePipe> {
  const target = new URL(databaseUrl);
  const folder = target.searchParams.get('host');
  const port = Number(target.port || 5432);
  const sockets = new Set<Socket>();
  let down = false;
  const server = createServer({ noDelay: true }, (inside) => {
    if (down) return void inside.on('error', () => {}).destroy();
    const outside = connect(
      folder ? { path: `${folder}/.s.PGSQL.${port}` } : { host: target.hostname, port, noDelay: true },
    );
    if (watch) inside.on('data', watch());
    inside.pipe(outside).pipe(inside);
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
  const url = new URL(databaseUrl);
  url.searchParams.delete('host');
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  const cutAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: url.href,
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
