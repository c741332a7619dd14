// TCP between two stacks over a simulated link in virtual time. Seeds are fixed, so that each run is the same.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { writeChecksum } from '../../ipv6.ts';
import { type LinkOptions, SimulatedNetwork } from '../../testing/simulated-network.ts';
import { pair, received } from '../../testing/streams.ts';
import type { NetworkError } from '../network.ts';
import type { StackOptions } from '../stack.ts';
import { FLAG, headerOf, MSS, Segment } from './segment.ts';
import type { TcpStream } from './stream.ts';
import type { Incoming } from './tcp.ts';

const MIB = 1024 * 1024;
const random = seededRandom(77);
const noise = Buffer.from(Uint8Array.from({ length: 4 * MIB }, () => random(256)));

function setup(t: TestContext, seed: number, link: LinkOptions = {}, options: Partial<StackOptions> = {}) {
  const net = new SimulatedNetwork(seed, link, link, options);
  t.after(() => net.close());
  return net;
}

const segmentOf = (packet: Buffer) => {
  const segment = new Segment();
  assert.ok(segment.read(packet));
  return segment;
};

const LINKS: [string, LinkOptions][] = [
  ['a clean link', { delayMs: 5 }],
  ['1 % loss', { delayMs: 20, loss: 0.01 }],
  ['10 % loss', { delayMs: 5, loss: 0.1 }],
  ['reordering', { delayMs: 5, rate: 5_000, queue: 256, reordered: 0.05, reorderMs: 3 }],
  ['duplicates', { delayMs: 5, duplicates: 0.1 }],
  ['a queue of 20 packets', { delayMs: 10, rate: 1_000, queue: 20 }],
  ['all of it', { delayMs: 20, rate: 8_000, queue: 100, loss: 0.01, duplicates: 0.02, reordered: 0.02, reorderMs: 5 }],
];

for (const [index, [name, link]] of LINKS.entries())
  test(`bytes pass both ways at the same time: ${name}`, async (t) => {
    const net = setup(t, index + 1, link);
    const { near, far } = await pair(net);
    const there = noise.subarray(0, MIB);
    const back = noise.subarray(MIB, 2 * MIB);
    const results = Promise.all([received(far), received(near)]);
    near.end(there);
    far.end(back);
    const [atFar, atNear] = await net.until(results);
    assert.ok(atFar.equals(there));
    assert.ok(atNear.equals(back));
    // both TIME_WAITs are over
    await net.advance(60_000);
    for (const { connections, timeWait, timers, sendBytes, receiveBytes } of [net.a.stats, net.b.stats])
      assert.deepEqual([connections, timeWait, timers, sendBytes, receiveBytes], [0, 0, 0, 0, 0]);
  });

for (const seed of [1, 2, 3])
  test(`sends at least 5 MB/s at 100 ms and 0.5 % loss through a queue of 256 packets, seed ${seed}`, async (t) => {
    const net = setup(t, seed, { delayMs: 50, rate: 12_500, queue: 256, loss: 0.005 });
    const { near, far } = await pair(net);
    const started = net.now;
    let count = 0;
    far.on('data', (chunk: Buffer) => {
      count += chunk.length;
    });
    const rounds = 3;
    for (let i = 0; i < rounds; i++) near.write(noise);
    near.end();
    await net.until(once(far, 'end'));
    assert.equal(count, rounds * noise.length);
    const rate = count / (net.now - started) / 1_000;
    assert.ok(rate >= 5, `${rate.toFixed(2)} MB/s`);
    const { retransmissions } = near.connection.sender!.stats;
    const { lost, overflowed } = net.counts.a;
    // hardly anything is sent again that was not lost
    assert.ok(retransmissions <= 1.1 * (lost + overflowed) + 10, `${retransmissions} for ${lost} + ${overflowed}`);
  });

test('a single loss is repaired within two round trips, without a timeout', async (t) => {
  const net = setup(t, 1, { delayMs: 50 });
  const { near, far } = await pair(net);
  let count = 0;
  net.links.a.passes = () => ++count !== 5;
  const started = net.now;
  near.end(noise.subarray(0, 20 * 1_000));
  await net.until(received(far));
  assert.deepEqual(near.connection.sender!.stats, { retransmissions: 1, timeouts: 0, probes: 0, spuriousTimeouts: 0 });
  assert.ok(net.now - started <= 160, `${net.now - started}`);
});

