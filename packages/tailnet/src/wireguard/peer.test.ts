import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { KeyPair } from '../keys.ts';
import { hex } from '../testing/vectors.ts';
import { MESSAGE } from './handshake.ts';
import { type Load, Peer, type PeerOptions } from './peer.ts';
import { REPLAY_WINDOW, ReplayWindow } from './replay-window.ts';
import { KEEPALIVE_BYTES, MAX_PACKET_BYTES, MTU, trimPacket } from './session.ts';

type Name = 'a' | 'b';

/** Two peers on one network with a delay of 10 ms, in virtual time. */
class Network {
  now = 1_000;
  /** Added to the time of day, in ms. */
  setForward = 0;
  /** What passes: every message by default. */
  passes: (from: Name, message: Buffer) => boolean = () => true;
  load: Load | undefined;
  onHandshake: (name: Name) => void = () => {};
  /** Every message that was sent, as `a initiation 148`. */
  log: string[] = [];
  readonly sent: { from: Name; message: Buffer }[] = [];
  readonly received: Record<Name, Buffer[]> = { a: [], b: [] };
  readonly handshakes: Record<Name, number> = { a: 0, b: 0 };
  readonly keys: Record<Name, KeyPair> = { a: KeyPair.generate(), b: KeyPair.generate() };
  readonly peers: Record<Name, Peer>;
  #inFlight: { to: Name; at: number; message: Buffer }[] = [];

  constructor() {
    this.peers = { a: this.#peer('a', 'b'), b: this.#peer('b', 'a') };
  }

  #peer(from: Name, to: Name): Peer {
    const options: PeerOptions = {
      keys: this.keys[from],
      peer: this.keys[to].publicKey,
      clock: { monotonic: () => this.now, now: () => new Date(1_700_000_000_000 + this.now + this.setForward) },
      random: () => 0.5,
      onMessage: (message) => {
        const type = Object.entries(MESSAGE).find(([, number]) => number === message[0])![0];
        this.log.push(`${from} ${type} ${message.length}`);
        this.sent.push({ from, message: Buffer.from(message) });
        if (this.passes(from, message)) this.#inFlight.push({ to, at: this.now + 10, message });
      },
      onPacket: (packet) => this.received[from].push(packet),
      onHandshake: () => {
        this.handshakes[from]++;
        this.onHandshake(from);
      },
    };
    return Peer.create(options)!;
  }

