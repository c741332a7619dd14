import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import type { Duplex } from 'node:stream';
import { createDrpcClient, implement, serveDrpc } from '@ropewalk/wire/drpc';
import { ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { acceptWebSocket, byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { WebSocket, WebSocketServer } from 'ws';
import { paired, type Row } from './measure.ts';

const MIB = 1024 * 1024;
/** Bytes sent as messages. */
const TOTAL = 64 * MIB;
/** Bytes sent plain. With fewer, the transfer ends too soon to measure. */
const BYTES = 256 * MIB;
/** Bytes that plain senders let wait in memory, like ours. */
const MAX_WAITING = 256 * 1024;
/** Between our own parts. Upstream's daemons use 256 KiB. */
const OUR_WINDOW = 512 * 1024;

type Direction = 'to server' | 'to client';

/** One transfer, done by the client's process: `drpc` and `ws` in messages of `size`, `mux` and `tcp` as bytes. */
interface Order {
  way: 'drpc' | 'ws' | 'mux' | 'tcp';
  direction: Direction;
  size: number;
}

interface Ports {
  http: number;
  tcp: number;
}

const ROWS: { what: string; ours: Order['way']; floor: Order['way']; sizes: number[]; reach: number }[] = [
  { what: 'messages to the decoder, compared with ws', ours: 'drpc', floor: 'ws', sizes: [4096, MIB], reach: 0.5 },
  { what: 'writes on one stream, compared with TCP', ours: 'mux', floor: 'tcp', sizes: [64 * 1024], reach: 0.5 },
];

/** 64 MiB through WebSocket, yamux and DRPC between two processes, compared with the same bytes by plainer means. */
export async function benchWire(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { what, ours, floor, sizes, reach } of ROWS) {
    for (const size of sizes) {
      for (const direction of ['to server', 'to client'] as const) {
        // new processes for each, so that neither way collects the garbage of the other
        const [a, b] = [await startPair(), await startPair()];
        try {
          const pair = await paired(
            15,
            () => a.transfer({ way: ours, direction, size }),
            () => b.transfer({ way: floor, direction, size }),
          );
          const total = ours === 'mux' ? BYTES : TOTAL;
          const speed = (ms: number) => `${(total / MIB / (ms / 1_000)).toFixed(0)} MiB/s`;
          rows.push({
            what: `${total / MIB} MiB in ${size < MIB ? `${size / 1024} kiB` : `${size / MIB} MiB`} ${what}, ${direction}`,
            ours: speed(pair.ours),
            floor: speed(pair.floor),
            figure: `${(1 / pair.ratio).toFixed(2)}×`,
            reach: `≥ ${reach}×`,
            met: 1 / pair.ratio >= reach,
          });
        } finally {
          a.stop();
          b.stop();
        }
      }
    }
  }
  return rows;
}

interface Pair {
  /** Milliseconds of one transfer. */
  transfer(order: Order): Promise<number>;
  stop(): void;
}

/** A server's process and a client's. */
async function startPair(): Promise<Pair> {
  const server = fork(import.meta.filename, ['server']);
  const [ports] = (await once(server, 'message')) as [Ports];
  const client = fork(import.meta.filename, ['client', JSON.stringify(ports)]);
  return {
    transfer: (order) => transferred(client, order),
    stop() {
      client.disconnect();
      server.disconnect();
    },
  };
}

function transferred(client: ChildProcess, order: Order): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const ended = () => reject(new Error("the client's process ended"));
  client.once('exit', ended);
  client.once('message', resolve);
  client.send(order);
  return promise.finally(() => client.off('exit', ended));
}

// ---- the server's process

function serve(): void {
  const http = createHttpServer();
  const plain = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: 4 * MIB });
  http.on('upgrade', (req, socket, head) => {
    const { searchParams } = new URL(req.url!, 'http://localhost');
    const way = searchParams.get('way') as Order['way'];
    const size = Number(searchParams.get('size'));
    if (way === 'ws') plain.handleUpgrade(req, socket, head, (ws) => servePlain(ws, size));
    else if (way === 'drpc') {
      const session = new YamuxSession(byteStream(acceptWebSocket(req, socket, head)), { role: 'server' });
      serveDrpc(session, [calls(size)]);
    } else {
      new YamuxSession(byteStream(acceptWebSocket(req, socket, head)), {
        role: 'server',
        maxWindow: OUR_WINDOW,
        onStream: (stream) => serveBytes(stream, size),
      });
    }
  });
  const tcp = createServer((socket) => serveBytes(socket.setNoDelay(true), 64 * 1024));
  const port = (listening: { address(): unknown }) => (listening.address() as AddressInfo).port;
  http.listen(0, '127.0.0.1', () => {
    tcp.listen(0, '127.0.0.1', () => process.send!({ http: port(http), tcp: port(tcp) } satisfies Ports));
  });
}