test('a lost retransmission is sent again without a timeout', async (t) => {
  const net = setup(t, 1, { delayMs: 50 });
  const { near, far } = await pair(net);
  let first: number | undefined;
  let times = 0;
  net.links.a.passes = (packet) => {
    const segment = segmentOf(packet);
    if (segment.end === segment.start) return true;
    first ??= segment.seq;
    return segment.seq !== first || ++times > 2;
  };
  near.end(noise.subarray(0, MIB));
  assert.equal((await net.until(received(far))).length, MIB);
  assert.equal(near.connection.sender!.stats.timeouts, 0);
  assert.equal(times, 3);
});

test('a lost tail is found by a probe, and a dead link by the timeout, which doubles', async (t) => {
  const net = setup(t, 1, { delayMs: 50 });
  const { near, far } = await pair(net);
  const sink = received(far);
  near.write(noise.subarray(0, 5_000));
  await net.advance(1_000);
  let lost = 0;
  net.links.a.passes = () => ++lost > 1;
  near.write(noise.subarray(5_000, 5_100));
  await net.advance(600);
  assert.equal(near.connection.sender!.stats.timeouts, 0);
  assert.equal(near.connection.sender!.buffered, 0);
  const times: number[] = [];
  net.links.a.passes = () => {
    times.push(net.now);
    return net.now > 12_000;
  };
  near.end(noise.subarray(5_100, 5_200));
  assert.ok((await net.until(sink)).equals(noise.subarray(0, 5_200)));
  const gaps = times.slice(1, 5).map((time, i) => time - times[i]!);
  for (let i = 2; i < gaps.length; i++) assert.ok(Math.abs(gaps[i]! / gaps[i - 1]! - 2) < 0.2, `${gaps}`);
  assert.ok(near.connection.sender!.stats.timeouts >= 3);
});

test('a delay that is longer than the timeout is recognized', async (t) => {
  const net = setup(t, 1, { delayMs: 10 });
  const { near, far } = await pair(net);
  const sink = received(far);
  near.write(noise.subarray(0, 50_000));
  await net.advance(500);
  net.links.a.delayMs = 2_000;
  near.end(noise.subarray(50_000, 100_000));
  await net.until(sink);
  await net.advance(5_000);
  const { stats } = near.connection.sender!;
  assert.equal(stats.spuriousTimeouts, 1);
  // 42 segments: they did not leave again
  assert.ok(stats.retransmissions < 15, `${stats.retransmissions}`);
});

test('a reader that stops closes the window, and opens it again', async (t) => {
  const net = setup(t, 1, { delayMs: 5, loss: 0.01 });
  const { near, far } = await pair(net);
  const total = 12 * MIB;
  const writing = (async () => {
    for (let sent = 0; sent < total; sent += noise.length) if (!near.write(noise)) await once(near, 'drain');
    near.end();
  })();
  await net.advance(30_000);
  assert.ok(net.b.stats.receiveBytes <= 4 * MIB + MSS, `${net.b.stats.receiveBytes}`);
  assert.ok(net.a.stats.sendBytes <= 4.5 * MIB);
  const { sent } = net.counts.a;
  await net.advance(120_000);
  // asks for the window, less and less often
  assert.ok(net.counts.a.sent - sent >= 2 && net.counts.a.sent - sent <= 30, `${net.counts.a.sent - sent}`);
  const result = await net.until(Promise.all([received(far), writing]));
  assert.equal(result[0].length, total);
});

test('a lost window update does not stop the connection', async (t) => {
  const net = setup(t, 1, { delayMs: 5 });
  const { near, far } = await pair(net);
  near.end(Buffer.concat([noise, noise]));
  await net.advance(3_000);
  net.links.b.passes = () => false;
  const sink = received(far);
  await net.advance(100);
  net.links.b.passes = () => true;
  assert.equal((await net.until(sink)).length, 2 * noise.length);
});

