import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Endpoint, parseEndpoint } from '../address.ts';
import { DATA_OVERHEAD_BYTES, MTU } from '../wireguard/session.ts';
import { ACTIVE_MS, HEARTBEAT_MS, MAX_CANDIDATES, Paths, SEARCH_MS, SHORT_MS, TRUST_MS } from './paths.ts';

/** Paths whose pings the test answers, and whose time it sets. */
function setUp() {
  const clock = { now: 1_000 };
  const pings: { tx: Buffer; to: string; datagramBytes: number | undefined }[] = [];
  const calls: number[] = [];
  const failures: number[] = [];
  const paths = new Paths({
    now: () => clock.now,
    ping: (tx, to, datagramBytes) => pings.push({ tx, to: to.name, datagramBytes }),
    linkBytes: ({ name }) => (name === NARROW ? MTU : LONG),
    callMeMaybe: () => calls.push(clock.now),
    onFailure: () => failures.push(calls.length),
  });
  const advance = (ms: number) => {
    for (const end = clock.now + ms; clock.now < end; ) {
      clock.now = Math.min(end, Math.max(clock.now + 1, paths.dueAt));
      paths.tick();
    }
  };
  /** Answers the last ping to an address after this time. */
  const pong = (to: string, ms = 1) => {
    clock.now += ms;
    const ping = pings.findLast((one) => one.to === to);
    return ping && paths.pong(ping.tx);
  };
  const sent = () => {
    paths.noteSent(clock.now);
    paths.tick();
  };
  const route = () => {
    const { direct, isRelayed } = paths.route(clock.now);
    return [direct?.name, isRelayed];
  };
  return { paths, clock, pings, calls, failures, advance, pong, sent, route };
}

const endpoints = (...texts: string[]): Endpoint[] => texts.map((text) => parseEndpoint(text)!);
const A = '192.0.2.1:1';
const B = '198.51.100.2:2';
/** Its link carries the usual packets only. */
const NARROW = '203.0.113.3:3';
const LONG = 8_000;

test('an idle peer is not pinged, and an active one is until a path answers', () => {
  const { paths, pings, calls, advance, pong, sent, route } = setUp();
  paths.setPublished(endpoints(A, B));
  advance(60_000);
  assert.deepEqual([pings.length, paths.dueAt], [0, Number.POSITIVE_INFINITY]);
  sent();
  assert.deepEqual(
    pings.map(({ to }) => to),
    [A, B],
  );
  assert.equal(calls.length, 1);
  assert.deepEqual(route(), [undefined, true]);
  advance(2 * HEARTBEAT_MS);
  assert.deepEqual([pings.length, calls.length], [4, 2], 'it searches each 5 s, at a heartbeat');
  assert.equal(pong(A, 20), 20);
  assert.deepEqual(route(), [A, false]);
  assert.equal(pong(A), undefined, 'a pong counts once');
  advance(ACTIVE_MS + HEARTBEAT_MS);
  const { length } = pings;
  advance(600_000);
  assert.equal(pings.length, length, 'idle again');
});

test('a path that stops answering carries packets together with the relay, and is given up', () => {
  const { paths, calls, failures, advance, pong, sent, route } = setUp();
  paths.setPublished(endpoints(A));
  sent();
  pong(A, 2);
  for (let i = 0; i < 4; i++) {
    advance(HEARTBEAT_MS);
    sent();
    pong(A, 2);
    assert.deepEqual(route(), [A, false]);
  }
  const { length } = calls;
  let silent = 0;
  for (; route()[1] === false; silent += 100) {
    advance(100);
    sent();
  }
  assert.ok(silent <= HEARTBEAT_MS + 1_100 && silent < TRUST_MS, `after ${silent} ms`);
  assert.deepEqual(route(), [A, true]);
  assert.equal(calls.length, length + 1, 'and the peer is asked to search');
  assert.deepEqual(failures, [length], 'after the failure was reported');
  for (let i = 0; i < 200; i++) {
    advance(100);
    sent();
  }
  assert.deepEqual(route(), [undefined, true]);
  pong(A, 2);
  assert.deepEqual(route(), [A, false], 'it comes back');
});

test('chooses the faster path, prefers local ones, and does not change between equal ones', () => {
  const { paths, pong, sent, route, advance } = setUp();
  paths.setPublished(endpoints(A, B, '10.0.0.1:3', '127.0.0.1:4', '[2001:db8::1]:5'));
  sent();
  pong(A, 40);
  assert.deepEqual(route(), [A, false]);
  pong(B, 0);
  assert.deepEqual(route(), [A, false], 'as fast');
  pong('[2001:db8::1]:5', 1);
  assert.deepEqual(route(), ['[2001:db8::1]:5', false], 'IPv6 may be slower by a tenth');
  pong('10.0.0.1:3', 1);
  assert.deepEqual(route(), ['10.0.0.1:3', false]);
  pong('127.0.0.1:4', 1);
  assert.deepEqual(route(), ['127.0.0.1:4', false]);
  advance(HEARTBEAT_MS);
  sent();
  pong('127.0.0.1:4', 1);
  assert.deepEqual(route(), ['127.0.0.1:4', false]);
});