/** UploadFile receives everything and replies. AcquireJobWithCancel sends everything. */
function calls(size: number) {
  const block = new Uint8Array(size).fill(7);
  return implement(ProvisionerDaemon, {
    async uploadFile(requests) {
      let got = 0;
      for await (const { type } of requests) {
        if (type.case === 'chunkPiece') got += type.value.data.length;
        if (got >= TOTAL) break;
      }
      return {};
    },
    async *acquireJobWithCancel() {
      for (let sent = 0; sent < TOTAL; sent += size) yield { templateSourceArchive: block };
    },
  });
}

/** The first message gives the direction: if it is empty, the client sends, otherwise the server does. */
function servePlain(ws: WebSocket, size: number): void {
  let got = 0;
  ws.on('message', (message: Buffer, binary) => {
    if (!binary) void sendPlain(ws, size);
    else {
      got += message.length;
      if (got >= TOTAL) ws.send('done');
    }
  });
}

async function sendPlain(ws: WebSocket, size: number): Promise<void> {
  const block = Buffer.alloc(size, 7);
  for (let sent = 0; sent < TOTAL; sent += size) {
    if (ws.bufferedAmount < MAX_WAITING) ws.send(block);
    else await new Promise((done) => ws.send(block, done));
  }
}

/** The first byte selects the direction: 1 receives everything and replies, 2 sends everything. */
function serveBytes(stream: Duplex, size: number): void {
  stream.on('error', () => {});
  stream.once('data', (first: Buffer) => {
    if (first[0] === 2) sendBytes(stream, size);
    else void countBytes(stream, BYTES - (first.length - 1)).then(() => stream.end('done'));
  });
}

function sendBytes(stream: Duplex, size: number): void {
  const block = Buffer.alloc(size, 7);
  let sent = 0;
  const more = () => {
    while (sent < BYTES) {
      sent += size;
      if (!stream.write(block)) {
        stream.once('drain', more);
        return;
      }
    }
  };
  more();
}

async function countBytes(stream: Duplex, wanted: number): Promise<void> {
  let got = 0;
  await new Promise<void>((resolve, reject) => {
    stream.on('data', (chunk: Buffer) => {
      got += chunk.length;
      if (got >= wanted) resolve();
    });
    stream.once('close', () => reject(new Error(`the stream ended after ${got} bytes`)));
  });
}

// ---- the client's process

/** Milliseconds of one transfer on a separate connection, opened before the measurement. */
async function transfer(ports: Ports, { way, direction, size }: Order): Promise<number> {
  const address = `ws://127.0.0.1:${ports.http}/?way=${way}&size=${size}`;
  const up = direction === 'to server';
  if (way === 'ws') {
    const ws = new WebSocket(address, { perMessageDeflate: false, maxPayload: 4 * MIB });
    await once(ws, 'open');
    const started = performance.now();
    let got = 0;
    const done = new Promise<void>((resolve) => {
      ws.on('message', (message: Buffer, binary) => {
        got += message.length;
        if (!binary || got >= TOTAL) resolve();
      });
    });
    if (up) await sendPlain(ws, size);
    else ws.send('send');
    await done;
    const ms = performance.now() - started;
    ws.terminate();
    return ms;
  }
  if (way === 'tcp') {
    const socket = connect({ port: ports.tcp, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    const ms = await bytes(socket, up, size);
    socket.destroy();
    return ms;
  }
  const { connection } = await dialWebSocket(address);
  const session = new YamuxSession(byteStream(connection), {
    role: 'client',
    ...(way === 'mux' ? { maxWindow: OUR_WINDOW } : {}),
  });
  await session.ping();
  const ms = way === 'mux' ? await bytes(session.openStream(), up, size) : await messages(session, up, size);
  await session.close();
  return ms;
}

async function bytes(stream: Duplex, up: boolean, size: number): Promise<number> {
  const started = performance.now();
  stream.write(Buffer.from([up ? 1 : 2]));
  if (up) sendBytes(stream, size);
  await countBytes(stream, up ? 4 : BYTES);
  return performance.now() - started;
}

async function messages(session: YamuxSession, up: boolean, size: number): Promise<number> {
  const daemon = createDrpcClient(ProvisionerDaemon, () => session.openStream());
  const started = performance.now();
  if (up) {
    const data = new Uint8Array(size).fill(7);
    const call = daemon.uploadFile();
    for (let sent = 0; sent < TOTAL; sent += size) {
      await call.send({ type: { case: 'chunkPiece', value: { data } } });
    }
    await call.closeSend();
    if (!(await call.receive())) throw new Error('no answer to the upload');
  } else {
    let got = 0;
    for await (const job of daemon.acquireJobWithCancel().responses) got += job.templateSourceArchive.length;
    if (got < TOTAL) throw new Error(`only ${got} bytes came`);
  }
  return performance.now() - started;
}

if (process.argv[1] === import.meta.filename && process.send) {
  process.on('disconnect', () => process.exit(0));
  if (process.argv[2] === 'server') serve();
  else {
    const ports = JSON.parse(process.argv[3]!) as Ports;
    process.on('message', async (order: Order) => process.send!(await transfer(ports, order)));
  }
}