test('one direction ends while the other goes on', async (t) => {
  const net = setup(t, 1, { delayMs: 10 });
  const { near, far } = await pair(net);
  const atFar = received(far);
  const atNear = received(near);
  near.end('question');
  assert.equal((await net.until(atFar)).toString(), 'question');
  await net.advance(60_000);
  far.write(noise.subarray(0, MIB));
  await net.advance(1_000);
  far.end('end');
  assert.equal((await net.until(atNear)).length, MIB + 3);
  await net.until(Promise.all([near.closed || once(near, 'close'), far.closed || once(far, 'close')]));
  // the side that ended first waits
  assert.deepEqual([net.a.stats.timeWait, net.b.stats.timeWait], [1, 0]);
});

test('both sides may end at the same time', async (t) => {
  const net = setup(t, 1, { delayMs: 10 });
  const { near, far } = await pair(net);
  near.resume().end('a');
  far.resume().end('b');
  await net.until(Promise.all([once(near, 'close'), once(far, 'close')]));
  assert.deepEqual([net.a.stats.connections, net.b.stats.connections], [0, 0]);
});

test('both sides may open at the same time', async (t) => {
  const net = setup(t, 1, { delayMs: 10 });
  // the same ports on both sides: the second SYN is written by hand
  const port = 49_152;
  const passed: Buffer[] = [];
  net.links.a.passes = (packet) => {
    passed.push(packet);
    return false;
  };
  const connecting = net.a.connect({ to: net.addresses.b, port });
  await net.advance(1);
  const syn = segmentOf(passed[0]!);
  const theirs = Buffer.alloc(60);
  headerOf({ peer: net.addresses.a, peerPort: syn.sourcePort, address: net.addresses.b, port }).copy(theirs);
  theirs.writeUInt16BE(20, 4);
  theirs.writeUInt32BE(4_000_000_000, 44);
  theirs[52] = 0x50;
  theirs[53] = FLAG.syn;
  theirs.writeUInt16BE(1_000, 54);
  writeChecksum(theirs, 56);
  net.a.receive(theirs);
  const answer = segmentOf(passed.at(-1)!);
  assert.equal(answer.flags, FLAG.syn | FLAG.ack);
  assert.deepEqual([answer.seq, answer.ack], [syn.seq, 4_000_000_001]);
  assert.equal(answer.windowScale, -1);
  theirs.writeUInt32BE(4_000_000_001, 44);
  theirs.writeUInt32BE((syn.seq + 1) >>> 0, 48);
  theirs[53] = FLAG.ack;
  writeChecksum(theirs, 56);
  net.a.receive(theirs);
  const stream = await net.until(connecting);
  stream.write('hello');
  await net.advance(1);
  assert.equal(passed.at(-1)!.subarray(60).toString(), 'hello');
});

test('destroy resets the peer, and forgetting a peer ends its connections', async (t) => {
  const net = setup(t, 1, { delayMs: 10 });
  const first = await pair(net);
  first.near.destroy();
  const [error] = (await net.until(once(first.far, 'error'))) as [NetworkError];
  assert.equal(error.code, 'ECONNRESET');
  const second = await pair(net);
  net.b.forget(net.addresses.a);
  const errors = await net.until(Promise.all([once(second.near, 'error'), second.far.errored]));
  assert.equal((errors[0][0] as NetworkError).code, 'ECONNRESET');
  assert.deepEqual([net.a.stats.connections, net.b.stats.connections], [0, 0]);
});

test('keepalive ends a connection whose peer is gone', async (t) => {
  const net = setup(t, 1, { delayMs: 10 });
  const { near, far } = await pair(net);
  near.setKeepAlive(10_000, 1_000);
  await net.advance(60_000);
  assert.equal(near.destroyed, false);
  net.links.a.passes = () => false;
  const failed = once(near, 'error');
  const started = net.now;
  const [error] = (await net.until(failed)) as [NetworkError];
  assert.equal(error.code, 'ETIMEDOUT');
  assert.ok(net.now - started < 25_000);
  far.destroy();
});

test('data that nobody acknowledges ends the connection', async (t) => {
  const net = setup(t, 1, { delayMs: 10 });
  const { near } = await pair(net);
  net.links.a.passes = () => false;
  const failed = once(near, 'error');
  near.write('x');
  const [error] = (await net.until(failed)) as [NetworkError];
  assert.equal(error.code, 'ETIMEDOUT');
});

