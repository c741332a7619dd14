// Both ends of the tailnet's TCP/IP stack in one process, without encryption and network: a link that passes the packets
// of one turn of the event loop in the next turn.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { duplexPair } from 'node:stream';
import { MTU, parseAddress, Stack, type TcpStream } from '@ropewalk/tailnet';
import { paired, type Row } from './measure.ts';

const BYTES = 400 * 1024 * 1024;
const CHUNK = Buffer.alloc(64 * 1024, 7);
/** What a full packet carries. */
const PAYLOAD_BYTES = 1_208;

interface Measured {
  /** Processor time and time, in µs, and packets in both directions. */
  cpu: number;
  elapsed: number;
  packets: number;
}

/** Packets and bytes per second of processor time, compared with Node's streams alone, in pieces of a packet's size. */
export async function benchTailnetStack(): Promise<Row[]> {
  const stack = await startSide('stack');
  const floor = await startSide('streams');
  try {
    let packets = 0;
    let elapsed = 0;
    const pair = await paired(
      5,
      async () => {
        const measured = await stack.measure();
        packets = measured.packets;
        elapsed = measured.elapsed;
        return measured.cpu;
      },
      async () => (await floor.measure()).cpu,
    );
    const perSecond = (count: number, microseconds: number) => count / (microseconds / 1e6);
    const segments = Math.ceil(BYTES / PAYLOAD_BYTES);
    const rate = perSecond(segments, pair.ours);
    const thousands = (value: number) => `${(Math.round(value / 1_000) * 1_000).toLocaleString('en')}`;
    return [
      {
        what: `network stack alone, both ends: full packets per second of processor time (${(packets / segments).toFixed(2)} packets each with acknowledgments, ${(BYTES / elapsed).toFixed(0)} MB/s)`,
        ours: thousands(rate),
        floor: thousands(perSecond(segments, pair.floor)),
        figure: thousands(rate),
        reach: '≥ 100,000',
        met: rate >= 100_000,
      },
      {
        what: 'network stack alone, both ends: MB per second of processor time',
        ours: `${perSecond(BYTES / 1e6, pair.ours).toFixed(0)}`,
        floor: `${perSecond(BYTES / 1e6, pair.floor).toFixed(0)}`,
        figure: `${perSecond(BYTES / 1e6, pair.ours).toFixed(0)}`,
        reach: '≥ 120',
        met: perSecond(BYTES / 1e6, pair.ours) >= 120,
      },
    ];
  } finally {
    stack.stop();
    floor.stop();
  }
}

async function startSide(way: string) {
  const child = fork(import.meta.filename, [way]);
  await once(child, 'message');
  return {
    async measure(): Promise<Measured> {
      const answer = once(child, 'message');
      child.send('measure');
      return ((await answer) as [Measured])[0];
    },
    stop() {
      child.disconnect();
    },
  };
}

/** Passes packets to another stack in the next turn. */
function link(to: () => Stack): { pass: (packet: Buffer) => void; count: () => number } {
  let waiting: Buffer[] = [];
  let count = 0;
  const deliver = () => {
    const packets = waiting;
    waiting = [];
    for (const packet of packets) to().receive(packet);
  };
  return {
    pass: (packet) => {
      if (packet.length > MTU) throw new Error('longer than the MTU');
      count++;
      if (waiting.push(packet) === 1) setImmediate(deliver);
    },
    count: () => count,
  };
}

async function stackPair(): Promise<{ near: TcpStream; far: TcpStream; packets: () => number }> {
  const addresses = [parseAddress('fd7a::a')!, parseAddress('fd7a::b')!] as const;
  const there = link(() => b);
  const back = link(() => a);
  const a: Stack = new Stack({ addresses: [addresses[0]], onPacket: there.pass });
  const b: Stack = new Stack({ addresses: [addresses[1]], onPacket: back.pass });
  const accepted = Promise.withResolvers<TcpStream>();
  b.listen(1, accepted.resolve);
  const near = await a.connect({ to: addresses[1], port: 1 });
  return { near, far: await accepted.promise, packets: () => there.count() + back.count() };
}

async function send(
  write: (chunk: Buffer) => boolean,
  drained: () => Promise<unknown>,
  onData: (take: (chunk: Buffer) => void) => () => void,
  chunk: Buffer,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let missing = Math.ceil(BYTES / chunk.length) * chunk.length;
  const off = onData((received) => {
    missing -= received.length;
    if (missing === 0) resolve();
  });
  for (let sent = 0; sent < BYTES; sent += chunk.length) if (!write(chunk)) await drained();
  await promise;
  off();
}

async function serve(way: string): Promise<void> {
  const { near, far, packets } =
    way === 'stack' ? await stackPair() : { near: duplexPair()[0], far: duplexPair()[0], packets: () => 0 };
  process.on('message', async () => {
    const [from, to] = way === 'stack' ? [near, far] : duplexPair();
    const chunk = way === 'stack' ? CHUNK : CHUNK.subarray(0, PAYLOAD_BYTES);
    const before = { cpu: process.cpuUsage(), at: performance.now(), packets: packets() };
    await send(
      (bytes) => from.write(bytes),
      () => once(from, 'drain'),
      (take) => {
        to.on('data', take);
        return () => to.off('data', take);
      },
      chunk,
    );
    const cpu = process.cpuUsage(before.cpu);
    process.send!({
      cpu: cpu.user + cpu.system,
      elapsed: (performance.now() - before.at) * 1_000,
      packets: packets() - before.packets,
    } satisfies Measured);
  });
  process.send!('ready');
}

if (process.argv[1] === import.meta.filename && process.send) {
  process.on('disconnect', () => process.exit(0));
  await serve(process.argv[2]!);
}
