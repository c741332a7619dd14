import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type Duplex, duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { byteStreamPair, eventually, seededRandom, socketPair } from '@ropewalk/wire/testing/sockets';
import { Box } from '../box.ts';
import { KeyPair } from '../keys.ts';
import { derpVectors, RawClient } from '../testing/derp.ts';
import { fromHex, hex } from '../testing/vectors.ts';
import {
  decodePacket,
  decodePeerGone,
  decodeServerInfo,
  encodeClientInfo,
  encodeFrame,
  encodeSend,
  FRAME,
  GONE,
  HEADER_BYTES,
} from './frames.ts';
import {
  type AcceptOptions,
  DerpRelay,
  type RelayClosed,
  type RelayLink,
  type RelayOptions,
  type RelayPolicy,
} from './relay.ts';

const OPEN: RelayPolicy = { introduced: () => true, permits: () => true };
const DISCO = Buffer.concat([fromHex('5453f09f92ac'), Buffer.alloc(80)]);
const nobody = KeyPair.generate().publicKey;

interface Setup {
  relay: DerpRelay;
  clock: { now: number };
  /** A connection: the client's end, and how it ends. */
  connect(accept?: AcceptOptions): RawClient & { closed: Promise<RelayClosed> };
  client(keys?: KeyPair, accept?: AcceptOptions): Promise<RawClient & { closed: Promise<RelayClosed>; keys: KeyPair }>;
}

function setup(t: TestContext, options: Partial<RelayOptions> = {}): Setup {
  const clock = { now: 1_000 };
  // the clock stands still, and nothing comes again
  const rates = { maxBytesPerSecond: 2 ** 40, maxBytesPerSecondPerKey: 2 ** 40 };
  const relay = new DerpRelay({ policy: OPEN, clock: { monotonic: () => clock.now }, ...rates, ...options });
  t.after(() => relay.close());
  const connect = (accept?: AcceptOptions) => {
    const [near, far] = duplexPair();
    return Object.assign(new RawClient(near), { closed: relay.accept(far, accept) });
  };
  return {
    relay,
    clock,
    connect,
    async client(keys = KeyPair.generate(), accept?: AcceptOptions) {
      const client = connect(accept);
      await client.signIn(keys);
      return Object.assign(client, { keys });
    },
  };
}

test('answers the recorded clients as recorded', async (t) => {
  const { relay, connect } = setup(t, { keys: derpVectors.server });
  const a = connect();
  const b = connect();
  for (const [client, side] of [
    [b, derpVectors.b],
    [a, derpVectors.a],
  ] as const) {
    const isSignIn = (frame: Buffer) => frame[0] === FRAME.clientInfo;
    client.stream.write(side.frames.find(({ frame }) => isSignIn(frame))!.frame);
    const serverInfo = await client.frame(FRAME.serverInfo);
    const recorded = side.frames.find(({ frame }) => frame[0] === FRAME.serverInfo)!.frame;
    assert.equal(serverInfo.length, recorded.length);
    const box = Box.between(side.pair, relay.publicKey)!;
    assert.deepEqual(decodeServerInfo(box, serverInfo), {});
  }
  const rest = (side: typeof derpVectors.a, dir: string) =>
    side.frames.filter((entry) => entry.dir === dir).map((entry) => Buffer.from(entry.frame));
  for (const frame of rest(derpVectors.a, 'client').slice(1)) a.stream.write(frame);
  await b.frame(FRAME.receive);
  for (const frame of rest(derpVectors.b, 'client').slice(1)) b.stream.write(frame);
  await a.frame(FRAME.receive);
  const visible = (frames: Buffer[]) => frames.filter(([type]) => type !== FRAME.serverInfo).map((frame) => hex(frame));
  assert.deepEqual(visible(b.received), visible(rest(derpVectors.b, 'server')));
  // another relay forwarded the last recorded frame; the order of answers depends on when the other client answered
  const forA = visible(rest(derpVectors.a, 'server').slice(0, -1));
  assert.deepEqual(visible(a.received).toSorted(), forA.toSorted());
  assert.equal(relay.stats().homes, 1);
  assert.deepEqual(relay.stats().dropped, { absent: 2, denied: 0, budget: 0, full: 0 });
});

test('forwards packets between a socket and a WebSocket, in order', async (t) => {
  const { relay } = setup(t);
  const [nearSocket, farSocket] = await socketPair(t);
  const [nearStream, farStream] = await byteStreamPair(t);
  const ends = [relay.accept(farSocket), relay.accept(farStream)];
  const [a, b] = [KeyPair.generate(), KeyPair.generate()];
  const [fromA, fromB] = [new RawClient(nearSocket), new RawClient(nearStream)];
  await fromA.signIn(a);
  await fromB.signIn(b);
  const count = 300;
  for (let i = 0; i < count; i++) {
    nearSocket.write(encodeSend(b.publicKey, Buffer.alloc(1 + i, i)));
    nearStream.write(encodeSend(a.publicKey, Buffer.alloc(1 + i, i)));
  }
  for (const [to, source] of [
    [fromB, a],
    [fromA, b],
  ] as const) {
    await to.frame(FRAME.receive, count - 1);
    to.of(FRAME.receive).forEach((frame, i) => {
      const { key, packet } = decodePacket(frame);
      assert.equal(hex(key), hex(source.publicKey));
      assert.ok(packet.equals(Buffer.alloc(1 + i, i)));
    });
  }
  nearSocket.end();
  nearStream.end();
  for (const closed of await Promise.all(ends)) assert.equal(closed.end, 'closed');
  assert.equal(relay.stats().packetsForwarded, 2 * count);
});

