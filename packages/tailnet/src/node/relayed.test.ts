import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { parseAddress } from '../address.ts';
import { DerpRelay } from '../derp/relay.ts';
import { introduce, MovableClock, packetOf, send, testNode } from '../testing/nodes.ts';
import { mapOf, RelayServer } from '../testing/relay-server.ts';
import { hex } from '../testing/vectors.ts';
import { firstPing } from './first-ping.ts';

// Nodes without UDP, over real relays behind real HTTP servers.

function relayOf(t: TestContext): DerpRelay {
  const relay = new DerpRelay({ policy: { introduced: () => true, permits: () => true } });
  t.after(() => relay.close());
  return relay;
}

/** Sends texts until one arrives. */
async function reaches(from: ReturnType<typeof testNode>, to: ReturnType<typeof testNode>, text: string, ms?: number) {
  await eventually(
    () => {
      send(from, to, text);
      return to.received.some((one) => one.text === text);
    },
    `"${text}" arrives`,
    ms,
  );
}

test('two nodes exchange packets over a relay, by an upgrade and by a WebSocket', async (t) => {
  const server = await RelayServer.start(t, relayOf(t));
  const map = mapOf({ 999: server.url });
  const [a, b] = [
    testNode(t, map, { blockDirect: true }),
    testNode(t, map, { blockDirect: true, forceWebSockets: true }),
  ];
  introduce(a, b);
  await eventually(() => send(a, b, 'first'), 'both are introduced');
  await eventually(() => b.received.length > 0, 'the packet');
  assert.deepEqual(b.received[0], { text: 'first', peer: hex(a.keys.publicKey) });
  for (let i = 0; i < 100; i++) send(b, a, `${i}`);
  await eventually(() => a.received.length === 100, 'all packets');
  assert.deepEqual(
    a.received.map(({ text }) => text),
    Array.from({ length: 100 }, (_, i) => `${i}`),
  );
  assert.deepEqual(server.upgrades.sort(), ['DERP', 'websocket']);
  const ping = await a.node.ping(b.id);
  assert.deepEqual(ping.path, { kind: 'relay', region: 999 });
  assert.ok(ping.ms > 0 && ping.ms < 5_000);
  const { home, peers, endpoints, knownPeers } = a.node.status();
  assert.deepEqual([home, endpoints, knownPeers], [999, [], 1]);
  assert.deepEqual(peers[0]!.path, { kind: 'relay', region: 999 });
  assert.deepEqual(a.node.node!.endpoints, []);
  assert.match(b.node.node!.derpForcedWebsocket[999]!, /required by configuration/);
});

test('uses WebSockets after the upgrade was rejected', async (t) => {
  const server = await RelayServer.start(t, relayOf(t));
  server.treatment = 'reject';
  const { node } = testNode(t, mapOf({ 7: server.url }), { blockDirect: true });
  await eventually(() => node.node !== undefined, 'the node is connected');
  assert.deepEqual(server.upgrades, ['DERP', 'websocket']);
  assert.match(node.node!.derpForcedWebsocket[7]!, /status 400/);
  assert.equal(node.status().relays[0]!.webSocketReason, node.node!.derpForcedWebsocket[7]);
});

test('goes on after the relay restarts, and when another one replaces it', async (t) => {
  const first = await RelayServer.start(t, relayOf(t));
  const map = mapOf({ 1: first.url });
  const changed: string[] = [];
  const onPathChange = (address: Buffer) => changed.push(hex(address)!);
  const [a, b] = [testNode(t, map, { blockDirect: true, onPathChange }), testNode(t, map, { blockDirect: true })];
  introduce(a, b);
  await reaches(a, b, 'before');
  assert.deepEqual(changed, []);
  first.relay.close({ reconnectInMs: 50, tryForMs: 1_000 });
  first.relay = relayOf(t);
  await reaches(a, b, 'after the restart');
  assert.deepEqual(changed, [hex(b.address)], 'what was sent before may be lost');
  const { port } = first;
  await first.stop();
  const second = await RelayServer.start(t, relayOf(t), { port });
  await reaches(b, a, 'after the replacement');
  assert.ok(second.relay.stats().accepted >= 2);
  const third = await RelayServer.start(t, relayOf(t));
  for (const { node } of [a, b]) node.setRelayMap(mapOf({ 1: third.url }));
  await reaches(a, b, 'over another relay');
  assert.equal(a.node.status().peers[0]!.isLost, false);
});

test('reaches a peer whose home is another region, which answers over the region of its packets', async (t) => {
  const [here, there] = [await RelayServer.start(t, relayOf(t)), await RelayServer.start(t, relayOf(t))];
  const both = mapOf({ 1: here.url, 2: there.url });
  const measure = async ({ id }: { id: number }) => 1_000 * id;
  const a = testNode(t, both, { blockDirect: true, measure });
  const b = testNode(t, mapOf({ 2: there.url }), { blockDirect: true });
  introduce(a, b);
  await reaches(a, b, 'hello');
  await reaches(b, a, 'and back');
  assert.deepEqual([a.node.node!.preferredDerp, b.node.node!.preferredDerp], [1, 2]);
  assert.deepEqual(
    a.node.status().relays.map(({ region, isHome }) => [region, isHome]),
    [
      [1, true],
      [2, false],
    ],
  );
  assert.equal(b.node.status().relays.length, 1, 'b has no relay but its home');
  assert.equal(a.node.node!.derpLatency['1-v4'], 1);
});

