// Nodes of the tailnet, each in its process, with encryption, directly or over a relay: bulk, the first answers, and
// many idle nodes at one relay.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  Box,
  DerpFrameReader,
  DerpRelay,
  decodeServerKey,
  encodeClientInfo,
  FRAME,
  KeyPair,
  nodeWithStack,
  parseAddress,
  readRelayMap,
  type TailnetNode,
} from '@ropewalk/tailnet';
import { DERPMapSchema, NodeSchema } from '@ropewalk/wire/proto/tailnet';
import { startSlowLink } from '../e2e/slow-link.ts';
import { median, paired, pssMegabytes, type Row } from './measure.ts';

const PORT = 7;
const CHUNK = Buffer.alloc(64 * 1024, 7);
const BULK_BYTES = 200e6;
const SLOW_BYTES = 60e6;
/** From a node to the relay, and from the relay to a node: a round trip between nodes takes four times as long. */
const SLOW_MS = 25;
/** One packet of so many is lost. */
const LOSS = 200;
const IDLE_NODES = 5_000;
const ADDRESSES = ['fd7a:115c:a1e0::a', 'fd7a:115c:a1e0::b'] as const;

interface Cpu {
  cpu: number;
}

export async function benchTailnetPaths(): Promise<Row[]> {
  return [...(await benchDirect()), await benchSlow(), ...(await benchFirstAnswers()), await benchIdle()];
}

async function benchDirect(): Promise<Row[]> {
  const pair = await startPair({});
  try {
    await pair.becomeDirect();
    const seconds: number[] = [];
    const used: number[] = [];
    const { ours, floor, ratio } = await paired(
      6,
      async () => {
        const { elapsed, cpu } = await pair.carry('tailnet', BULK_BYTES);
        seconds.push(elapsed);
        used.push(cpu);
        return elapsed;
      },
      async () => (await pair.carry('tcp', BULK_BYTES)).elapsed,
    );
    const rate = (elapsed: number) => BULK_BYTES / 1e6 / elapsed;
    const cpu = (median(used) * 100e6) / BULK_BYTES;
    return [
      {
        what: `direct path of two nodes on one machine, ${BULK_BYTES / 1e6} MB in both directions in turn, compared with TCP (${(1 / ratio).toFixed(2)}×)`,
        ours: `${rate(ours).toFixed(0)} MB/s`,
        floor: `${rate(floor).toFixed(0)} MB/s`,
        figure: `${rate(ours).toFixed(0)} MB/s`,
        reach: '≥ 60 MB/s',
        met: rate(ours) >= 60,
      },
      {
        what: '… processor time of both ends for 100 MB',
        ours: `${cpu.toFixed(2)} s`,
        floor: '–',
        figure: `${cpu.toFixed(2)} s`,
        reach: '≤ 2 s',
        met: cpu <= 2,
      },
    ];
  } finally {
    pair.stop();
  }
}

async function benchSlow(): Promise<Row> {
  const pair = await startPair({ delayMs: SLOW_MS, loss: LOSS, blockDirect: true });
  try {
    const seconds: number[] = [];
    for (let i = 0; i < 3; i++) seconds.push((await pair.carry('tailnet', SLOW_BYTES)).elapsed);
    const rate = SLOW_BYTES / 1e6 / median(seconds);
    return {
      what: `over a relay with ${4 * SLOW_MS} ms between the nodes, of which one packet in ${LOSS} is lost`,
      ours: `${rate.toFixed(1)} MB/s`,
      floor: '–',
      figure: `${rate.toFixed(1)} MB/s`,
      reach: '≥ 5 MB/s',
      met: rate >= 5,
    };
  } finally {
    pair.stop();
  }
}

async function benchFirstAnswers(): Promise<Row[]> {
  const relayed: number[] = [];
  const direct: number[] = [];
  for (let i = 0; i < 7; i++) {
    const pair = await startPair({});
    relayed.push(pair.firstAnswerMs);
    direct.push(await pair.becomeDirect());
    pair.stop();
  }
  const row = (what: string, values: number[], reach: number): Row => ({
    what,
    ours: `${median(values).toFixed(0)} ms`,
    floor: '–',
    figure: `${median(values).toFixed(0)} ms`,
    reach: `≤ ${reach.toLocaleString('en')} ms`,
    met: median(values) <= reach,
  });
  return [
    row('two new nodes: until the first ping is answered, over the relay', relayed, 150),
    row('… until packets take the direct path', direct, 1_000),
  ];
}