test('a client that disconnects is reported to those to which it sent, and to no one else', async (t) => {
  const { client } = setup(t);
  const [a, b, c] = [await client(), await client(), await client()];
  a.stream.write(encodeSend(b.keys.publicKey, Buffer.from('x')));
  c.stream.write(encodeSend(a.keys.publicKey, Buffer.from('x')));
  await b.frame(FRAME.receive);
  await a.frame(FRAME.receive);
  a.stream.destroy();
  assert.deepEqual(decodePeerGone(await b.frame(FRAME.peerGone)), {
    key: a.keys.publicKey,
    reason: GONE.disconnected,
  });
  assert.deepEqual(await a.closed, { end: 'closed', key: hex(a.keys.publicKey) });
  assert.equal(c.of(FRAME.peerGone).length, 0);
});

test('absent destinations are reported for disco packets only, three times and then once a second', async (t) => {
  const { client, clock } = setup(t);
  const a = await client();
  const send = async (packet: Buffer, count: number) => {
    for (let i = 0; i < count; i++) a.stream.write(encodeSend(nobody, packet));
    a.stream.write(encodeFrame(FRAME.ping, Buffer.alloc(8)));
    const pongs = a.of(FRAME.pong).length;
    await a.frame(FRAME.pong, pongs);
  };
  await send(Buffer.from('data'), 5);
  assert.equal(a.of(FRAME.peerGone).length, 0);
  await send(DISCO, 10);
  assert.equal(a.of(FRAME.peerGone).length, 3);
  assert.deepEqual(decodePeerGone(a.of(FRAME.peerGone)[0]!), { key: nobody, reason: GONE.notHere });
  clock.now += 1_000;
  await send(DISCO, 10);
  assert.equal(a.of(FRAME.peerGone).length, 4);
});

test('a destination that the policy denies looks absent', async (t) => {
  const allowed = new Set<string>();
  const { client, relay } = setup(t, {
    policy: { introduced: () => true, permits: (source, destination) => allowed.has(`${source} ${destination}`) },
  });
  const [a, b] = [await client(), await client()];
  a.stream.write(encodeSend(b.keys.publicKey, Buffer.from('denied')));
  a.stream.write(encodeSend(b.keys.publicKey, DISCO));
  assert.equal(decodePeerGone(await a.frame(FRAME.peerGone)).reason, GONE.notHere);
  allowed.add(`${hex(a.keys.publicKey)} ${hex(b.keys.publicKey)}`);
  a.stream.write(encodeSend(b.keys.publicKey, Buffer.from('allowed')));
  assert.equal(decodePacket(await b.frame(FRAME.receive)).packet.toString(), 'allowed');
  b.stream.write(encodeSend(a.keys.publicKey, Buffer.from('the other direction')));
  await eventually(() => relay.stats().dropped.denied === 3, 'the third denial');
  assert.equal(b.of(FRAME.receive).length, 1);
  assert.equal(a.of(FRAME.receive).length, 0);
});

test('strangers exchange a few packets with each other, and none with introduced clients', async (t) => {
  const introduced = new Set<string>();
  const { client, relay } = setup(t, { policy: { introduced: (key) => introduced.has(key), permits: () => false } });
  const known = KeyPair.generate();
  introduced.add(hex(known.publicKey)!);
  const [a, b, c] = [await client(), await client(), await client(known)];
  for (let i = 0; i < 100; i++) a.stream.write(encodeSend(b.keys.publicKey, Buffer.from(`${i}`)));
  a.stream.write(encodeSend(c.keys.publicKey, Buffer.from('x')));
  c.stream.write(encodeSend(a.keys.publicKey, Buffer.from('x')));
  await eventually(() => relay.stats().packetsReceived === 102, 'all packets');
  await b.frame(FRAME.receive, 63);
  assert.deepEqual(relay.stats().dropped, { absent: 0, denied: 2, budget: 36, full: 0 });
  assert.equal(b.of(FRAME.receive).length, 64);
  assert.equal(relay.stats().strangers, 2);
  b.stream.write(encodeSend(a.keys.publicKey, Buffer.alloc(60_000)));
  b.stream.write(encodeSend(a.keys.publicKey, Buffer.alloc(60_000)));
  await eventually(() => relay.stats().dropped.budget === 37, 'the budget of bytes');
  assert.equal(a.of(FRAME.receive).length, 1);
});

test('too many strangers end the oldest one that is still a stranger', async (t) => {
  const introduced = new Set<string>();
  const { client, relay } = setup(t, {
    policy: { introduced: (key) => introduced.has(key), permits: () => false },
    maxStrangers: 2,
  });
  const oldest = await client();
  introduced.add(hex(oldest.keys.publicKey)!);
  const second = await client();
  await client();
  assert.deepEqual([relay.stats().strangers, relay.stats().connections], [2, 3]);
  await client();
  assert.equal((await second.closed).end, 'limit');
  assert.equal(relay.stats().connections, 3);
  assert.equal(oldest.stream.destroyed, false);
});

