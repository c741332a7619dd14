// A pipe in front of PostgreSQL that counts the statements that go through it.
import { connect, createServer, type Socket } from 'node:net';

export interface StatementCounter {
  /** The given URL, through the counter. */
  url: string;
  /** Statements executed so far. */
  count(): number;
  close(): void;
}

const STARTUP_HEAD = 4;
const HEAD = 5;

/** Counts `Execute` and simple `Query` messages of the client's half of a connection, without keeping their bytes. */
function statements(counted: () => void): (chunk: Buffer) => void {
  let head = Buffer.alloc(0);
  let skip = 0;
  let startup = true;
  return (chunk) => {
    let rest = chunk;
    while (rest.length > 0) {
      if (skip > 0) {
        const taken = Math.min(skip, rest.length);
        skip -= taken;
        rest = rest.subarray(taken);
        continue;
      }
      const wanted = startup ? STARTUP_HEAD : HEAD;
      const taken = Math.min(wanted - head.length, rest.length);
      head = Buffer.concat([head, rest.subarray(0, taken)]);
      rest = rest.subarray(taken);
      if (head.length < wanted) return;
      const type = startup ? '' : String.fromCharCode(head[0]!);
      if (type === 'E' || type === 'Q') counted();
      skip = head.readUInt32BE(startup ? 0 : 1) - 4;
      startup = false;
      head = Buffer.alloc(0);
    }
  };
}

export async function countStatements(databaseUrl: string): Promise<StatementCounter> {
  const target = new URL(databaseUrl);
  const folder = target.searchParams.get('host');
  const port = Number(target.port || 5432);
  let count = 0;
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (inside) => {
    const outside = folder
      ? connect(`${folder}/.s.PGSQL.${port}`)
      : connect({ host: target.hostname, port, noDelay: true });
    const read = statements(() => count++);
    inside.on('data', read);
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
  url.port = String((server.address() as { port: number }).port);
  return {
    url: url.href,
    count: () => count,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