/** A connection whose packets to the peer are all lost, for so long that the timeout has grown to about a minute. */
async function cutOff(t: TestContext, ms: number) {
  const net = setup(t, 1, { delayMs: 10 });
  const ends = await pair(net);
  net.links.a.passes = () => false;
  net.links.b.passes = () => false;
  const chunks: Buffer[] = [];
  ends.far.on('data', (chunk) => chunks.push(chunk));
  ends.near.write(noise.subarray(0, 10_000));
  await net.advance(ms);
  net.links.a = net.links.b = { delayMs: 10 };
  return { net, ...ends, bytes: () => Buffer.concat(chunks) };
}

test('a peer that is back gets what it missed when it asks, not after the timeout that has grown', async (t) => {
  const { net, bytes } = await cutOff(t, 120_000);
  net.b.retry(net.addresses.a);
  await net.advance(500);
  assert.ok(bytes().equals(noise.subarray(0, 10_000)), `${bytes().length} bytes`);
});

test('a sender whose path changed sends again, which counts as no failure', async (t) => {
  const { net, near, bytes } = await cutOff(t, 60_000);
  net.links.a.passes = () => false;
  for (let i = 0; i < 30; i++) {
    net.a.retry(net.addresses.b);
    await net.advance(100);
  }
  net.a.retry(net.addresses.a);
  const { sent } = net.counts.a;
  await net.advance(100);
  assert.equal(net.counts.a.sent, sent, 'that is another peer');
  net.links.a.passes = () => true;
  net.a.retry(net.addresses.b);
  await net.advance(500);
  assert.equal(near.errored, null);
  assert.ok(bytes().equals(noise.subarray(0, 10_000)), `${bytes().length} bytes`);
});

test('a peer that slept until the connection was given up learns that when it asks', async (t) => {
  const { net, near, far } = await cutOff(t, 400_000);
  assert.equal((near.errored as NetworkError).code, 'ETIMEDOUT');
  await net.advance(60_000);
  assert.equal(far.errored, null);
  net.b.retry(net.addresses.a);
  await net.advance(100);
  assert.equal((far.errored as NetworkError | null)?.code, 'ECONNRESET');
});

test('refused, unanswered and aborted connects fail with their reason', async (t) => {
  const net = setup(t, 1, { delayMs: 10 });
  const to = net.addresses.b;
  await assert.rejects(net.until(net.a.connect({ to, port: 1 })), { code: 'ECONNREFUSED' });
  net.links.a.passes = () => false;
  const started = net.now;
  await assert.rejects(net.until(net.a.connect({ to, port: 1, timeoutMs: 4_000 })), { code: 'ETIMEDOUT' });
  assert.ok(net.now - started >= 4_000 && net.now - started < 4_100);
  const controller = new AbortController();
  const aborted = net.a.connect({ to, port: 1, signal: controller.signal });
  controller.abort(new Error('no longer'));
  await assert.rejects(net.until(aborted), { message: 'no longer' });
  assert.equal(net.a.stats.connections, 0);
});

test('the handler of other ports decides before the SYN is answered', async (t) => {
  const net = setup(t, 1, { delayMs: 10 });
  const to = net.addresses.b;
  let incoming: Incoming | undefined;
  net.b.onIncoming((given) => {
    incoming = given;
  });
  const refused = net.a.connect({ to, port: 5_000 });
  await net.advance(2_000);
  assert.equal(net.counts.b.sent, 0);
  assert.deepEqual([incoming!.route.port, incoming!.route.peer], [5_000, net.addresses.a]);
  incoming!.refuse();
  await assert.rejects(net.until(refused), { code: 'ECONNREFUSED' });
  await assert.rejects(incoming!.accept(), { code: 'ECONNREFUSED' });

  const connecting = net.a.connect({ to, port: 5_001 });
  await net.advance(100);
  const [near, far] = await net.until(Promise.all([connecting, incoming!.accept()]));
  far.end('welcome');
  assert.equal((await net.until(received(near))).toString(), 'welcome');

  const given = net.a.connect({ to, port: 5_002, timeoutMs: 500 });
  await assert.rejects(net.until(given), { code: 'ETIMEDOUT' });
  await net.advance(31_000);
  assert.equal(incoming!.signal.aborted, true);
  assert.equal(net.b.stats.halfOpen, 0);
});