test('a connection that ends in the middle of received bytes has no further effect', async (t) => {
  const { connect, relay } = setup(t, { policy: { introduced: () => false, permits: () => true }, maxStrangers: 0 });
  const keys = KeyPair.generate();
  const box = Box.between(keys, relay.publicKey)!;
  const signIn = encodeClientInfo(keys.publicKey, box, { canAckPings: true, isProber: false });
  const stranger = connect();
  stranger.stream.write(Buffer.concat([signIn, encodeSend(nobody, Buffer.from('x'))]));
  assert.equal((await stranger.closed).end, 'limit');
  assert.equal(relay.stats().packetsReceived, 0);
});

test('a client whose key is withdrawn counts as a stranger within a minute', async (t) => {
  const introduced = new Set<string>();
  const { client, relay, clock } = setup(t, {
    policy: { introduced: (key) => introduced.has(key), permits: () => false },
    maxStrangers: 1,
  });
  const keys = KeyPair.generate();
  introduced.add(hex(keys.publicKey)!);
  const withdrawn = await client(keys);
  const stranger = await client();
  introduced.clear();
  relay.tick();
  assert.equal(relay.stats().strangers, 1);
  clock.now += 65_000;
  relay.tick();
  assert.equal((await stranger.closed).end, 'limit');
  assert.equal(withdrawn.stream.destroyed, false);
  assert.equal(relay.stats().strangers, 1);
});

test('limits connections, those that sign in, and those of one key', async (t) => {
  const { connect, client, relay } = setup(t, { maxConnections: 6, maxSigningIn: 2 });
  const waiting = [connect(), connect(), connect()];
  assert.equal((await waiting[0]!.closed).end, 'limit');
  const keys = KeyPair.generate();
  for (const { stream } of waiting) stream.destroy();
  await eventually(() => relay.stats().connections === 0, 'all closed');
  const same = [];
  for (let i = 0; i < 5; i++) same.push(await client(keys));
  assert.equal((await same[0]!.closed).end, 'limit');
  assert.deepEqual([relay.stats().connections, relay.stats().clients, relay.stats().duplicates], [4, 1, 1]);
  await client();
  await client();
  assert.deepEqual(await connect().closed, { end: 'limit' });
  assert.equal(relay.stats().ended.limit, 3);
});

test('packets for a key go to the connection that signed in or sent last', async (t) => {
  const { client } = setup(t);
  const keys = KeyPair.generate();
  const [a, first, second] = [await client(), await client(keys), await client(keys)];
  const deliver = async (to: RawClient, text: string) => {
    const before = to.of(FRAME.receive).length;
    a.stream.write(encodeSend(keys.publicKey, Buffer.from(text)));
    assert.equal(decodePacket(await to.frame(FRAME.receive, before)).packet.toString(), text);
  };
  await deliver(second, 'to the newer one');
  first.stream.write(encodeSend(a.keys.publicKey, Buffer.from('x')));
  await a.frame(FRAME.receive);
  await deliver(first, 'to the one that sent');
  assert.equal(first.of(FRAME.health).length, 0);
  for (const [i, { stream }] of [second, first].entries()) {
    stream.write(encodeSend(a.keys.publicKey, Buffer.from('x')));
    await a.frame(FRAME.receive, i + 1);
  }
  assert.match((await second.frame(FRAME.health)).toString('latin1', HEADER_BYTES), /uses the same key/);
  await first.frame(FRAME.health);
  first.stream.destroy();
  assert.equal((await second.frame(FRAME.health, 1)).length, HEADER_BYTES);
  await deliver(second, 'to the one that is left');
  assert.equal(a.of(FRAME.peerGone).length, 0);
  second.stream.destroy();
  await a.frame(FRAME.peerGone);
});

/** A stream whose other end reads only when it is resumed. */
async function stuck(relay: DerpRelay, keys: KeyPair): Promise<RawClient & { closed: Promise<RelayClosed> }> {
  const [near, far] = duplexPair({ highWaterMark: 1_024 });
  const client = Object.assign(new RawClient(near), { closed: relay.accept(far) });
  await client.signIn(keys);
  near.pause();
  return client;
}

test('a slow client receives the newest packets, disco packets before data, and only the latest answer', async (t) => {
  const { client, relay } = setup(t);
  const keys = KeyPair.generate();
  const [a, slow] = [await client(), await stuck(relay, keys)];
  const label = (i: number) => Buffer.from(`${i}`.padStart(100));
  const total = 2_000;
  for (let i = 0; i < total; i++) a.stream.write(encodeSend(keys.publicKey, label(i)));
  a.stream.write(encodeSend(keys.publicKey, DISCO));
  await eventually(() => relay.stats().packetsReceived === total + 1, 'all packets');
  for (let i = 0; i < 100; i++) slow.stream.write(encodeFrame(FRAME.ping, Buffer.alloc(8, i)));
  await turn();
  await turn();
  const { queuedPackets, dropped } = relay.stats();
  assert.equal(queuedPackets, 512 + 1);
  slow.stream.resume();
  await slow.frame(FRAME.receive, total - dropped.full);
  const packets = slow.of(FRAME.receive).map((frame) => decodePacket(frame).packet);
  assert.equal(packets.length, total + 1 - dropped.full);
  const disco = packets.findIndex((packet) => packet.equals(DISCO));
  assert.equal(disco, packets.length - 512 - 1);
  assert.deepEqual(
    packets.slice(disco + 1).map((packet) => Number(packet.toString())),
    Array.from({ length: 512 }, (_, i) => total - 512 + i),
  );
  assert.equal(slow.of(FRAME.pong).at(-1)![HEADER_BYTES], 99);
  assert.ok(slow.of(FRAME.pong).length < 10);
});

