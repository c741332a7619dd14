// Segments that are longer than those of every path, on paths that carry them. Seeds are fixed.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { IPV6_HEADER_BYTES } from '../../ipv6.ts';
import { type LinkOptions, SimulatedNetwork } from '../../testing/simulated-network.ts';
import { pair, received } from '../../testing/streams.ts';
import { MAX_PACKET_BYTES, MTU } from '../../wireguard/session.ts';
import type { StackOptions } from '../stack.ts';
import { RoundTrip } from './round-trip.ts';
import { FLAG, MSS } from './segment.ts';
import { Sender, type Sent } from './sender.ts';

const MIB = 1024 * 1024;
const FLAGS = IPV6_HEADER_BYTES + 13;
const CHECKSUM = IPV6_HEADER_BYTES + 16;
/** The first option of a SYN. */
const MSS_OPTION = IPV6_HEADER_BYTES + 22;
const random = seededRandom(78);
const noise = Buffer.from(Uint8Array.from({ length: 2 * MIB }, () => random(256)));

/** A link whose path may change, and the lengths of the packets on it. */
function setup(t: TestContext, seed: number, link: LinkOptions = {}, options: Partial<StackOptions> = {}) {
  const path = { bytes: MTU, lost: 0, asked: 0, lengths: new Map<number, number>() };
  const passes = (packet: Buffer) => {
    path.lengths.set(packet.length, (path.lengths.get(packet.length) ?? 0) + 1);
    return link.passes?.(packet) ?? true;
  };
  const both = { ...link, passes };
  const net = new SimulatedNetwork(seed, both, both, {
    packetBytes: () => {
      path.asked++;
      return path.bytes;
    },
    onLongPacketsLost: () => {
      path.lost++;
      path.bytes = MTU;
    },
    ...options,
  });
  t.after(() => net.close());
  return { net, path };
}

test('fills the packets that the path carries', async (t) => {
  const { net, path } = setup(t, 1, { delayMs: 5 });
  path.bytes = MAX_PACKET_BYTES;
  const { near, far } = await pair(net);
  const result = received(far);
  near.end(noise);
  assert.ok((await net.until(result)).equals(noise));
  const full = path.lengths.get(MAX_PACKET_BYTES) ?? 0;
  assert.ok(full > 200, `${full} of ${MAX_PACKET_BYTES} bytes`);
  assert.ok((path.lengths.get(MTU) ?? 0) < 5);
});

test('a few bytes do not ask for the length of packets', async (t) => {
  const { net, path } = setup(t, 2, { delayMs: 5 });
  const { near, far } = await pair(net);
  const result = received(far);
  for (let i = 0; i < 20; i++) {
    near.write('key');
    await net.advance(50);
  }
  near.end();
  await net.until(result);
  assert.equal(path.asked, 0);
});

test('a path that becomes narrow gets what was sent again in short segments', async (t) => {
  const { net, path } = setup(t, 3, { delayMs: 20, rate: 20_000 });
  path.bytes = MAX_PACKET_BYTES;
  const { near, far } = await pair(net);
  const result = received(far);
  near.end(noise);
  await net.advance(70);
  assert.ok((path.lengths.get(MAX_PACKET_BYTES) ?? 0) > 10);
  // what was on its way is lost, as when a direct path ends
  path.bytes = MTU;
  for (const link of Object.values(net.links)) link.passes = (packet) => packet.length <= MTU;
  const from = net.now;
  assert.ok((await net.until(result)).equals(noise));
  assert.ok(net.now - from < 2_000, `${net.now - from} ms`);
  assert.equal(path.lost, 0);
});

test('a path that silently drops long packets is noticed after two timeouts', async (t) => {
  const { net, path } = setup(t, 4, { delayMs: 10, passes: (packet) => packet.length <= 1_500 });
  path.bytes = MAX_PACKET_BYTES;
  const { near, far } = await pair(net);
  const result = received(far);
  near.end(noise.subarray(0, MIB));
  assert.ok((await net.until(result)).equals(noise.subarray(0, MIB)));
  assert.equal(path.lost, 1);
  assert.ok(net.now < 4_000, `${net.now} ms`);
});