test('packets move to the new home of both nodes while they flow', async (t) => {
  const [old, other] = [await RelayServer.start(t, relayOf(t)), await RelayServer.start(t, relayOf(t))];
  const map = mapOf({ 2: old.url });
  const [a, b] = [testNode(t, map, { blockDirect: true }), testNode(t, map, { blockDirect: true })];
  introduce(a, b);
  await reaches(a, b, 'hello');
  // the earlier home is only avoided, so that packets keep the connections to it open
  const avoided = [...map.values()].map((region) => [region.id, { ...region, isAvoided: true }] as const);
  for (const { node } of [a, b]) node.setRelayMap(new Map([...mapOf({ 1: other.url }), ...avoided]));
  await eventually(async () => {
    send(a, b, 'a');
    send(b, a, 'b');
    const pings = await Promise.all([a.node.ping(b.id), b.node.ping(a.id)]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    return pings.every(({ path }) => path.kind === 'relay' && path.region === 1);
  }, 'packets go over the home of both');
  const connected = ({ node }: typeof a) => node.status().relays.filter(({ isConnected }) => isConnected).length;
  assert.deepEqual([connected(a), connected(b)], [2, 2]);
});

test('measures a region that comes to the map during a check', async (t) => {
  const [near, far] = [await RelayServer.start(t, relayOf(t)), await RelayServer.start(t, relayOf(t))];
  const checked = Promise.withResolvers<void>();
  let measured = 0;
  const measure = async ({ id }: { id: number }) => {
    measured++;
    if (id === 2) await checked.promise;
    return 1_000 * id;
  };
  const { node } = testNode(t, mapOf({ 2: far.url, 3: far.url }), { blockDirect: true, measure });
  await eventually(() => measured === 2, 'the check');
  node.setRelayMap(mapOf({ 1: near.url, 2: far.url, 3: far.url }));
  checked.resolve();
  await eventually(() => node.node?.preferredDerp === 1, 'the new region is its home');
});

test('leaves the home of a peer that is not there', async (t) => {
  const [here, there] = [await RelayServer.start(t, relayOf(t)), await RelayServer.start(t, relayOf(t))];
  const measure = async ({ id }: { id: number }) => 1_000 * id;
  const a = testNode(t, mapOf({ 1: here.url, 2: there.url }), { blockDirect: true, measure });
  const b = testNode(t, mapOf({ 2: there.url }), { blockDirect: true });
  introduce(a, b);
  await reaches(a, b, 'hello');
  await reaches(b, a, 'and back');
  const move = (preferredDerp: number) => a.node.setPeer(b.id, { ...b.node.node!, preferredDerp });
  const region = async () => {
    const ping = await a.node.ping(b.id, { signal: AbortSignal.timeout(500) }).catch(() => undefined);
    return ping?.path.kind === 'relay' ? ping.path.region : undefined;
  };
  move(1);
  assert.equal(await region(), undefined, 'the published home counts');
  assert.equal(await region(), 2);
  move(2);
  assert.equal(await region(), 2);
  move(1);
  assert.equal(await region(), undefined, 'the peer may have come');
  assert.equal(await region(), 2);
});

test('after a sleep, packets arrive without waiting for the end of sessions that the peer has forgotten', async (t) => {
  const map = mapOf({ 1: (await RelayServer.start(t, relayOf(t))).url });
  const clocks = [new MovableClock(), new MovableClock()] as const;
  const [a, b] = [
    testNode(t, map, { blockDirect: true, clock: clocks[0] }),
    testNode(t, map, { blockDirect: true, clock: clocks[1] }),
  ];
  introduce(a, b);
  await reaches(a, b, 'before');
  // b's machine is awake and forgets the session after 9 minutes
  clocks[1].pass(b.node, 600_000);
  clocks[0].wallAheadMs += 600_000;
  await reaches(a, b, 'after the sleep', 4_000);
  const { bytesReceived } = a.node.status().peers[0]!;
  clocks[1].pass(b.node, 11_000);
  await eventually(() => a.node.status().peers[0]!.bytesReceived > bytesReceived, 'the answer of b');
  // the peer ignores handshakes that are older than the last one
  clocks[0].wallAheadMs -= 86_400_000;
  clocks[0].pass(a.node, 200_000);
  clocks[1].pass(b.node, 200_000);
  await reaches(a, b, 'with a clock that was set back', 4_000);
});

test('reports that packets may be lost, after a sleep, a stop or a change of addresses', async (t) => {
  const map = mapOf({ 1: (await RelayServer.start(t, relayOf(t))).url });
  const clock = new MovableClock();
  let address = '192.0.2.1';
  const changed: string[] = [];
  const a = testNode(t, map, {
    ...{ blockDirect: true, clock, interfaces: () => [parseAddress(address)!] },
    onPathChange: (peer) => changed.push(hex(peer)!),
  });
  const b = testNode(t, map, { blockDirect: true });
  introduce(a, b);
  await reaches(a, b, 'first');
  /** How often it was reported since the last call. */
  const reports = () => {
    assert.ok(changed.every((peer) => peer === hex(b.address)));
    return changed.splice(0).length;
  };
  assert.equal(reports(), 0);
  clock.pass(a.node, 12_000);
  assert.equal(reports(), 0, 'nothing happened');
  const late = (ms: number) => {
    clock.monotonicAheadMs += ms;
    clock.wallAheadMs += ms;
    a.node.tick();
  };
  late(8_000);
  assert.equal(reports(), 0, 'the process was busy');
  late(60_000);
  assert.equal(reports(), 1, 'the process was stopped');
  clock.wallAheadMs += 60_000;
  send(a, b, 'second');
  assert.equal(reports(), 1, 'the machine slept');
  await eventually(() => reports() === 1, 'the report after the handshake');
  clock.wallAheadMs -= 60_000;
  a.node.tick();
  assert.equal(reports(), 0, 'the clock was set back');
  address = '192.0.2.2';
  let waited = 0;
  for (; changed.length === 0 && waited < 60; waited++) clock.pass(a.node, 1_000);
  assert.ok(waited <= 10, `noticed the other address after ${waited} s`);
  assert.equal(reports(), 1);
  await eventually(() => reports() === 1, 'the report after the handshake');
});

test('drops packets of strangers, and packets whose source is not the peer', async (t) => {
  const server = await RelayServer.start(t, relayOf(t));
  const map = mapOf({ 1: server.url });
  const [a, b, c] = [1, 2, 3].map(() => testNode(t, map, { blockDirect: true })) as [
    ReturnType<typeof testNode>,
    ReturnType<typeof testNode>,
    ReturnType<typeof testNode>,
  ];
  introduce(a, b);
  introduce(c, b);
  await reaches(a, b, 'a');
  await reaches(c, b, 'c');
  const { source } = b.node.status().dropped;
  c.node.send(packetOf(a.address, b.address, 'forged'));
  await eventually(() => b.node.status().dropped.source > source, 'the forged packet');
  assert.ok(b.received.every(({ text }) => text !== 'forged'));
  // c claims the address of a, which stays with a
  b.node.setPeer(c.id, { ...c.node.node!, allowedIps: [...c.node.node!.allowedIps, ...a.node.node!.allowedIps] });
  await reaches(b, a, 'still to a');
  // a peer that was removed is a stranger
  b.node.remove(c.id);
  c.node.send(packetOf(c.address, b.address, 'gone'));
  await eventually(() => b.node.status().dropped.unknown > 0, 'the packet of a stranger');
  assert.equal(send(b, c, 'gone'), false);
  await assert.rejects(b.node.ping(c.id), { name: 'PingError', code: 'unknown' });
});

test('the first ping reaches a peer that learns of this node later', async (t) => {
  const server = await RelayServer.start(t, relayOf(t));
  const map = mapOf({ 1: server.url });
  const [a, b] = [testNode(t, map, { blockDirect: true }), testNode(t, map, { blockDirect: true })];
  b.node.onChange((node) => a.node.setPeer(b.id, node));
  await eventually(() => a.node.node !== undefined && a.node.status().knownPeers === 1, 'a knows b');
  const began = performance.now();
  const ping = firstPing(a.node, b.id);
  await eventually(() => b.node.status().dropped.unknown >= 2, 'b drops pings of a stranger');
  b.node.setPeer(a.id, a.node.node!);
  const { ms, path } = await ping;
  assert.deepEqual(path, { kind: 'relay', region: 1 });
  assert.ok(ms < performance.now() - began - 100, 'measures only the ping that is answered');
  await assert.rejects(firstPing(a.node, b.id, { signal: AbortSignal.abort(new Error('enough')) }), /enough/);
});

test('rejects malformed peers, and a node ends with everything that it started', async (t) => {
  const server = await RelayServer.start(t, relayOf(t));
  const map = mapOf({ 1: server.url });
  const a = testNode(t, map, { blockDirect: true });
  const b = testNode(t, map, { blockDirect: true });
  introduce(a, b);
  await reaches(a, b, 'x');
  assert.equal(a.node.setPeer(b.id, { ...b.node.node!, key: Buffer.from('np') }), false);
  assert.equal(a.node.setPeer(a.id, a.node.node!), false, 'itself');
  assert.equal(a.node.send(Buffer.from([0x60])), false);
  assert.equal(a.node.send(Buffer.alloc(60)), false);
  const abort = new AbortController();
  b.node.close();
  const pings = [a.node.ping(b.id, { signal: abort.signal }), a.node.ping(b.id)];
  const ends = Promise.allSettled(pings);
  abort.abort(new Error('enough'));
  a.node.close();
  const codes = (await ends).map((end) => end.status === 'rejected' && (end.reason.code ?? end.reason.message));
  assert.deepEqual(codes, ['enough', 'closed']);
  assert.equal(send(a, b, 'x'), false);
  await eventually(() => server.relay.stats().connections === 0, 'all connections end');
});