test('a client that accepts nothing holds little memory, and is ended', async (t) => {
  const { client, relay, clock } = setup(t);
  const keys = KeyPair.generate();
  const [a, slow] = [await client(), await stuck(relay, keys)];
  for (let i = 0; i < 200; i++) a.stream.write(encodeSend(keys.publicKey, Buffer.alloc(65_000)));
  await eventually(() => relay.stats().packetsReceived === 200, 'all packets');
  assert.ok(relay.stats().queuedBytes <= 1024 * 1024, `${relay.stats().queuedBytes}`);
  relay.tick();
  assert.equal(relay.stats().ended.slow, 0);
  clock.now += 5_001;
  relay.tick();
  assert.deepEqual(await slow.closed, { end: 'slow', key: hex(keys.publicKey) });
  assert.equal(relay.stats().queuedBytes, 0);
});

test('all slow clients together hold a limited number of bytes, which those that end give back', async (t) => {
  const { client, relay, clock } = setup(t, { maxQueuedBytes: 300_000 });
  const a = await client();
  const keys = Array.from({ length: 4 }, () => KeyPair.generate());
  const slow = [];
  for (const key of keys) slow.push(await stuck(relay, key));
  let sent = 0;
  const flood = async (key: KeyPair) => {
    for (let i = 0; i < 20; i++) a.stream.write(encodeSend(key.publicKey, Buffer.alloc(20_000)));
    sent += 20;
    await eventually(() => relay.stats().packetsReceived === sent, 'all packets');
  };
  for (const key of keys) {
    const before = relay.stats().queuedBytes;
    await flood(key);
    const { queuedBytes } = relay.stats();
    assert.ok(queuedBytes <= 300_000, `${queuedBytes}`);
    assert.ok(queuedBytes >= before + 20_000, 'those before left room');
  }
  clock.now += 5_001;
  relay.tick();
  for (const { closed } of slow) assert.equal((await closed).end, 'slow');
  assert.equal(relay.stats().queuedBytes, 0);
  const late = KeyPair.generate();
  await stuck(relay, late);
  await flood(late);
  assert.ok(relay.stats().queuedBytes > 120_000, `${relay.stats().queuedBytes}`);
});

test('all connections of one key together hold a limited number of bytes', async (t) => {
  const { client, relay } = setup(t, { maxQueuedBytesPerKey: 100_000 });
  const [a, keys] = [await client(), KeyPair.generate()];
  for (let i = 1; i <= 3; i++) {
    await stuck(relay, keys);
    for (let j = 0; j < 20; j++) a.stream.write(encodeSend(keys.publicKey, Buffer.alloc(10_000)));
    await eventually(() => relay.stats().packetsReceived === 20 * i, 'all packets');
    assert.ok(relay.stats().queuedBytes > 80_000);
    assert.ok(relay.stats().queuedBytes <= 100_000, `${relay.stats().queuedBytes}`);
  }
});

/** Sends so many packets of 1,000 bytes, each with its number. */
function sendNumbers(from: RawClient, to: KeyPair, count: number): void {
  for (let i = 0; i < count; i++) from.stream.write(encodeSend(to.publicKey, Buffer.alloc(1_000, `${i} `)));
}
const numbersOf = (client: RawClient, source: KeyPair): number[] =>
  client
    .of(FRAME.receive)
    .map((frame) => decodePacket(frame))
    .filter(({ key }) => key.equals(source.publicKey))
    .map(({ packet }) => Number.parseInt(packet.toString('latin1'), 10));

test('a client that sends too much waits, loses nothing, and delays no other', async (t) => {
  const { client, relay, clock } = setup(t, { maxBytesPerSecondPerKey: 320_000 });
  const [flooder, other, to] = [await client(), await client(), await client()];
  const second = await client(flooder.keys);
  sendNumbers(flooder, to.keys, 50);
  await eventually(() => relay.stats().paused === 1, 'the pause');
  sendNumbers(second, to.keys, 50);
  await eventually(() => relay.stats().paused === 2, 'the pause of the other connection of the same key');
  for (let i = 0; i < 10; i++) await turn();
  const early = numbersOf(to, flooder.keys).length;
  assert.ok(early >= 7 && early <= 14, `${early} packets`);
  sendNumbers(other, to.keys, 3);
  await eventually(() => numbersOf(to, other.keys).length === 3, 'the other client');
  assert.equal(numbersOf(to, flooder.keys).length, early);
  await eventually(() => {
    clock.now += 1;
    return numbersOf(to, flooder.keys).length === 100;
  }, 'all packets');
  assert.deepEqual(relay.stats().dropped, { absent: 0, denied: 0, budget: 0, full: 0 });
  // 100 packets cost 129,300 bytes, and 10,000 come as the burst
  assert.ok(clock.now - 1_000 >= ((129_300 - 10_000 - 1_300) / 320_000) * 1_000, `${clock.now} ms`);
});