test('a call-me-maybe is answered with pings, but its addresses cannot be flooded through this node', () => {
  const { paths, clock, pings, pong, route } = setUp();
  paths.setCalled(endpoints(A));
  assert.deepEqual(
    pings.map(({ to }) => to),
    [A],
  );
  for (let i = 0; i < 100; i++) paths.setCalled(endpoints(A));
  assert.equal(pings.length, 1);
  clock.now += 1_000;
  paths.setCalled(endpoints(A));
  assert.equal(pings.length, 2);
  pong(A);
  assert.deepEqual(route(), [A, false]);
  paths.setCalled([]);
  assert.deepEqual(paths.candidates, [A], 'the best path remains while it answers');
  // groups, links, no address, the tailnet, and the stand-in of a relay
  const bad = ['224.0.0.1:1', '[ff02::1]:1', '[fe80::1]:1', '0.0.0.0:1', '[::]:1', '192.0.2.9:0', '127.3.3.40:9'];
  paths.setCalled(endpoints(...bad, '[fd7a:115c:a1e0::1]:1'));
  assert.deepEqual(paths.candidates, [A]);
});

test('remembers a bounded number of addresses, those longest that the peer named', () => {
  const { paths, clock, advance } = setUp();
  paths.setPublished(endpoints(A));
  for (let port = 1; port <= 1_000; port++) {
    clock.now += 1;
    paths.receivePing({ address: endpoints(B)[0]!.address, port });
  }
  assert.equal(paths.candidates.length, MAX_CANDIDATES);
  assert.ok(paths.candidates.includes(A));
  assert.ok(paths.candidates.includes('198.51.100.2:1000'));
  clock.now += 60_000;
  advance(1);
  assert.deepEqual(paths.candidates, [A]);
  paths.setPublished(Array.from({ length: 200 }, (_, i) => ({ address: endpoints(A)[0]!.address, port: i + 1 })));
  assert.equal(paths.candidates.length, MAX_CANDIDATES);
});

test('an address that a ping came from is pinged while no path is trusted', () => {
  const { paths, clock, pings, sent, pong, route } = setUp();
  paths.receivePing(endpoints(B)[0]!);
  assert.equal(pings.length, 0, 'nothing is sent to this peer');
  sent();
  paths.receivePing(endpoints(A)[0]!);
  assert.deepEqual(
    pings.map(({ to }) => to),
    [B, A],
  );
  // the ping before may not have passed the peer's router
  for (let i = 0; i < 10; i++) paths.receivePing(endpoints(B)[0]!);
  assert.equal(pings.length, 3);
  pong(A, 5);
  clock.now += SEARCH_MS;
  paths.receivePing(endpoints(B)[0]!);
  assert.deepEqual([pings.length, route()], [3, [A, false]]);
  paths.doubt();
  assert.deepEqual(route(), [A, true], 'the network of this machine changed');
});

test('carries long packets after a ping of their length was answered, and asks once', () => {
  const { paths, clock, pings, pong, sent, advance } = setUp();
  paths.setPublished(endpoints(A));
  sent();
  assert.equal(paths.packetBytes(clock.now), MTU, 'no path');
  pong(A);
  assert.equal(pings.length, 1, 'nobody asked');
  assert.equal(paths.packetBytes(clock.now), MTU);
  assert.equal(pings.at(-1)?.datagramBytes, LONG + DATA_OVERHEAD_BYTES);
  assert.equal(paths.packetBytes(clock.now), MTU);
  assert.equal(pings.length, 2);
  pong(A, 2);
  assert.equal(paths.packetBytes(clock.now), LONG);
  assert.equal(paths.best?.latency, 1, 'long pings measure nothing');
  advance(TRUST_MS + 1);
  assert.equal(paths.packetBytes(clock.now), MTU, 'packets also go over the relay');
});

test('a long ping without an answer leaves the path as it is, and is tried again later', () => {
  const { paths, clock, pings, pong, sent, route } = setUp();
  const keepUp = (ms: number) => {
    for (const end = clock.now + ms; clock.now < end; clock.now += HEARTBEAT_MS) {
      sent();
      pong(A);
      assert.deepEqual(route(), [A, false]);
      assert.equal(paths.packetBytes(clock.now), MTU);
    }
  };
  paths.setPublished(endpoints(A));
  keepUp(2 * HEARTBEAT_MS);
  const long = () => pings.filter(({ datagramBytes }) => datagramBytes !== undefined).length;
  // the pings of usual length are answered below
  pings.splice(0, pings.length, ...pings.filter(({ datagramBytes }) => datagramBytes === undefined));
  keepUp(SHORT_MS - 4 * HEARTBEAT_MS);
  assert.equal(long(), 0);
  keepUp(4 * HEARTBEAT_MS);
  assert.equal(long(), 1);
});

test('long packets that are lost, and changes of the network, make a path carry short ones', () => {
  const { paths, clock, pings, pong, sent } = setUp();
  paths.setPublished(endpoints(A));
  const grow = () => {
    sent();
    pong(A);
    paths.packetBytes(clock.now);
    pong(A);
    return paths.packetBytes(clock.now);
  };
  assert.equal(grow(), LONG);
  clock.now += SHORT_MS - 1_000;
  paths.shorten();
  clock.now += 2_000;
  assert.equal(grow(), MTU, 'since it was shortened, not since it was tried');
  paths.doubt();
  assert.equal(grow(), LONG, 'on another network they may arrive');
  const before = pings.length;
  paths.doubt();
  sent();
  pong(A);
  assert.equal(paths.packetBytes(clock.now), MTU);
  assert.equal(pings.length, before + 2);
});

test('a link for the usual packets gets no long ping', () => {
  const { paths, clock, pings, pong, sent } = setUp();
  paths.setPublished(endpoints(NARROW));
  sent();
  pong(NARROW);
  assert.equal(paths.packetBytes(clock.now), MTU);
  assert.equal(pings.length, 1);
});