  /** Lets time pass: messages arrive and timers fire when they are due. */
  advance(ms: number): void {
    const end = this.now + ms;
    for (;;) {
      const due = Math.min(this.peers.a.dueAt, this.peers.b.dueAt, ...this.#inFlight.map(({ at }) => at));
      if (due > end) break;
      this.now = Math.max(this.now, due);
      const arrived = this.#inFlight.filter(({ at }) => at <= this.now);
      this.#inFlight = this.#inFlight.filter(({ at }) => at > this.now);
      for (const { to, message } of arrived) this.peers[to].receive(message, this.load);
      for (const peer of Object.values(this.peers)) if (peer.dueAt <= this.now) peer.tick();
    }
    this.now = end;
  }

  /** The log since the last call. */
  takeLog(): string[] {
    const log = this.log;
    this.log = [];
    return log;
  }

  /** Establishes a session that `a` initiated. */
  connect(): void {
    this.peers.a.send(ipv6(100));
    this.advance(50);
    assert.equal(this.received.b.length, 1);
    this.takeLog();
  }
}

/** An IPv6 packet of this many bytes. */
function ipv6(length: number, fill = 0): Buffer {
  const packet = Buffer.alloc(length, fill);
  packet[0] = 0x60;
  packet.writeUInt16BE(length - 40, 4);
  return packet;
}

test('the first packet begins a handshake and follows it', () => {
  const net = new Network();
  assert.equal(net.peers.a.dueAt, Number.POSITIVE_INFINITY);
  net.peers.a.send(ipv6(49, 7));
  net.peers.a.send(ipv6(MTU, 8));
  net.advance(50);
  assert.deepEqual(net.takeLog(), ['a initiation 148', 'b response 92', 'a data 96', 'a data 1312']);
  assert.deepEqual(net.received.b, [ipv6(49, 7), ipv6(MTU, 8)]);
  net.peers.b.send(ipv6(60));
  net.advance(50);
  assert.deepEqual(net.takeLog(), ['b data 96']);
  assert.deepEqual(net.received.a, [ipv6(60)]);
  assert.deepEqual(net.handshakes, { a: 1, b: 1 });
  assert.equal(net.peers.a.stats.handshakeAt?.getTime(), 1_700_000_001_020);
  assert.equal(net.peers.a.stats.bytesReceived, 92 + 96);
  net.peers.a.send(ipv6(MAX_PACKET_BYTES, 9));
  net.advance(50);
  assert.deepEqual(net.received.b.at(-1), ipv6(MAX_PACKET_BYTES, 9));
  assert.equal(net.peers.a.send(Buffer.alloc(MAX_PACKET_BYTES + 1)), false);
});

test('without a packet to send, an initiator confirms the session with a keepalive', () => {
  const net = new Network();
  net.peers.a.initiate();
  net.peers.a.initiate();
  net.advance(50);
  assert.deepEqual(net.takeLog(), ['a initiation 148', 'b response 92', `a data ${KEEPALIVE_BYTES}`]);
  assert.deepEqual(net.received.b, []);
});

test('a responder sends nothing in a session that the initiator has not confirmed', () => {
  const net = new Network();
  net.passes = (_from, message) => message[0] !== MESSAGE.data;
  net.peers.a.initiate();
  net.advance(30);
  net.takeLog();
  net.peers.b.send(ipv6(60));
  net.advance(1_000);
  assert.deepEqual(net.takeLog(), ['b initiation 148', 'a response 92', `b data ${KEEPALIVE_BYTES + 64}`]);
  assert.deepEqual(net.handshakes, { a: 1, b: 1 });
});

test('a handshake without an answer is retried after 1, 2 and then every 5 s, and given up after 90 s', () => {
  const net = new Network();
  net.passes = () => false;
  net.peers.a.send(ipv6(60));
  const start = net.now;
  const times: number[] = [];
  let count = 0;
  while (net.peers.a.dueAt < Number.POSITIVE_INFINITY) {
    net.advance(net.peers.a.dueAt - net.now);
    if (net.log.length === count) break;
    count = net.log.length;
    times.push(net.now - start);
  }
  const expected = [1_167, 3_334, 8_501, 13_668];
  assert.deepEqual(times.slice(0, 4), expected);
  assert.equal(times.length, 18);
  assert.equal(net.peers.a.stats.dropped, 1);
  assert.equal(net.peers.a.dueAt, Number.POSITIVE_INFINITY);
  net.passes = () => true;
  net.peers.a.send(ipv6(61));
  net.advance(50);
  assert.deepEqual(net.received.b, [ipv6(61)]);
  // the next series begins soon again
  net.advance(200_000);
  net.passes = () => false;
  net.takeLog();
  net.peers.a.send(ipv6(62));
  net.advance(1_200);
  assert.deepEqual(net.takeLog(), ['a initiation 148', 'a initiation 148']);
});

test('at most 128 packets wait for a session, and the oldest are dropped', () => {
  const net = new Network();
  net.passes = () => false;
  for (let i = 0; i < 200; i++) net.peers.a.send(ipv6(60, i));
  assert.equal(net.peers.a.stats.dropped, 72);
  net.passes = () => true;
  net.advance(6_000);
  assert.deepEqual(
    net.received.b,
    Array.from({ length: 128 }, (_, i) => ipv6(60, 72 + i)),
  );
});

test('two initiations that cross give a working session in both directions', () => {
  const net = new Network();
  net.peers.a.send(ipv6(60, 1));
  net.peers.b.send(ipv6(60, 2));
  net.advance(100);
  net.peers.a.send(ipv6(60, 3));
  net.peers.b.send(ipv6(60, 4));
  net.advance(100);
  assert.deepEqual(net.received, { a: [ipv6(60, 2), ipv6(60, 4)], b: [ipv6(60, 1), ipv6(60, 3)] });
  assert.ok(net.takeLog().filter((line) => line.includes('initiation')).length === 2);
});

test('the initiator replaces the session after 120 s when it sends, and no packet is lost', () => {
  const net = new Network();
  net.connect();
  net.advance(119_900);
  net.takeLog();
  net.peers.a.send(ipv6(60, 1));
  assert.deepEqual(net.takeLog(), ['a data 96']);
  net.advance(200);
  net.peers.b.send(ipv6(60, 2));
  assert.deepEqual(net.takeLog(), ['b data 96'], 'only the initiator replaces it');
  net.peers.a.send(ipv6(60, 3));
  assert.deepEqual(net.takeLog(), ['a data 96', 'a initiation 148']);
  for (let i = 4; i < 10; i++) {
    net.advance(5);
    net.peers.a.send(ipv6(60, i));
    net.peers.b.send(ipv6(60, i));
  }
  net.advance(50);
  assert.equal(net.handshakes.b, 2);
  assert.deepEqual(
    net.received.b.slice(1),
    [1, 3, 4, 5, 6, 7, 8, 9].map((fill) => ipv6(60, fill)),
  );
  assert.deepEqual(
    net.received.a,
    [2, 4, 5, 6, 7, 8, 9].map((fill) => ipv6(60, fill)),
  );
});

test('an initiator that only receives replaces the session after 165 s', () => {
  const net = new Network();
  net.connect();
  net.advance(164_900);
  net.takeLog();
  net.peers.b.send(ipv6(60));
  net.advance(20);
  assert.deepEqual(net.takeLog(), ['b data 96']);
  net.advance(200);
  net.peers.b.send(ipv6(60));
  net.advance(20);
  assert.deepEqual(net.takeLog(), ['b data 96', 'a initiation 148', 'b response 92']);
});

test('after 180 s a session neither sends nor receives', () => {
  const net = new Network();
  net.connect();
  net.passes = (_from, message) => message[0] === MESSAGE.data;
  net.advance(170_000);
  net.peers.b.send(ipv6(60, 1));
  net.advance(20);
  assert.equal(net.received.a.length, 1);
  net.passes = () => false;
  net.peers.b.send(ipv6(60, 3));
  const late = net.sent.at(-1)!.message;
  net.advance(10_000);
  net.takeLog();
  net.peers.b.send(ipv6(60, 2));
  assert.deepEqual(net.takeLog(), ['b initiation 148']);
  const { rejected } = net.peers.a.stats;
  net.peers.a.receive(late);
  assert.equal(net.peers.a.stats.rejected, rejected + 1);
  assert.equal(net.received.a.length, 1);
});

test('a receiver that has nothing to send sends one keepalive after 10 s', () => {
  const net = new Network();
  net.connect();
  const start = net.now;
  net.advance(9_900);
  assert.deepEqual(net.takeLog(), []);
  net.advance(200);
  assert.deepEqual(net.takeLog(), [`b data ${KEEPALIVE_BYTES}`]);
  net.advance(60_000);
  assert.deepEqual(net.takeLog(), []);
  assert.equal(net.handshakes.a, 1, `since ${start}`);
  net.peers.a.send(ipv6(60));
  net.advance(1_000);
  net.peers.a.send(ipv6(60));
  net.advance(60_000);
  assert.deepEqual(
    net.takeLog().slice(2),
    Array.from({ length: 2 }, () => `b data ${KEEPALIVE_BYTES}`),
  );
});

test('a sender without any answer for 15 s begins a new handshake', () => {
  const net = new Network();
  net.connect();
  net.advance(20_000);
  net.takeLog();
  net.passes = (from) => from === 'a';
  net.peers.a.send(ipv6(60));
  net.advance(15_000);
  assert.deepEqual(net.takeLog(), ['a data 96', `b data ${KEEPALIVE_BYTES}`]);
  net.advance(400);
  assert.deepEqual(net.takeLog(), ['a initiation 148', 'b response 92']);
  net.passes = () => true;
  net.advance(6_000);
  assert.equal(net.handshakes.a, 2);
});

test('a session is renewed on demand, and attempts before that do not count', () => {
  const net = new Network();
  net.connect();
  const { a } = net.peers;
  net.takeLog();
  a.renew();
  a.renew();
  net.advance(50);
  const keepalive = `a data ${KEEPALIVE_BYTES}`;
  assert.deepEqual(net.takeLog(), ['a initiation 148', 'b response 92', keepalive]);
  net.passes = () => false;
  a.renew();
  net.advance(80_000);
  a.renew();
  net.advance(80_000);
  net.passes = () => true;
  net.takeLog();
  net.advance(6_000);
  assert.deepEqual(net.takeLog(), ['a initiation 148', 'b response 92', keepalive]);
});

test('keepalives are sent persistently if they are set', () => {
  const net = new Network();
  net.peers.a.setPersistentKeepalive(25_000);
  net.advance(24_999);
  assert.deepEqual(net.takeLog(), []);
  net.advance(100);
  assert.deepEqual(net.takeLog(), ['a initiation 148', 'b response 92', `a data ${KEEPALIVE_BYTES}`]);
  net.advance(100_500);
  assert.deepEqual(
    net.takeLog().slice(0, 4),
    Array.from({ length: 4 }, () => `a data ${KEEPALIVE_BYTES}`),
  );
  net.peers.a.setPersistentKeepalive(0);
  net.advance(30_000);
  net.takeLog();
  net.advance(60_000);
  assert.deepEqual(net.takeLog(), []);
});

test('keys are forgotten after 540 s, or when the peer stops', () => {
  const net = new Network();
  net.connect();
  net.advance(530_000);
  assert.equal(net.peers.a.stats.sessions, 1);
  net.advance(20_000);
  assert.deepEqual([net.peers.a.stats.sessions, net.peers.b.stats.sessions], [0, 0]);
  net.advance(60_000);
  assert.equal(net.peers.a.dueAt, Number.POSITIVE_INFINITY);
  assert.equal(net.peers.b.dueAt, Number.POSITIVE_INFINITY);
  net.peers.a.send(ipv6(60, 9));
  net.advance(50);
  assert.deepEqual(net.received.b.at(-1), ipv6(60, 9));
  net.peers.b.setPersistentKeepalive(1_000);
  net.peers.b.stop();
  assert.equal(net.peers.b.dueAt, Number.POSITIVE_INFINITY);
  const count = net.received.b.length;
  net.peers.a.send(ipv6(60, 10));
  net.advance(50);
  assert.equal(net.received.b.length, count);
  assert.equal(net.peers.b.stats.rejected > 0, true);
});

test('a peer that its owner stops during the handshake stays stopped', () => {
  for (const name of ['a', 'b'] as const) {
    const net = new Network();
    net.onHandshake = (completed) => {
      if (completed === name) net.peers[name].stop();
    };
    net.peers.a.send(ipv6(60));
    net.advance(100);
    assert.equal(net.peers[name].stats.sessions, 0);
    assert.equal(net.peers[name].dueAt, Number.POSITIVE_INFINITY);
    assert.deepEqual(net.received[name], []);
  }
});

test('a peer that started again is reached without waiting for the old session to expire', () => {
  const net = new Network();
  net.connect();
  net.peers.b.stop();
  net.peers.b.send(ipv6(60, 5));
  net.advance(50);
  assert.deepEqual(net.received.a, [ipv6(60, 5)]);
  net.peers.a.send(ipv6(60, 6));
  net.advance(50);
  assert.deepEqual(net.received.b.at(-1), ipv6(60, 6));
});

test('replayed messages have no effect', () => {
  const net = new Network();
  net.connect();
  net.peers.b.send(ipv6(60));
  net.advance(100);
  net.takeLog();
  const received = { a: net.received.a.length, b: net.received.b.length };
  for (const { from, message } of [...net.sent]) net.peers[from === 'a' ? 'b' : 'a'].receive(message);
  net.advance(100);
  assert.deepEqual(net.takeLog(), []);
  assert.deepEqual({ a: net.received.a.length, b: net.received.b.length }, received);
  assert.deepEqual(net.handshakes, { a: 1, b: 1 });
});

test('initiations are answered at most every 20 ms', () => {
  const net = new Network();
  const initiations: Buffer[] = [];
  net.passes = () => false;
  for (let i = 0; i < 3; i++) {
    net.advance(5_400 * i);
    net.peers.a.initiate();
    initiations.push(net.sent.filter(({ from }) => from === 'a').at(-1)!.message);
  }
  net.takeLog();
  for (const message of initiations) net.peers.b.receive(message);
  assert.deepEqual(net.takeLog(), ['b response 92']);
  net.advance(20);
  net.peers.b.receive(initiations[0]!);
  assert.deepEqual(net.takeLog(), [], 'an older one');
  net.peers.b.receive(initiations[2]!);
  assert.deepEqual(net.takeLog(), ['b response 92']);
});

test('under load a handshake needs a cookie', () => {
  const net = new Network();
  net.load = { source: Buffer.from('192.0.2.1:5') };
  net.peers.a.send(ipv6(60));
  net.advance(100);
  assert.deepEqual(net.takeLog(), ['a initiation 148', 'b cookieReply 64']);
  net.advance(1_200);
  assert.deepEqual(net.takeLog(), ['a initiation 148', 'b response 92', 'a cookieReply 64']);
  net.load = undefined;
  net.advance(5_200);
  assert.deepEqual(net.received.b, [ipv6(60)]);
});

test('messages of other keys, and a public key that cannot share a secret, are rejected', () => {
  const net = new Network();
  const stranger = new Network();
  stranger.peers.a.send(ipv6(60));
  const impostor = Peer.create({
    keys: KeyPair.generate(),
    peer: net.keys.b.publicKey,
    onMessage: (message) => net.peers.b.receive(message),
    onPacket: () => assert.fail(),
  })!;
  impostor.send(ipv6(60));
  net.peers.b.receive(stranger.sent[0]!.message);
  assert.equal(net.peers.b.stats.rejected, 2);
  assert.deepEqual(net.takeLog(), []);
  impostor.stop();
  const weak = { keys: KeyPair.generate(), peer: Buffer.alloc(32), onMessage: () => {}, onPacket: () => {} };
  assert.equal(Peer.create(weak), undefined);
});

test('a handshake message with a wrong first MAC is rejected', () => {
  const net = new Network();
  net.passes = () => false;
  net.peers.a.initiate();
  const { message } = net.sent[0]!;
  const wrong = Buffer.from(message);
  wrong[120]! ^= 1;
  net.peers.b.receive(wrong);
  assert.equal(net.peers.b.stats.rejected, 1);
  net.peers.b.receive(message);
  assert.equal(net.peers.b.stats.rejected, 1);
});

test('a clock that is set back does not stop handshakes', () => {
  const net = new Network();
  net.connect();
  net.advance(200_000);
  net.setForward = -300_000;
  const { a } = net.peers;
  a.stop();
  a.send(ipv6(60, 3));
  net.advance(50);
  assert.deepEqual(net.received.b.at(-1), ipv6(60, 3));
});

test('arbitrary, damaged and truncated messages are rejected without an error', () => {
  const net = new Network();
  net.connect();
  net.peers.b.send(ipv6(60));
  net.advance(50);
  const messages = net.sent.map(({ message }) => message);
  for (let seed = 1; seed <= 500; seed++) {
    const random = seededRandom(seed);
    const message = Buffer.from(messages[random(messages.length)]!);
    message[random(message.length)]! ^= 1 << random(8);
    const arbitrary = Buffer.from(Array.from({ length: random(200) }, () => random(256)));
    if (arbitrary.length >= 4) arbitrary.writeUInt32LE(1 + random(4), 0);
    for (const input of [message, message.subarray(0, random(message.length)), arbitrary])
      for (const peer of Object.values(net.peers)) {
        const before = peer.stats.rejected;
        peer.receive(input);
        assert.equal(peer.stats.rejected, before + 1, `seed ${seed}: ${hex(input)}`);
      }
  }
  net.peers.a.send(ipv6(60, 77));
  net.advance(50);
  assert.deepEqual(net.received.b.at(-1), ipv6(60, 77));
});

test('on a network that loses and reorders a third of all messages, packets arrive at most once', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seededRandom(seed * 977);
    const net = new Network();
    net.passes = () => random(3) > 0;
    for (let i = 0; i < 300; i++) {
      net.peers.a.send(ipv6(60, i));
      if (i % 3 === 0) net.peers.b.send(ipv6(60, i));
      net.advance(random(3) ? random(50) : random(3_000));
      const { from, message } = net.sent[random(net.sent.length)]!;
      net.peers[from === 'a' ? 'b' : 'a'].receive(Buffer.from(message));
    }
    assert.ok(net.received.b.length > 150 && net.received.b.length <= 300, `seed ${seed}: ${net.received.b.length}`);
    assert.ok(net.received.a.length > 40 && net.received.a.length <= 100, `seed ${seed}: ${net.received.a.length}`);
  }
});