test('clients that send too much together take turns', async (t) => {
  const { client, relay, clock } = setup(t, { maxBytesPerSecond: 320_000 });
  const to = await client();
  const senders = [await client(), await client(), await client()];
  for (const flooder of senders.slice(0, 2)) sendNumbers(flooder, to.keys, 200);
  await eventually(() => relay.stats().paused === 2, 'the pauses');
  sendNumbers(senders[2]!, to.keys, 5);
  await eventually(() => relay.stats().paused === 3, 'the last pause');
  const counts = () => senders.map(({ keys }) => numbersOf(to, keys).length);
  while (counts()[0]! + counts()[1]! < 200) {
    const before = counts();
    clock.now += 300;
    await eventually(() => counts().some((count, i) => count > before[i]!), 'a turn');
    await turn();
  }
  const [first, second, light] = counts();
  assert.equal(light, 5);
  assert.ok(Math.abs(first! - second!) < 60, `${first} and ${second}`);
});

test('a stranger may send little until its key is introduced', async (t) => {
  const introduced = new Set<string>();
  const { client, relay } = setup(t, { policy: { introduced: (key) => introduced.has(key), permits: () => true } });
  const [a, b] = [await client(), await client()];
  const ping = () => a.stream.write(encodeFrame(FRAME.ping, Buffer.alloc(1_000)));
  for (let i = 0; i < 1_000; i++) ping();
  await eventually(() => relay.stats().paused === 1, 'the pause');
  for (let i = 0; i < 10; i++) await turn();
  assert.ok(a.of(FRAME.pong).length < 110, `${a.of(FRAME.pong).length}`);
  introduced.add(hex(a.keys.publicKey)!);
  b.stream.write(encodeSend(a.keys.publicKey, Buffer.from('x')));
  await a.frame(FRAME.pong, 999);
  introduced.clear();
  relay.tick();
  for (let i = 0; i < 1_000; i++) ping();
  await eventually(() => relay.stats().paused === 1, 'the second pause');
  for (let i = 0; i < 10; i++) await turn();
  assert.ok(a.of(FRAME.pong).length < 1_110, `${a.of(FRAME.pong).length}`);
});

test('a key that was introduced counts as such from its first packet, in either direction', async (t) => {
  const introduced = new Set<string>();
  const { client } = setup(t, { policy: { introduced: (key) => introduced.has(key), permits: () => true } });
  const states: string[] = [];
  const watched = (name: string) =>
    client(KeyPair.generate(), { onStranger: (isStranger) => states.push(`${name} ${isStranger}`) > 0 });
  const [a, b, c] = [await watched('a'), await watched('b'), await watched('c')];
  assert.deepEqual(states.splice(0), ['a true', 'b true', 'c true']);
  introduced.add(hex(a.keys.publicKey)!);
  a.stream.write(encodeSend(b.keys.publicKey, Buffer.from('x')));
  await b.frame(FRAME.receive);
  assert.deepEqual(states.splice(0), ['a false']);
  introduced.add(hex(c.keys.publicKey)!);
  b.stream.write(encodeSend(c.keys.publicKey, Buffer.from('x')));
  await c.frame(FRAME.receive);
  assert.deepEqual(states, ['c false']);
});

test('the server learns whether a connection is that of a stranger, and may end it', async (t) => {
  const introduced = new Set<string>();
  const { client, connect, relay } = setup(t, {
    policy: { introduced: (key) => introduced.has(key), permits: () => false },
  });
  const states: boolean[] = [];
  const keys = KeyPair.generate();
  const { closed } = await client(keys, {
    onStranger: (isStranger) => {
      states.push(isStranger);
      return states.length < 3;
    },
  });
  assert.deepEqual(states, [true]);
  relay.tick();
  introduced.add(hex(keys.publicKey)!);
  relay.tick();
  relay.tick();
  assert.deepEqual(states, [true, false]);
  introduced.clear();
  relay.tick();
  assert.deepEqual(states, [true, false, true]);
  assert.equal((await closed).end, 'limit');
  const known = KeyPair.generate();
  introduced.add(hex(known.publicKey)!);
  const seen: boolean[] = [];
  for (let i = 0; i < 2; i++) await client(known, { onStranger: (isStranger) => seen.push(isStranger) > 0 });
  assert.deepEqual(seen, [false, false]);
  const rejected = connect({ onStranger: () => false });
  rejected.signIn(KeyPair.generate()).catch(() => {});
  assert.equal((await rejected.closed).end, 'limit');
  assert.equal(relay.stats().strangers, 0);
});