async function benchIdle(): Promise<Row> {
  const relay = fork(import.meta.filename, ['relay', '0', '0']);
  const [{ port }] = (await once(relay, 'message')) as [{ port: number }];
  const before = pssMegabytes(relay.pid!);
  const crowd = fork(import.meta.filename, ['crowd', `${port}`]);
  try {
    await once(crowd, 'message');
    const grown = pssMegabytes(relay.pid!) - before;
    return {
      what: `relay with ${IDLE_NODES.toLocaleString('en')} idle nodes: growth of its process (PSS)`,
      ours: `${grown.toFixed(0)} MB`,
      floor: '–',
      figure: `${grown.toFixed(0)} MB`,
      reach: '≤ 100 MB',
      met: grown <= 100,
    };
  } finally {
    crowd.kill();
    relay.kill();
  }
}

interface PairOptions {
  /** How long bytes take between a node and the relay. */
  delayMs?: number;
  /** One packet of so many is lost at the relay. 0: none. */
  loss?: number;
  blockDirect?: boolean;
}

async function startPair({ delayMs = 0, loss = 0, blockDirect = false }: PairOptions) {
  const relay = fork(import.meta.filename, ['relay', `${delayMs}`, `${loss}`]);
  const [{ url }] = (await once(relay, 'message')) as [{ url: string }];
  const nodes = ADDRESSES.map((own) => fork(import.meta.filename, ['node', url, own, `${blockDirect}`])) as [
    ChildProcess,
    ChildProcess,
  ];
  const stop = () => {
    for (const child of [relay, ...nodes]) child.kill();
  };
  try {
    const selves = await Promise.all(nodes.map((node) => ask<string>(node, 'self')));
    const started = performance.now();
    await Promise.all(nodes.map((node, i) => ask(node, { peer: selves[1 - i] })));
    await ask(nodes[0], { ping: ADDRESSES[1] });
    const firstAnswerMs = performance.now() - started;
    let turn = 0;
    return {
      firstAnswerMs,
      stop,
      /** Returns the ms since the nodes know each other. */
      async becomeDirect(): Promise<number> {
        await Promise.all(nodes.map((node, i) => ask(node, { direct: ADDRESSES[1 - i] })));
        return performance.now() - started;
      },
      /** Carries bytes from one node to the other, the next time the other way. Seconds of time, and of both processors. */
      async carry(way: 'tailnet' | 'tcp', bytes: number): Promise<{ elapsed: number; cpu: number }> {
        const [from, to] = turn++ % 4 < 2 ? [0, 1] : [1, 0];
        const usage = () => Promise.all(nodes.map(async (node) => (await ask<Cpu>(node, 'usage')).cpu));
        const port = await ask<number>(nodes[to]!, { expect: bytes, way });
        const before = await usage();
        const begun = performance.now();
        const arrived = ask(nodes[to]!, 'arrived');
        await ask(nodes[from]!, { carry: bytes, way, port, to: ADDRESSES[to] });
        await arrived;
        const elapsed = (performance.now() - begun) / 1_000;
        const after = await usage();
        return { elapsed, cpu: after[0]! + after[1]! - before[0]! - before[1]! };
      },
    };
  } catch (err) {
    stop();
    throw err;
  }
}

let serial = 0;

/** Asks a process a question, and returns its answer. */
async function ask<T>(child: ChildProcess, question: NodeJS.Dict<unknown> | string): Promise<T> {
  const id = ++serial;
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const ended = () => reject(new Error('A process of the measurement has ended.'));
  const answered = (message: { id: number; answer: T; error?: string }) => {
    if (message.id !== id) return;
    if (message.error === undefined) resolve(message.answer);
    else reject(new Error(message.error));
  };
  child.once('exit', ended);
  child.on('message', answered);
  child.send({ id, question });
  return promise.finally(() => {
    child.off('exit', ended);
    child.off('message', answered);
  });
}

// ---- the relay's process

