import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { acceptWebSocket, byteStream, dialWebSocket } from './websocket.ts';
import { YamuxSession } from './yamux.ts';

/** Bulk through WebSocket + yamux against plain TCP, each between two processes. MB/s and their ratio. */
export interface WireBench {
  direction: 'to server' | 'to client';
  tcp: number;
  mux: number;
  ratio: number;
}

const BLOCK = Buffer.alloc(64 * 1024, 7);

function feed(stream: Duplex, total: number): void {
  let left = total;
  const more = () => {
    while (left > 0) {
      left -= BLOCK.length;
      if (left <= 0) {
        stream.end(BLOCK);
        return;
      }
      if (!stream.write(BLOCK)) {
        stream.once('drain', more);
        return;
      }
    }
  };
  more();
}

async function swallow(stream: Duplex): Promise<number> {
  let got = 0;
  stream.on('data', (chunk: Buffer) => {
    got += chunk.length;
  });
  await once(stream, 'end');
  return got;
}

/** The peer: one byte says what it does on a stream: 1 takes all and answers its count, 2 sends `total`. */
function serve(stream: Duplex, total: number): void {
  stream.on('error', () => {});
  stream.once('data', (first: Buffer) => {
    if (first[0] === 2) feed(stream, total);
    else void swallow(stream).then((got) => stream.end(String(got)));
  });
}

function child(total: number, window: number): void {
  const http = createHttpServer();
  http.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    const conn = byteStream(acceptWebSocket(req, socket, head));
    new YamuxSession(conn, { role: 'server', maxWindow: window, onStream: (stream) => serve(stream, total) });
  });
  const tcp = createServer((socket: Socket) => serve(socket, total));
  http.listen(0, '127.0.0.1', () => {
    tcp.listen(0, '127.0.0.1', () => {
      const port = (server: { address(): unknown }) => (server.address() as AddressInfo).port;
      process.send?.({ http: port(http), tcp: port(tcp) });
    });
  });
  process.on('disconnect', () => process.exit(0));
}

async function timed(stream: Duplex, direction: WireBench['direction'], total: number): Promise<number> {
  const start = performance.now();
  const done = swallow(stream);
  if (direction === 'to client') stream.write(Buffer.from([2]));
  else {
    stream.write(Buffer.from([1]), () => feed(stream, total));
  }
  await done;
  return total / 1e6 / ((performance.now() - start) / 1000);
}

/** Runs the comparison: `megabytes` per measurement, the best of `runs`. */
export async function bench(megabytes = 300, runs = 3, window = 512 * 1024): Promise<WireBench[]> {
  const total = megabytes * 1_000_000;
  const peer = fork(import.meta.filename, [String(total), String(window)]);
  try {
    const [ports] = (await once(peer, 'message')) as [{ http: number; tcp: number }];
    const results: WireBench[] = [];
    for (const direction of ['to server', 'to client'] as const) {
      let tcp = 0;
      let mux = 0;
      for (let run = 0; run < runs; run++) {
        tcp = Math.max(tcp, await timed(connect(ports.tcp, '127.0.0.1'), direction, total));
        const { connection } = await dialWebSocket(`ws://127.0.0.1:${ports.http}/`);
        const session = new YamuxSession(byteStream(connection), { role: 'client', maxWindow: window });
        mux = Math.max(mux, await timed(session.openStream(), direction, total));
        await session.close();
      }
      results.push({
        direction,
        tcp: Math.round(tcp),
        mux: Math.round(mux),
        ratio: Math.round((mux / tcp) * 100) / 100,
      });
    }
    return results;
  } finally {
    peer.disconnect();
  }
}

if (process.argv[1] === import.meta.filename) {
  if (process.send) child(Number(process.argv[2]), Number(process.argv[3]));
  else console.table(await bench());
}