test('a lost SYN, answer or last part of the handshake only delays it', async (t) => {
  for (const [from, which] of [
    ['a', 1],
    ['b', 1],
    ['a', 2],
  ] as const) {
    const net = setup(t, 1, { delayMs: 10 });
    let count = 0;
    net.links[from].passes = () => ++count !== which;
    const { near, far } = await pair(net);
    const sink = received(far);
    near.end('x');
    assert.equal((await net.until(sink)).toString(), 'x');
  }
});

test('a flood of SYNs holds a bounded number of connections and leaves room for other peers', async (t) => {
  const net = setup(t, 1, {}, { limits: { maxHalfOpen: 64, maxHalfOpenPerPeer: 16 } });
  net.b.onIncoming(() => {});
  let captured: Buffer | undefined;
  net.links.a.passes = (packet) => {
    captured ??= packet;
    return false;
  };
  void net.a.connect({ to: net.addresses.b, port: 1 }).catch(() => {});
  await net.advance(1);
  const flood = (lastByte: number, count: number) => {
    for (let i = 0; i < count; i++) {
      const syn = Buffer.from(captured!);
      syn[23] = lastByte;
      syn.writeUInt16BE(1_024 + i, 40);
      writeChecksum(syn, 56);
      net.b.receive(syn);
    }
  };
  flood(0xa, 5_000);
  assert.equal(net.b.stats.halfOpen, 16);
  flood(0xc, 5);
  assert.equal(net.b.stats.halfOpen, 21);
  for (let peer = 0x10; peer < 0x40; peer++) flood(peer, 100);
  assert.equal(net.b.stats.halfOpen, 64);
  await net.advance(60_000);
  assert.deepEqual([net.b.stats.halfOpen, net.b.stats.connections], [0, 0]);
});

test('only a RST with the expected number resets, others are challenged, within a rate (RFC 5961)', async (t) => {
  const net = setup(t, 1, { delayMs: 1 });
  const { near, far } = await pair(net);
  let last: Buffer | undefined;
  net.links.a.passes = (packet) => {
    last = packet;
    return true;
  };
  near.write('x');
  await net.advance(100);
  const { sent } = net.counts.b;
  const forge = (flags: number, seq: number, ack?: number) => {
    const forged = Buffer.from(last!.subarray(0, 72));
    forged.writeUInt16BE(32, 4);
    forged[53] = flags;
    forged.writeUInt32BE(seq >>> 0, 44);
    if (ack !== undefined) forged.writeUInt32BE(ack >>> 0, 48);
    writeChecksum(forged, 56);
    net.b.receive(forged);
  };
  const next = segmentOf(last!).seq + 1;
  for (let i = 1; i <= 1_000; i++) {
    forge(FLAG.rst, next + i);
    forge(FLAG.syn, next + i);
    forge(FLAG.rst, next - i * 1_000_000);
    forge(FLAG.ack, next, segmentOf(last!).ack + 1_000 * i);
    if (i % 10 === 0) await net.advance(1);
  }
  assert.equal(far.destroyed, false);
  assert.ok(net.counts.b.sent - sent <= 20, `${net.counts.b.sent - sent}`);
  far.write('still there');
  await net.advance(100);
  assert.equal(near.read().toString(), 'still there');
  forge(FLAG.rst, next);
  await net.advance(1);
  assert.equal(far.destroyed, true);
});

test('the state after an end is bounded and expires', async (t) => {
  const net = setup(t, 1, { delayMs: 1 }, { limits: { maxTimeWait: 8 } });
  net.b.listen(1, (stream) => void stream.resume().on('end', () => stream.end()));
  for (let i = 0; i < 20; i++) {
    const stream = await net.until(net.a.connect({ to: net.addresses.b, port: 1 }));
    stream.resume().end('x');
    await net.until(once(stream, 'close'));
  }
  assert.equal(net.a.stats.timeWait, 8);
  await net.advance(31_000);
  assert.equal(net.a.stats.timeWait, 0);
});