async function runRelay(delayMs: number, loss: number): Promise<void> {
  let packets = 0;
  const permits = () => loss === 0 || ++packets % loss !== 0;
  const relay = new DerpRelay({ policy: { introduced: () => true, permits } });
  const server = createHttpServer((_req, res) => res.end());
  server.on('upgrade', (_req, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: DERP\r\nConnection: Upgrade\r\n\r\n');
    void relay.accept(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  process.send!({ port, url: delayMs > 0 ? (await startSlowLink('127.0.0.1', url, delayMs)).url : url });
}

// ---- a node's process

function runNode(url: string, own: string, blockDirect: boolean): void {
  const { node, stack } = nodeWithStack({ addresses: [parseAddress(own)!], blockDirect });
  const { hostname, port } = new URL(url);
  const relays = [{ name: '1a', hostName: hostname, derpPort: Number(port), forceHttp: true, stunPort: -1 }];
  node.setRelayMap(
    readRelayMap(create(DERPMapSchema, { regions: { 1: { regionId: 1n, regionName: 'One', nodes: relays } } }), url),
  );
  let expected = 0;
  let arrived = Promise.withResolvers<void>();
  const take = (stream: NodeJS.ReadableStream) => {
    stream.on('data', (chunk: Buffer) => {
      expected -= chunk.length;
      if (expected <= 0) arrived.resolve();
    });
    stream.on('error', () => {});
  };
  stack.listen(PORT, take);
  const tcp = createServer(take);
  tcp.listen(0, '127.0.0.1');
  const isDirect = () => node.status().peers[0]?.path?.kind === 'direct';
  const answers: Record<string, (question: Record<string, unknown>) => unknown> = {
    self: () => selfOf(node),
    usage: () => ({ cpu: (process.cpuUsage().user + process.cpuUsage().system) / 1e6 }),
    arrived: () => arrived.promise,
    peer: ({ peer }) =>
      node.setPeer(Buffer.from('peer'), fromBinary(NodeSchema, Buffer.from(peer as string, 'base64'))),
    ping: ({ ping }) => stack.ping(parseAddress(ping as string)!),
    async direct({ direct }) {
      while (!isDirect()) await stack.ping(parseAddress(direct as string)!);
    },
    expect({ expect, way }) {
      expected = expect as number;
      arrived = Promise.withResolvers();
      return way === 'tcp' ? (tcp.address() as AddressInfo).port : PORT;
    },
    async carry({ carry, way, port: at, to }) {
      const stream =
        way === 'tcp'
          ? connect({ port: at as number, host: '127.0.0.1' })
          : await stack.connect({ to: parseAddress(to as string)!, port: PORT });
      for (let sent = 0; sent < (carry as number); sent += CHUNK.length)
        if (!stream.write(CHUNK)) await once(stream, 'drain');
      stream.end();
    },
  };
  process.on('message', ({ id, question }: { id: number; question: string | Record<string, unknown> }) => {
    const about = typeof question === 'string' ? { [question]: true } : question;
    const [name] = Object.keys(about);
    const answer = async () => answers[name!]!(about);
    answer().then(
      (value) => process.send!({ id, answer: value }),
      (err: Error) => process.send!({ id, error: err.message }),
    );
  });
}

/** The node once it has a home. */
async function selfOf(node: TailnetNode): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  node.onChange((self) => {
    if (self.preferredDerp !== 0) resolve(Buffer.from(toBinary(NodeSchema, self)).toString('base64'));
  });
  return promise;
}

// ---- many idle nodes

async function runCrowd(port: number): Promise<void> {
  const signIn = async () => {
    const socket = connect({ port, host: '127.0.0.1' });
    await once(socket, 'connect');
    socket.write('GET /derp HTTP/1.1\r\nHost: relay\r\nUpgrade: DERP\r\nConnection: Upgrade\r\n\r\n');
    await signedIn(socket, KeyPair.generate());
  };
  for (let done = 0; done < IDLE_NODES; done += 100) await Promise.all(Array.from({ length: 100 }, signIn));
  process.send!('ready');
}

function signedIn(socket: Socket, keys: KeyPair): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.once('close', () => reject(new Error('The relay closed a connection.')));
  let isUpgraded = false;
  const reader = new DerpFrameReader((type, frame) => {
    if (type === FRAME.serverKey) {
      const box = Box.between(keys, decodeServerKey(frame))!;
      socket.write(encodeClientInfo(keys.publicKey, box, { canAckPings: true, isProber: false }));
    } else if (type === FRAME.serverInfo) resolve();
  });
  socket.on('data', (chunk: Buffer) => {
    const start = isUpgraded ? 0 : chunk.indexOf('\r\n\r\n') + 4;
    isUpgraded = true;
    if (start < chunk.length) reader.push(chunk.subarray(start));
  });
  return promise;
}

const [role, ...args] = process.argv.slice(2);
if (process.send && process.argv[1] === import.meta.filename) {
  process.on('disconnect', () => process.exit());
  if (role === 'relay') await runRelay(Number(args[0]), Number(args[1]));
  else if (role === 'node') runNode(args[0]!, args[1]!, args[2] === 'true');
  else if (role === 'crowd') await runCrowd(Number(args[0]));
}
