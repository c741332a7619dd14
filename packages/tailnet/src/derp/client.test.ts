import assert from 'node:assert/strict';
import { type Duplex, duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { eventually, seededRandom, socketPair } from '@ropewalk/wire/testing/sockets';
import { KeyPair } from '../keys.ts';
import { RawClient } from '../testing/derp.ts';
import { fromHex, hex } from '../testing/vectors.ts';
import { DerpClient, type DerpClientOptions } from './client.ts';
import {
  decodeClientInfo,
  encodeFrame,
  encodePeerGone,
  encodeRestarting,
  encodeServerInfo,
  encodeServerKey,
  FRAME,
  GONE,
} from './frames.ts';
import { DerpRelay } from './relay.ts';

function relayOf(t: TestContext): DerpRelay {
  const relay = new DerpRelay({ policy: { introduced: () => true, permits: () => true } });
  t.after(() => relay.close());
  return relay;
}

function clientOf(t: TestContext, stream: Duplex, options: Partial<DerpClientOptions> = {}) {
  const keys = options.keys ?? KeyPair.generate();
  const packets: { source: string; packet: string }[] = [];
  const client = new DerpClient(stream, {
    keys,
    onPacket: (source, packet) => packets.push({ source: hex(source)!, packet: packet.toString() }),
    ...options,
  });
  t.after(() => client.close());
  return { client, keys, packets };
}

/** A client whose relay is this test: it reads and writes raw frames. */
async function scripted(t: TestContext, options: Partial<DerpClientOptions> = {}) {
  const [near, far] = duplexPair();
  const relay = new RawClient(far);
  const relayKeys = KeyPair.generate();
  const clock = { now: 0 };
  const made = clientOf(t, near, { clock: { monotonic: () => clock.now }, ...options });
  const signIn = async () => {
    far.write(encodeServerKey(relayKeys.publicKey));
    const { key, box, info } = decodeClientInfo(relayKeys, await relay.frame(FRAME.clientInfo));
    far.write(encodeServerInfo(box, {}));
    await made.client.ready;
    return { key, info };
  };
  return { ...made, relay, far, relayKeys, clock, signIn };
}

test('two clients exchange packets over a relay', async (t) => {
  const relay = relayOf(t);
  const [[nearA, farA], [nearB, farB]] = [await socketPair(t), await socketPair(t)];
  void relay.accept(farA);
  void relay.accept(farB);
  const gone: string[] = [];
  const a = clientOf(t, nearA, { relayKey: relay.publicKey });
  const b = clientOf(t, nearB, { onPeerGone: (key, reason) => gone.push(`${hex(key)} ${reason}`) });
  assert.equal(a.client.send(b.keys.publicKey, Buffer.from('too early')), false);
  await Promise.all([a.client.ready, b.client.ready]);
  for (let i = 0; i < 20; i++) assert.equal(a.client.send(b.keys.publicKey, Buffer.from(`${i}`)), true);
  b.client.send(a.keys.publicKey, Buffer.from('back'));
  await eventually(() => b.packets.length === 20 && a.packets.length === 1, 'all packets');
  const source = hex(a.keys.publicKey)!;
  assert.deepEqual(
    b.packets,
    Array.from({ length: 20 }, (_, i) => ({ source, packet: `${i}` })),
  );
  assert.ok((await a.client.ping()) >= 0);
  a.client.notePreferred(true);
  await eventually(() => relay.stats().homes === 1, 'the preference');
  a.client.close();
  assert.equal(await a.client.closed, undefined);
  await eventually(() => gone.length === 1, 'the end of a');
  assert.deepEqual(gone, [`${source} ${GONE.disconnected}`]);
  assert.equal(a.client.send(b.keys.publicKey, Buffer.from('too late')), false);
  assert.equal(a.client.dropped, 2);
  relay.close();
  await b.client.closed;
});

test('answers pings, and reports health, absent peers and restarts', async (t) => {
  const seen: unknown[] = [];
  const { far, relay, signIn, keys } = await scripted(t, {
    isProber: true,
    onHealth: (problem) => seen.push(problem),
    onPeerGone: (key, reason) => seen.push(hex(key), reason),
    onRestart: (restart) => seen.push(restart),
  });
  const { key, info } = await signIn();
  assert.equal(hex(key), hex(keys.publicKey));
  assert.deepEqual(info, { canAckPings: true, isProber: true });
  far.write(encodeFrame(FRAME.health, Buffer.from('trouble')));
  far.write(encodePeerGone(Buffer.alloc(32, 7), GONE.notHere));
  far.write(encodeRestarting({ reconnectInMs: 1, tryForMs: 2 }));
  far.write(encodeFrame(FRAME.keepAlive));
  far.write(encodeFrame(0x66, Buffer.alloc(9)));
  far.write(encodeFrame(FRAME.ping, fromHex('0102030405060708')));
  assert.equal(hex(await relay.frame(FRAME.pong)), '13000000080102030405060708');
  assert.deepEqual(seen, ['trouble', '07'.repeat(32), 1, { reconnectInMs: 1, tryForMs: 2 }]);
});

test('rejects another relay, a relay without its key, and a broken sign-in', async (t) => {
  const wrongKey = await scripted(t, { relayKey: Buffer.alloc(32, 1) });
  wrongKey.far.write(encodeServerKey(wrongKey.relayKeys.publicKey));
  await assert.rejects(wrongKey.client.ready, { name: 'DerpError', code: 'unauthenticated' });
  const pretender = await scripted(t);
  pretender.far.write(encodeServerKey(pretender.relayKeys.publicKey));
  await pretender.relay.frame(FRAME.clientInfo);
  pretender.far.write(encodeFrame(FRAME.serverInfo, Buffer.alloc(60)));
  await assert.rejects(pretender.client.ready, { code: 'unauthenticated' });
  for (const frame of [encodeServerKey(Buffer.alloc(32)), encodeFrame(FRAME.keepAlive), encodeFrame(FRAME.serverKey)]) {
    const broken = await scripted(t);
    broken.far.write(frame);
    assert.equal((await broken.client.closed)?.code, 'protocol');
  }
  const twice = await scripted(t);
  await twice.signIn();
  twice.far.write(encodeFrame(FRAME.serverInfo));
  assert.equal((await twice.client.closed)?.code, 'protocol');
});

test('ends when the relay is silent, and pings end with it', async (t) => {
  const late = await scripted(t);
  late.clock.now = 10_001;
  late.client.tick();
  await assert.rejects(late.client.ready, { code: 'timeout' });
  const silent = await scripted(t);
  await silent.signIn();
  silent.clock.now = 119_000;
  silent.far.write(encodeFrame(FRAME.keepAlive));
  await new Promise((resolve) => setImmediate(resolve));
  silent.clock.now = 238_000;
  silent.client.tick();
  const pings = Array.from({ length: 16 }, () => silent.client.ping());
  await assert.rejects(silent.client.ping(), { code: 'timeout' });
  silent.clock.now = 239_001;
  silent.client.tick();
  assert.equal((await silent.client.closed)?.code, 'timeout');
  for (const ping of pings) await assert.rejects(ping, { code: 'timeout' });
  await assert.rejects(silent.client.ping(), { code: 'closed' });
});

test('pings without an answer fail after 10 s and leave room for others', async (t) => {
  const { client, clock, relay, signIn } = await scripted(t);
  await signIn();
  const pings = Array.from({ length: 16 }, () => client.ping());
  clock.now = 10_001;
  client.tick();
  for (const ping of pings) await assert.rejects(ping, { code: 'timeout' });
  const late = client.ping();
  const answer = await relay.frame(FRAME.ping, 16);
  answer[0] = FRAME.pong;
  relay.stream.write(answer);
  assert.equal(await late, 0);
});

test('drops packets while the connection is slow', async (t) => {
  const { client, far, signIn } = await scripted(t);
  await signIn();
  far.pause();
  const results = Array.from({ length: 100 }, () => client.send(Buffer.alloc(32), Buffer.alloc(60_000)));
  const sent = results.filter(Boolean).length;
  assert.ok(sent > 5 && sent < 15, `${sent}`);
  assert.equal(client.dropped, 100 - sent);
});

test('arbitrary frames of a hostile relay end the connection with a DerpError, or have no effect', async (t) => {
  const codes = new Set<string | undefined>();
  for (let seed = 1; seed <= 100; seed++) {
    const random = seededRandom(seed);
    const { client, far, signIn } = await scripted(t);
    await signIn();
    for (let i = 0; i < 20; i++) {
      const payload = Buffer.from(Array.from({ length: random(60) }, () => random(256)));
      const frame = encodeFrame(random(0x18), payload);
      if (random(5) === 0) frame[random(frame.length)]! ^= 1 << random(8);
      far.write(frame);
    }
    far.end();
    codes.add((await client.closed)?.code);
  }
  assert.ok(codes.has('protocol'), [...codes].join());
  for (const code of codes) assert.ok([undefined, 'protocol', 'unauthenticated'].includes(code), String(code));
});