for (const offered of [MSS, 1_400])
  test(`a peer that takes segments of ${offered} bytes gets no longer ones`, async (t) => {
    const { net, path } = setup(t, 5, { delayMs: 5 });
    path.bytes = MAX_PACKET_BYTES;
    const counted = net.links.b.passes!;
    net.links.b.passes = (packet) => {
      if ((packet[FLAGS]! & FLAG.syn) !== 0) {
        const sum = packet.readUInt16BE(CHECKSUM) + packet.readUInt16BE(MSS_OPTION) - offered;
        packet.writeUInt16BE(offered, MSS_OPTION);
        packet.writeUInt16BE((sum + (sum >> 16)) & 0xffff, CHECKSUM);
      }
      return counted(packet);
    };
    const { near, far } = await pair(net);
    const result = received(far);
    near.end(noise.subarray(0, MIB));
    await net.until(result);
    assert.equal(Math.max(...path.lengths.keys()), offered + 60);
    assert.equal(path.asked > 0, offered > MSS);
  });

/** A sender with six long segments in flight. The last one has the FIN, if it is to end. */
function sixLong({ ends = true } = {}) {
  const sender = new Sender({ mss: 1_000, roundTrip: new RoundTrip(), window: 1e6, hasSack: true });
  sender.setMss(5_000);
  sender.push(noise.subarray(0, 30_000));
  if (ends) sender.end();
  const take = (now: number) => {
    const taken: { start: number; end: number; isFin: boolean }[] = [];
    for (let sent = sender.take(now); sent; sent = sender.take(now)) taken.push({ ...sent });
    return taken.map(({ start, end, isFin }) => `${start}-${end}${isFin ? ' FIN' : ''}`);
  };
  const long = take(0);
  assert.deepEqual([long.length, long[0], long.at(-1)], [6, '0-5000', ends ? '25000-30001 FIN' : '25000-30000']);
  return { sender, take };
}

test('what was lost before a path became narrow is sent again in short segments, in order', () => {
  const { sender, take } = sixLong();
  sender.acknowledge(0, [5_000, 20_000], 10, undefined);
  sender.setMss(1_000);
  assert.deepEqual(take(10), ['0-1000', '1000-2000', '2000-3000', '3000-4000', '4000-5000']);
  assert.deepEqual(sender.acknowledge(30_001, [], 20, undefined), { isAdvance: true, isFinAcked: true });
  assert.equal(sender.inflight, 0);
});

test('counts selective acknowledgments of the parts, so that later losses are noticed as soon as usual', () => {
  const { sender, take } = sixLong({ ends: false });
  sender.acknowledge(0, [5_000, 20_000], 10, undefined);
  sender.setMss(1_000);
  assert.equal(take(12).length, 5);
  sender.acknowledge(30_000, [], 22, undefined);
  sender.push(noise.subarray(0, 6_000));
  assert.equal(take(100).length, 6);
  sender.acknowledge(30_000, [31_000, 34_000], 110, undefined);
  assert.deepEqual(take(110), ['30000-31000'], 'three acknowledgments after it');
});

test('the last part of a split segment has the FIN', () => {
  const { sender, take } = sixLong();
  sender.acknowledge(25_000, [], 10, undefined);
  sender.setMss(2_000);
  const probe = sender.tick(sender.dueAt, 0);
  assert.equal((probe as Sent).start, 29_000, 'the probe is the last part');
  assert.equal(sender.tick(sender.dueAt, 0), undefined, 'the timeout');
  assert.deepEqual(take(2_000), ['25000-27000']);
  sender.acknowledge(27_000, [], 2_010, undefined);
  assert.deepEqual(take(2_100), ['27000-29000', '29000-30001 FIN']);
});

for (const seed of [11, 12, 13, 14, 15, 16])
  test(`each byte arrives once while the path changes and loses packets, seed ${seed}`, async (t) => {
    const link = { delayMs: 10, rate: 10_000, queue: 100, loss: 0.02, duplicates: 0.01, reordered: 0.02, reorderMs: 4 };
    const { net, path } = setup(t, seed, link);
    const { near, far } = await pair(net);
    const results = Promise.all([received(far), received(near)]);
    near.end(noise.subarray(0, MIB));
    far.end(noise.subarray(MIB));
    const below = seededRandom(seed);
    let isDone = false;
    const change = () => {
      if (isDone) return;
      path.bytes = [MTU, 1_440, MAX_PACKET_BYTES][below(3)]!;
      const longest = path.bytes;
      for (const one of Object.values(net.links)) one.passes = (packet) => packet.length <= longest;
      net.at(net.now + 10 + below(60), change);
    };
    change();
    const [atFar, atNear] = await net.until(results);
    isDone = true;
    assert.ok(atFar.equals(noise.subarray(0, MIB)));
    assert.ok(atNear.equals(noise.subarray(MIB)));
    await net.advance(60_000);
    assert.deepEqual([net.a.stats.sendBytes, net.b.stats.sendBytes], [0, 0]);
  });