test('sends keepalives each minute, and ends connections that do not sign in', async (t) => {
  const { client, connect, relay, clock } = setup(t);
  const [a, late] = [await client(), connect()];
  await late.frame(FRAME.serverKey);
  clock.now += 10_001;
  relay.tick();
  assert.deepEqual(await late.closed, { end: 'timeout' });
  assert.equal(a.of(FRAME.keepAlive).length, 0);
  clock.now += 55_000;
  relay.tick();
  await a.frame(FRAME.keepAlive);
  relay.tick();
  clock.now += 65_000;
  relay.tick();
  await a.frame(FRAME.keepAlive, 1);
  assert.equal(a.of(FRAME.keepAlive).length, 2);
});

test('rejects clients that break the protocol, act as a relay, or do not have their key', async (t) => {
  const { client, connect, relay } = setup(t);
  const rejected: [string, Buffer][] = [
    ['watch', encodeFrame(FRAME.watch)],
    ['forward', encodeFrame(FRAME.forward, Buffer.alloc(100))],
    ['close peer', encodeFrame(FRAME.closePeer, Buffer.alloc(32))],
    ['second sign-in', encodeFrame(FRAME.clientInfo, Buffer.alloc(100))],
    ['short packet', encodeFrame(FRAME.send, Buffer.alloc(31))],
    ['short ping', encodeFrame(FRAME.ping, Buffer.alloc(7))],
    ['empty preference', encodeFrame(FRAME.notePreferred)],
    ['long frame', fromHex('04ffffffff')],
  ];
  for (const [name, frame] of rejected) {
    const bad = await client();
    bad.stream.write(Buffer.concat([frame, encodeFrame(FRAME.ping, Buffer.alloc(8))]));
    assert.equal((await bad.closed).end, 'protocol', name);
    assert.equal(bad.of(FRAME.pong).length, 0, name);
  }
  const early = connect();
  early.stream.write(encodeSend(nobody, Buffer.from('x')));
  assert.equal((await early.closed).end, 'protocol');
  const [victim, thief] = [KeyPair.generate(), KeyPair.generate()];
  for (const key of [victim.publicKey, Buffer.alloc(32)]) {
    const box = Box.between(thief, relay.publicKey)!;
    const pretender = connect();
    pretender.stream.write(encodeClientInfo(key, box, { canAckPings: true, isProber: false }));
    assert.equal((await pretender.closed).end, 'unauthenticated');
  }
  assert.equal(relay.stats().connections, 0);
  assert.deepEqual(relay.stats().ended, {
    ...{ closed: 0, timeout: 0, slow: 0, limit: 0, stopped: 0 },
    protocol: rejected.length + 1,
    unauthenticated: 2,
  });
});

test('frames of unknown types and pongs have no effect', async (t) => {
  const { client } = setup(t);
  const a = await client();
  a.stream.write(Buffer.concat([encodeFrame(0x55, Buffer.alloc(500)), encodeFrame(FRAME.pong, Buffer.alloc(8))]));
  a.stream.write(encodeFrame(FRAME.ping, Buffer.alloc(1_000, 7)));
  assert.equal((await a.frame(FRAME.pong)).length, HEADER_BYTES + 8);
});

test('a stop announces when to come back, ends every connection, and accepts no other', async (t) => {
  const { client, connect, relay } = setup(t);
  const [a, early] = [await client(), connect()];
  await early.frame(FRAME.serverKey);
  relay.close({ reconnectInMs: 500, tryForMs: 60_000 });
  assert.equal(hex(await a.frame(FRAME.restarting)), '1500000008000001f40000ea60');
  assert.equal((await a.closed).end, 'stopped');
  assert.equal((await early.closed).end, 'stopped');
  assert.deepEqual(await connect().closed, { end: 'stopped' });
  assert.equal(relay.stats().connections, 0);
  if (!a.stream.readableEnded) await once(a.stream, 'end');
});

test('damaged sessions end cleanly and disturb no other client', async (t) => {
  const { client, connect, relay } = setup(t);
  const [a, b] = [await client(), await client()];
  const ends = new Set<string>();
  for (let seed = 1; seed <= 150; seed++) {
    const random = seededRandom(seed);
    const keys = KeyPair.generate();
    const box = Box.between(keys, relay.publicKey)!;
    const signIn = encodeClientInfo(keys.publicKey, box, { canAckPings: true, isProber: false });
    const frames = Array.from({ length: 20 }, () => {
      const payload = Buffer.from(Array.from({ length: random(120) }, () => random(256)));
      if (random(2)) return encodeSend(random(2) ? a.keys.publicKey : nobody, random(3) ? payload : DISCO);
      return encodeFrame(random(0x18), payload);
    });
    const input = Buffer.concat([signIn, ...frames]);
    for (let flips = random(4); flips > 0; flips--) input[random(input.length)]! ^= 1 << random(8);
    const hostile = connect();
    for (let at = 0; at < input.length; ) {
      const size = 1 + random(400);
      hostile.stream.write(input.subarray(at, at + size));
      at += size;
    }
    await turn();
    hostile.stream.end();
    ends.add((await hostile.closed).end);
  }
  assert.deepEqual([...ends].toSorted(), ['closed', 'protocol', 'unauthenticated']);
  a.stream.write(encodeSend(b.keys.publicKey, Buffer.from('still here')));
  assert.equal(decodePacket(await b.frame(FRAME.receive)).packet.toString(), 'still here');
  const { connections, clients } = relay.stats();
  assert.deepEqual({ connections, clients }, { connections: 2, clients: 2 });
});

