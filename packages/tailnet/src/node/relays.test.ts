import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@ropewalk/kit';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { DerpRelay } from '../derp/relay.ts';
import { KeyPair } from '../keys.ts';
import { mapOf } from '../testing/relay-server.ts';
import { hex } from '../testing/vectors.ts';
import { Relays } from './relays.ts';

/** Connections to relays in memory. The test sets the time and decides when attempts succeed. */
function setUp(t: TestContext) {
  const clock = { now: 0, monotonic: () => clock.now };
  const policy = { introduced: () => true, permits: () => true };
  const state = { relay: new DerpRelay({ policy }), attempts: 0, isUp: true, silence: () => {} };
  const received: string[] = [];
  const make = () => {
    const keys = KeyPair.generate();
    const relays = new Relays({
      ...{ keys, clock, random: () => 1, log: silentLogger, forceWebSockets: false },
      dial: async () => {
        state.attempts++;
        if (!state.isUp) throw new Error('refused');
        const [near, outer] = duplexPair();
        const [inner, far] = duplexPair();
        outer.pipe(inner).pipe(outer);
        state.silence = () => void outer.unpipe(inner);
        void state.relay.accept(far);
        return near;
      },
      onPacket: (region, source, packet) => received.push(`${region} ${hex(source)} ${packet}`),
      ...{ onPeerGone: () => {}, onChange: () => {}, onOpen: () => {}, onDue: () => {} },
    });
    relays.setMap(mapOf({ 1: 'http://a.example', 2: 'http://b.example' }));
    t.after(() => relays.close());
    return { relays, keys };
  };
  const restart = (reconnectInMs: number) => {
    state.relay.close({ reconnectInMs, tryForMs: 1_000 });
    state.relay = new DerpRelay({ policy });
  };
  t.after(() => state.relay.close());
  return { clock, state, received, make, restart };
}

test('a packet that opens a connection is delivered, and an idle connection ends unless it is the home', async (t) => {
  const { clock, received, make } = setUp(t);
  const [a, b] = [make(), make()];
  b.relays.setHome(1);
  await eventually(() => b.relays.isConnected(1), 'the home');
  for (let i = 0; i < 200; i++) a.relays.send(1, b.keys.publicKey, Buffer.from(`${i}`));
  await eventually(() => received.length === 64, 'the packets');
  assert.equal(received[0], `1 ${hex(a.keys.publicKey)} 136`);
  assert.equal(a.relays.send(3, b.keys.publicKey, Buffer.from('x')), false, 'a region that the map lacks');
  assert.deepEqual([a.relays.dueAt, b.relays.dueAt], [60_000, Number.POSITIVE_INFINITY]);
  clock.now = 60_000;
  for (const { relays } of [a, b]) relays.tick();
  await eventually(() => !a.relays.isConnected(1), 'the end');
  assert.ok(b.relays.isConnected(1));
  assert.equal(a.relays.dueAt, Number.POSITIVE_INFINITY);
});

test('attempts wait longer after each failure, and packets do not shorten that', async (t) => {
  const { clock, state, make } = setUp(t);
  const { relays, keys } = make();
  state.isUp = false;
  relays.setHome(1);
  const waits: number[] = [];
  for (let i = 1; i <= 12; i++) {
    await eventually(() => state.attempts === i && Number.isFinite(relays.dueAt), 'an attempt');
    relays.tick();
    relays.send(1, keys.publicKey, Buffer.from('x'));
    assert.equal(state.attempts, i);
    waits.push(Math.round(relays.dueAt - clock.now));
    clock.now = relays.dueAt;
    relays.tick();
  }
  assert.equal(waits[0], 250);
  assert.ok(waits.every((wait, i) => i === 0 || wait >= waits[i - 1]!));
  assert.equal(waits.at(-1), 5_000);
});

test('a relay that restarts names the time of the next attempt, but cannot name a late one', async (t) => {
  for (const [named, wait] of [
    [2_000, 2_250],
    [4_000_000_000, 10_250],
  ] as const) {
    const { clock, state, make, restart } = setUp(t);
    const { relays } = make();
    relays.setHome(1);
    await eventually(() => relays.isConnected(1), 'the connection');
    restart(named);
    await eventually(() => !relays.isConnected(1), 'the restart');
    assert.equal(relays.dueAt, wait);
    clock.now = wait - 1;
    relays.tick();
    assert.equal(state.attempts, 1);
    clock.now = wait;
    relays.tick();
    await eventually(() => relays.isConnected(1), 'the connection');
  }
});

for (const [hasMoved, ms] of [
  [true, 3_000],
  [false, 10_000],
] as const)
  test(`a silent connection ends ${ms / 1_000} s after the network ${hasMoved ? 'changed' : 'may have changed'}`, async (t) => {
    const { clock, state, make } = setUp(t);
    const { relays } = make();
    relays.setHome(1);
    await eventually(() => relays.isConnected(1), 'the home');
    relays.probe({ hasMoved });
    clock.now += ms;
    // longer than the connection's timer needs
    await relays.ping(1);
    await delay(1_100);
    assert.deepEqual([relays.isConnected(1), state.attempts], [true, 1], 'it answers');
    state.silence();
    relays.probe({ hasMoved });
    clock.now += ms;
    await delay(1_100);
    assert.ok(relays.isConnected(1));
    clock.now++;
    await eventually(() => !relays.isConnected(1), 'the end');
    clock.now += 5_000;
    relays.tick();
    await eventually(() => relays.isConnected(1), 'another connection');
  });