test('padding is removed by the length in the packet, and damaged packets are dropped', () => {
  const padded = Buffer.concat([ipv6(50), Buffer.alloc(14)]);
  assert.deepEqual(trimPacket(padded), ipv6(50));
  const ipv4 = Buffer.alloc(32);
  ipv4[0] = 0x45;
  ipv4.writeUInt16BE(21, 2);
  assert.equal(trimPacket(ipv4)!.length, 21);
  ipv4.writeUInt16BE(33, 2);
  assert.equal(trimPacket(ipv4), undefined);
  ipv4.writeUInt16BE(19, 2);
  assert.equal(trimPacket(ipv4), undefined);
  assert.equal(trimPacket(ipv6(50).subarray(0, 49)), undefined);
  assert.equal(trimPacket(Buffer.alloc(60)), undefined);
  assert.equal(trimPacket(Buffer.alloc(0)), undefined);
  assert.equal(trimPacket(Buffer.from([0x60])), undefined);
});

test('the window accepts each counter once, and none that is too old', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seededRandom(seed);
    const window = new ReplayWindow();
    const seen = new Set<number>();
    let newest = -1;
    let counter = 0;
    for (let i = 0; i < 5_000; i++) {
      const jump = random(100);
      counter = jump === 0 ? newest + random(20_000) : Math.max(0, newest + 200 - random(jump < 10 ? 9_000 : 400));
      const expected = !seen.has(counter) && newest - counter <= REPLAY_WINDOW;
      assert.equal(window.accept(counter), expected, `seed ${seed}: ${counter} after ${newest}`);
      seen.add(counter);
      newest = Math.max(newest, counter);
    }
  }
  const window = new ReplayWindow();
  assert.deepEqual(
    [0, 0, REPLAY_WINDOW, 0].map((counter) => window.accept(counter)),
    [true, false, true, false],
  );
  assert.deepEqual(
    [1, REPLAY_WINDOW + 2, 2, 1].map((counter) => window.accept(counter)),
    [true, true, true, false],
  );
  assert.equal(window.accept(Number.MAX_SAFE_INTEGER), true);
  assert.equal(window.accept(Number.MAX_SAFE_INTEGER - REPLAY_WINDOW), true);
  assert.equal(window.accept(Number.MAX_SAFE_INTEGER - REPLAY_WINDOW - 1), false);
});
