import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { create } from '@bufbuild/protobuf';
import {
  Box,
  Coordinator,
  DerpFrameReader,
  DerpRelay,
  decodeServerKey,
  encodeClientInfo,
  encodeNodeKey,
  encodeSend,
  FRAME,
  formatDiscoKey,
  KeyPair,
} from '@ropewalk/tailnet';
import { CoordinateRequestSchema } from '@ropewalk/wire/proto/tailnet';
import { paired, type Row } from './measure.ts';
import { benchTailnetPaths } from './tailnet-paths.ts';
import { benchTailnetStack } from './tailnet-stack.ts';

/** Length of a packet without the frame around it: as long as the tunnel's largest ones. */
const PACKET_BYTES = 1_280;

/** Packets in flight, and how many packets the client sends in one measurement. */
const PATTERNS = [
  { inFlight: 64, packets: 256_000 },
  { inFlight: 2, packets: 40_000 },
  { inFlight: 1, packets: 20_000 },
];

type Way = 'relay' | 'floor';

export async function benchTailnet(): Promise<Row[]> {
  return [...(await benchRelay()), ...(await benchTailnetStack()), ...(await benchTailnetPaths())];
}

/** Packets per second of processor time in the relay's process, compared with a process that only copies the same bytes. */
async function benchRelay(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { inFlight, packets } of PATTERNS) {
    const [ours, floor] = [await startSide('relay'), await startSide('floor')];
    try {
      const pair = await paired(
        7,
        () => ours.measure(inFlight, packets),
        () => floor.measure(inFlight, packets),
      );
      const rate = (microseconds: number) => Math.round(packets / (microseconds / 1e6) / 1_000) * 1_000;
      const isBatched = inFlight === 64;
      const ratio = 1 / pair.ratio;
      rows.push({
        what: `relay alone, packets of 1,280 bytes, ${inFlight} in flight, per second of processor time`,
        ours: rate(pair.ours).toLocaleString('en'),
        floor: rate(pair.floor).toLocaleString('en'),
        figure: isBatched ? rate(pair.ours).toLocaleString('en') : `${ratio.toFixed(2)}×`,
        reach: isBatched ? '≥ 150,000' : '≥ 0.7×',
        met: isBatched ? rate(pair.ours) >= 150_000 : ratio >= 0.7,
      });
    } finally {
      ours.stop();
      floor.stop();
    }
  }
  return rows;
}

interface Side {
  /** Microseconds of processor time that the relay's process uses for these packets. */
  measure(inFlight: number, packets: number): Promise<number>;
  stop(): void;
}

/** A relay's process, or the floor's, and a client's. */
async function startSide(way: Way): Promise<Side> {
  const relay = fork(import.meta.filename, [way]);
  const [port] = (await once(relay, 'message')) as [number];
  const client = fork(import.meta.filename, ['client', way, `${port}`]);
  await once(client, 'message');
  return {
    async measure(inFlight, packets) {
      const before = await ask<NodeJS.CpuUsage>(relay, 'usage');
      await ask(client, { inFlight, packets });
      const after = await ask<NodeJS.CpuUsage>(relay, 'usage');
      return after.user + after.system - before.user - before.system;
    },
    stop() {
      client.disconnect();
      relay.disconnect();
    },
  };
}

function ask<T>(child: ChildProcess, message: NodeJS.Dict<unknown> | string): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const ended = () => reject(new Error('a process of the measurement ended'));
  child.once('exit', ended);
  child.once('message', (answer) => resolve(answer as T));
  child.send(message);
  return promise.finally(() => child.off('exit', ended));
}

// ---- the relay's process

function serveRelay(accept: (socket: Socket) => void): void {
  process.on('message', () => process.send!(process.cpuUsage()));
  const server = createServer({ noDelay: true }, accept);
  server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
}

/** The relay with the coordinator as its policy, as in a server. */
async function relay(): Promise<void> {
  const coordinator = new Coordinator();
  for (const [id, other] of [
    [source, destination],
    [destination, source],
  ] as const) {
    const peer = coordinator.connect({ id: id.publicKey.subarray(0, 16), owner: 'bench', rule: () => undefined });
    await peer.request(
      create(CoordinateRequestSchema, {
        updateSelf: { node: { key: encodeNodeKey(id.publicKey), disco: formatDiscoKey(id.publicKey) } },
        addTunnel: { id: other.publicKey.subarray(0, 16) },
      }),
    );
  }
  // without the limits of bytes per second: they would add pauses
  const derp = new DerpRelay({ policy: coordinator, maxBytesPerSecond: 2 ** 40, maxBytesPerSecondPerKey: 2 ** 40 });
  serveRelay((socket) => void derp.accept(socket));
}

/** Copies the bytes of each of two connections to the other one. */
function floor(): void {
  let waiting: Socket | undefined;
  const copy = (from: Socket, to: Socket) => from.on('data', (chunk: Buffer) => void to.write(chunk));
  serveRelay((socket) => {
    socket.on('error', () => {});
    if (!waiting) waiting = socket;
    else {
      copy(socket, waiting);
      copy(waiting, socket);
    }
  });
}

// ---- the client's process

/** The same keys in every process, so that the relay's coordinator knows them. */
const source = KeyPair.fromPrivateKey(Buffer.alloc(32, 7));
const destination = KeyPair.fromPrivateKey(Buffer.alloc(32, 9));

async function dial(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
}

function signIn(socket: Socket, keys: KeyPair): Promise<void> {
  return new Promise((resolve) => {
    const reader = new DerpFrameReader((type, frame) => {
      if (type === FRAME.serverKey) {
        const box = Box.between(keys, decodeServerKey(frame))!;
        socket.write(encodeClientInfo(keys.publicKey, box, { canAckPings: true, isProber: false }));
      } else if (type === FRAME.serverInfo) {
        socket.off('data', read);
        resolve();
      }
    });
    const read = (chunk: Buffer) => reader.push(chunk);
    socket.on('data', read);
  });
}

/** Sends all packets from one connection to the other, with so many in flight. */
async function client(way: Way, port: number): Promise<void> {
  const [from, to] = [await dial(port), await dial(port)];
  if (way === 'relay') await Promise.all([signIn(from, source), signIn(to, destination)]);
  const frame = encodeSend(destination.publicKey, Buffer.alloc(PACKET_BYTES, 7));
  process.on('message', async ({ inFlight, packets }: { inFlight: number; packets: number }) => {
    const batch = Buffer.concat(Array.from({ length: inFlight }, () => frame));
    let missing = batch.length;
    let rounds = packets / inFlight;
    const { promise, resolve } = Promise.withResolvers<void>();
    const received = (chunk: Buffer) => {
      missing -= chunk.length;
      if (missing > 0) return;
      if (--rounds === 0) resolve();
      else {
        missing = batch.length;
        from.write(batch);
      }
    };
    to.on('data', received);
    from.write(batch);
    await promise;
    to.off('data', received);
    process.send!('done');
  });
  process.send!('ready');
}

if (process.argv[1] === import.meta.filename && process.send) {
  process.on('disconnect', () => process.exit(0));
  const [, , role, way, port] = process.argv;
  if (role === 'relay') await relay();
  else if (role === 'floor') floor();
  else await client(way as Way, Number(port));
}