test('connections share the budget of received bytes', async (t) => {
  const limits = { maxReceiveBytesInAll: 2 * MIB, maxReceiveBytes: MIB };
  const net = setup(t, 1, { delayMs: 1 }, { limits });
  const streams: TcpStream[] = [];
  net.b.listen(1, (stream) => void streams.push(stream));
  const near = await net.until(
    Promise.all(Array.from({ length: 24 }, () => net.a.connect({ to: net.addresses.b, port: 1 }))),
  );
  for (const stream of near) stream.end(noise.subarray(0, MIB));
  await net.advance(60_000);
  // each has its guaranteed 64 KiB, and what was in flight when the budget ran out
  const { receiveBytes } = net.b.stats;
  assert.ok(receiveBytes <= 2 * MIB + 24 * 2 * 64 * 1024, `${receiveBytes}`);
  const all = await net.until(Promise.all(streams.map((stream) => received(stream))));
  for (const bytes of all) assert.ok(bytes.equals(noise.subarray(0, MIB)));
  assert.equal(net.b.stats.receiveBytes, 0);
});

test('tiny segments of a peer count as what they hold', async (t) => {
  const net = setup(t, 1, { delayMs: 1 }, { limits: { maxReceiveBytes: 128 * 1024 } });
  const { near } = await pair(net);
  for (let i = 0; i < 1_200; i++) {
    near.write(Buffer.of(i));
    await net.advance(1);
  }
  // 128 KiB of 256 bytes each, and what the stream itself takes
  assert.ok(near.connection.sender!.unacknowledged < 1_000, `${near.connection.sender!.unacknowledged}`);
});

test('three connections share a queue and lose little', async (t) => {
  const net = setup(t, 1, { delayMs: 50, rate: 5_000, queue: 64 });
  const chunk = noise.subarray(0, 64 * 1024);
  const counts: { bytes: number }[] = [];
  for (let i = 0; i < 3; i++) {
    const { near, far } = await pair(net);
    const count = { bytes: 0 };
    counts.push(count);
    far.on('data', (data: Buffer) => {
      count.bytes += data.length;
    });
    const fill = () => {
      while (near.write(chunk));
    };
    near.on('drain', fill);
    fill();
  }
  const ms = 3_000;
  await net.advance(ms);
  const rates = counts.map(({ bytes }) => Math.round(bytes / ms));
  assert.ok(rates[0]! + rates[1]! + rates[2]! > 4_000, `${rates}`);
  assert.ok(Math.min(...rates) > 600, `${rates}`);
  const { sent, overflowed } = net.counts.a;
  assert.ok(overflowed / sent < 0.07, `${overflowed} of ${sent}`);
});

test('close resets everything and leaves no timer', async (t) => {
  const net = setup(t, 1, { delayMs: 1 });
  const { near, far } = await pair(net);
  const connecting = net.a.connect({ to: net.addresses.b, port: 9, timeoutMs: 1_000 });
  connecting.catch(() => {});
  near.write(noise);
  await net.advance(5);
  net.a.close();
  await net.advance(10);
  assert.equal(far.destroyed, true);
  assert.equal(near.destroyed, true);
  await assert.rejects(connecting);
  await assert.rejects(net.a.connect({ to: net.addresses.b, port: 9 }), { code: 'ECONNABORTED' });
  const { sent } = net.counts.a;
  await net.advance(600_000);
  assert.equal(net.counts.a.sent, sent);
});

test('segments with malformed options are read as far as they go', () => {
  const packet = Buffer.alloc(100);
  const at = 60;
  const read = (options: number[], words: number) => {
    packet.fill(0, 40);
    packet[52] = words << 4;
    packet.set(options, at);
    const segment = new Segment();
    return segment.read(packet) ? segment : undefined;
  };
  assert.equal(read([], 4), undefined);
  assert.equal(read([2, 4, 1], 15)?.mss, 256);
  assert.equal(read([2, 4, 5, 0, 3, 3, 99], 8)?.windowScale, 14);
  assert.equal(read([2, 4, 5, 0, 3, 0, 7, 3, 3, 1], 8)?.windowScale, -1);
  assert.equal(read([1, 1, 5, 60, 0, 0], 8)?.sacks.length, 0);
  assert.deepEqual(read([5, 10, 0, 0, 0, 1, 0, 0, 0, 2], 8)?.sacks, [1, 2]);
  assert.equal(read([8, 10, 0, 0, 0, 1, 0, 0, 0, 2], 8)?.hasTimestamps, true);
  assert.equal(MSS, 1_220);
});