test('one turn of the event loop writes all packets for a client together', async (t) => {
  const { client, relay } = setup(t);
  const keys = KeyPair.generate();
  const [near, far] = duplexPair();
  let writes = 0;
  const uncork = far.uncork.bind(far) as Duplex['uncork'];
  far.uncork = () => {
    writes++;
    uncork();
  };
  void relay.accept(far);
  const b = new RawClient(near);
  await b.signIn(keys);
  const a = await client();
  writes = 0;
  a.stream.write(Buffer.concat(Array.from({ length: 50 }, () => encodeSend(keys.publicKey, Buffer.alloc(100)))));
  await b.frame(FRAME.receive, 49);
  assert.equal(writes, 1);
});

test('forwards permitted packets of introduced nodes to the other relay, and a bounded number to one that does not read', async (t) => {
  const [a, b] = [KeyPair.generate(), KeyPair.generate()];
  const known = new Set([a, b].map(({ publicKey }) => hex(publicKey)!));
  let isPermitted = true;
  const policy: RelayPolicy = { introduced: (key) => known.has(key), permits: () => isPermitted };
  const [near, far] = duplexPair();
  const announced: [string, boolean][] = [];
  const links = new Map<string, RelayLink>();
  const mesh = {
    find: (key: string) => links.get(key),
    links: () => links.values(),
    present: (key: string, isPresent: boolean) => announced.push([key, isPresent]),
  };
  const one = setup(t, { policy, mesh });
  const two = setup(t, { policy });
  links.set(hex(b.publicKey)!, one.relay.openLink(near));
  const [from, to] = [await one.client(a), await two.client(b)];
  assert.deepEqual(announced, [[hex(a.publicKey), true]]);

  for (let n = 0; n < 2_000; n++) from.stream.write(encodeSend(b.publicKey, Buffer.alloc(1_200, n)));
  await eventually(() => one.relay.stats().packetsToRelays === 2_000, 'the relay has done it');
  const { queuedBytes, dropped } = one.relay.stats();
  assert.ok(dropped.full >= 1_400, `${dropped.full} dropped, ${queuedBytes} bytes wait`);

  two.relay.acceptLink(far);
  const received = decodePacket(await to.frame(FRAME.receive));
  assert.deepEqual(received.key, a.publicKey);
  assert.equal(received.packet.length, 1_200);
  await eventually(() => two.relay.stats().packetsFromRelays === 2_000 - dropped.full, 'the relay has done it');

  // the node leaves the other relay
  two.relay.left(hex(a.publicKey)!);
  assert.deepEqual(decodePeerGone(await to.frame(FRAME.peerGone)), { key: a.publicKey, reason: GONE.disconnected });

  isPermitted = false;
  from.stream.write(encodeSend(b.publicKey, Buffer.from('denied')));
  await eventually(() => one.relay.stats().dropped.denied === 1, 'the relay has done it');
  assert.equal(one.relay.stats().packetsToRelays, 2_000);
  from.stream.destroy();
  await eventually(() => announced.length === 2, 'the relay has done it');
});

test('strangers at two relays exchange a few packets, and none with nodes', async (t) => {
  const node = KeyPair.generate();
  const [knownHere, knownThere] = [new Set<string>(), new Set([hex(node.publicKey)!])];
  const policyOf = (known: Set<string>): RelayPolicy => ({
    introduced: () => false,
    owned: (key) => known.has(key),
    permits: () => false,
  });
  const links: RelayLink[] = [];
  const mesh = { find: () => undefined, links: () => links, present: () => {} };
  const one = setup(t, { policy: policyOf(knownHere), mesh });
  const two = setup(t, { policy: policyOf(knownThere) });
  const [from, to, there] = [await one.client(), await two.client(), await two.client(node)];
  const send = async (destination: Uint8Array, packet: Buffer, count = 1, source: typeof from = from) => {
    for (let n = 0; n < count; n++) source.stream.write(encodeSend(destination, packet));
    const before = source.of(FRAME.pong).length;
    source.stream.write(encodeFrame(FRAME.ping, Buffer.alloc(8)));
    await source.frame(FRAME.pong, before);
  };
  await send(to.keys.publicKey, Buffer.from('nowhere'));
  assert.equal(one.relay.stats().dropped.absent, 1, 'without other relays');

  const [near, far] = duplexPair();
  links.push(one.relay.openLink(near));
  two.relay.acceptLink(far);
  await send(to.keys.publicKey, Buffer.from('check'));
  const received = decodePacket(await to.frame(FRAME.receive));
  assert.deepEqual([received.key, received.packet.toString()], [from.keys.publicKey, 'check']);
  // the other relay knows more: the node's key, and then the stranger's
  await send(node.publicKey, Buffer.from('x'));
  await eventually(() => two.relay.stats().dropped.denied === 1, 'the denial');
  knownThere.add(hex(from.keys.publicKey)!);
  await send(to.keys.publicKey, Buffer.from('x'));
  await eventually(() => two.relay.stats().dropped.denied === 2, 'the denial');
  knownThere.delete(hex(from.keys.publicKey)!);
  // this one knows the destination
  knownHere.add(hex(node.publicKey)!);
  await send(node.publicKey, Buffer.from('x'));
  assert.equal(one.relay.stats().packetsToRelays, 3);
  // nodes learn immediately that another one is absent
  await send(nobody, DISCO);
  assert.equal(decodePeerGone(await from.frame(FRAME.peerGone)).reason, GONE.notHere);
  assert.equal(one.relay.stats().packetsToRelays, 3);

  await send(to.keys.publicKey, Buffer.from('x'), 100);
  await to.frame(FRAME.receive, 61);
  assert.deepEqual([one.relay.stats().packetsToRelays, one.relay.stats().dropped.budget], [64, 39], 'of one stranger');
  for (let n = 0; n < 4; n++) await send(to.keys.publicKey, Buffer.from('x'), 64, await one.client());
  assert.equal(one.relay.stats().packetsToRelays, 256, 'of all strangers');
  one.clock.now += 500;
  await send(to.keys.publicKey, Buffer.from('x'), 64, await one.client());
  assert.equal(one.relay.stats().packetsToRelays, 288);
  assert.equal(there.of(FRAME.receive).length, 0);
});

test('what a client sends waits until the policy has judged its key, and arrives in order', async (t) => {
  const judgments = new Map<string, PromiseWithResolvers<void>>();
  const judged = new Set<string>();
  const departed: string[] = [];
  const policy: RelayPolicy = {
    introduced: (key) => judged.has(key),
    owned: () => true,
    permits: (source, destination) => judged.has(source) && judged.has(destination),
    arrived: (key) => {
      const judgment = Promise.withResolvers<void>();
      judgments.set(key, judgment);
      return judgment.promise;
    },
    departed: (key) => departed.push(key),
  };
  const { relay, client, connect } = setup(t, { policy });
  const judge = (keys: KeyPair, isNode = true) => {
    if (isNode) judged.add(hex(keys.publicKey)!);
    judgments.get(hex(keys.publicKey)!)!.resolve();
  };
  const [a, b] = [await client(), await client()];
  judge(b.keys);
  const again = await client(a.keys);
  for (let i = 0; i < 3; i++) a.stream.write(encodeSend(b.keys.publicKey, Buffer.from([i])));
  again.stream.write(encodeSend(b.keys.publicKey, Buffer.from([9])));
  // the stream is not read meanwhile: other clients are served
  b.stream.write(encodeFrame(FRAME.ping, Buffer.alloc(8)));
  await b.frame(FRAME.pong);
  assert.deepEqual([b.of(FRAME.receive), relay.stats().packetsReceived], [[], 0]);
  judge(a.keys);
  await b.frame(FRAME.receive, 3);
  const packets = b.of(FRAME.receive).map((frame) => decodePacket(frame).packet[0]);
  assert.deepEqual(
    packets.filter((packet) => packet !== 9),
    [0, 1, 2],
  );
  a.stream.write(encodeSend(b.keys.publicKey, Buffer.from([3])));
  await b.frame(FRAME.receive, 4);

  // packets that come together with the sign-in are held, and the next ones follow them
  const fresh = Object.assign(connect(), { keys: KeyPair.generate() });
  const numbered = (i: number) => encodeSend(b.keys.publicKey, Buffer.from([i]));
  await fresh.signIn(fresh.keys, numbered(20), numbered(21), encodeFrame(FRAME.ping, Buffer.alloc(8)));
  fresh.stream.write(numbered(22));
  await turn();
  assert.deepEqual([b.of(FRAME.receive).length, fresh.of(FRAME.pong).length], [5, 0]);
  judge(fresh.keys);
  await b.frame(FRAME.receive, 7);
  assert.deepEqual(
    b
      .of(FRAME.receive)
      .map((frame) => decodePacket(frame).packet[0]!)
      .filter((packet) => packet >= 20),
    [20, 21, 22],
  );
  await fresh.frame(FRAME.pong);

  // one that breaks the protocol meanwhile, and one that goes
  const bad = await client();
  bad.stream.write(encodeFrame(FRAME.watch));
  await turn();
  judge(bad.keys, false);
  assert.equal((await bad.closed).end, 'protocol');
  const gone = Object.assign(connect(), { keys: KeyPair.generate() });
  await gone.signIn(gone.keys, numbered(4));
  // it ends before its key is judged, because newer connections have the key
  const newer = [await client(gone.keys), await client(gone.keys), await client(gone.keys), await client(gone.keys)];
  assert.equal((await gone.closed).end, 'limit');
  judge(gone.keys);
  newer[3]!.stream.write(encodeFrame(FRAME.ping, Buffer.alloc(8)));
  await newer[3]!.frame(FRAME.pong);
  for (const { stream, closed } of newer) {
    stream.destroy();
    await closed;
  }
  assert.equal(b.of(FRAME.receive).length, 8, 'nothing of a client that is gone');
  assert.deepEqual(departed, [hex(bad.keys.publicKey), hex(gone.keys.publicKey)]);
  a.stream.destroy();
  await a.closed;
  assert.equal(departed.length, 2, 'another connection has its key');
  again.stream.destroy();
  await again.closed;
  assert.equal(departed[2], hex(a.keys.publicKey));
});
