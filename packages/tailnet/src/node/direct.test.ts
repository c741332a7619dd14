import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { parseAddress, parseEndpoint } from '../address.ts';
import { Box } from '../box.ts';
import { DerpRelay } from '../derp/relay.ts';
import { sealDisco } from '../disco.ts';
import { KeyPair } from '../keys.ts';
import { decodeStunRequest, encodeStunResponse } from '../stun.ts';
import { FilteredUdp, fastClock, hurry, introduce, send, type TestNode, testNode } from '../testing/nodes.ts';
import { mapOf, RelayServer } from '../testing/relay-server.ts';
import { MAX_PACKET_BYTES, MTU } from '../wireguard/session.ts';
import { interfaceAddresses, openUdp } from './udp.ts';

// Nodes with real UDP sockets on the loopback interface, and a real relay.

const LOOPBACK = () => [parseAddress('127.0.0.1')!];
const LOOPBACK_IPV6 = () => [parseAddress('::1')!];

async function relayServer(t: TestContext): Promise<RelayServer> {
  const relay = new DerpRelay({ policy: { introduced: () => true, permits: () => true } });
  t.after(() => relay.close());
  return await RelayServer.start(t, relay);
}

async function reaches(from: TestNode, to: TestNode, text: string, ms?: number) {
  await eventually(
    () => {
      send(from, to, text);
      return to.received.some((one) => one.text === text);
    },
    `"${text}" arrives`,
    ms,
  );
}

const pathOf = ({ node }: TestNode) => node.status().peers[0]?.path;

/** Sends until packets take the direct path. */
async function goesDirect(from: TestNode, to: TestNode) {
  await eventually(() => {
    send(from, to, 'x');
    return pathOf(from)?.kind === 'direct';
  }, 'the direct path');
}

for (const [family, interfaces] of [
  ['IPv4', LOOPBACK],
  ['IPv6', LOOPBACK_IPV6],
] as const)
  test(`goes from the relay to a direct path over ${family}, and back when it breaks`, async (t) => {
    const server = await relayServer(t);
    const map = mapOf({ 9: server.url });
    const udp = new FilteredUdp();
    const a = testNode(t, map, { interfaces, udp: udp.open, clock: fastClock });
    const b = testNode(t, map, { interfaces, clock: fastClock });
    hurry(t, a, b);
    introduce(a, b);
    await reaches(a, b, 'hello');
    await goesDirect(a, b);
    await goesDirect(b, a);
    const handshake = a.node.status().peers[0]!.handshakeAt;
    const path = pathOf(a)!;
    assert.equal(path.kind === 'direct' && path.endpoint, b.node.node!.endpoints[0]);
    const relayed = () => server.relay.stats().packetsReceived;
    let before = relayed();
    // on a busy machine, the relay reads a packet from before later
    await eventually(async () => {
      before = relayed();
      await reaches(a, b, `directly after ${before}`);
      await reaches(b, a, `directly back after ${before}`);
      return relayed() === before;
    }, 'nothing goes over the relay');
    const ping = await a.node.ping(b.id);
    assert.deepEqual(ping.path, path);
    assert.ok(ping.ms < 1_000);

    udp.isCut = true;
    const since = fastClock.monotonic();
    await reaches(a, b, 'after the cut', 10_000);
    await reaches(b, a, 'and back', 10_000);
    assert.ok(fastClock.monotonic() - since < 7_000, 'within a few seconds');
    assert.ok(relayed() > before);
    udp.isCut = false;
    await goesDirect(a, b);
    assert.deepEqual(a.node.status().peers[0]!.handshakeAt, handshake, 'the session lives on');
  });

test('uses no UDP if direct paths are blocked, and ignores those of the peer', async (t) => {
  const server = await relayServer(t);
  const map = mapOf({ 9: server.url });
  const udp = new FilteredUdp();
  const a = testNode(t, map, { interfaces: LOOPBACK, blockDirect: true, udp: udp.open });
  const b = testNode(t, map, { interfaces: LOOPBACK });
  introduce(a, b);
  await reaches(a, b, 'hello');
  for (let i = 0; i < 20; i++) await reaches(b, a, `${i}`);
  assert.deepEqual([pathOf(a)?.kind, pathOf(b)?.kind, udp.passed], ['relay', 'relay', 0]);
  assert.deepEqual(a.node.node!.endpoints, []);
  assert.deepEqual((await b.node.ping(a.id)).path, { kind: 'relay', region: 9 });
});

test('publishes the addresses that STUN servers see, and chooses its home by latency', async (t) => {
  const [near, far] = [await relayServer(t), await relayServer(t)];
  const stun = createSocket('udp4');
  t.after(() => stun.close());
  stun.bind(0, '127.0.0.1');
  await once(stun, 'listening');
  const seen = parseEndpoint('192.0.2.7:4242')!;
  let asked = 0;
  stun.on('message', (packet, from) => {
    const tx = decodeStunRequest(packet);
    // the first request is lost
    if (tx && ++asked > 1) stun.send(encodeStunResponse(tx, seen), from.port, from.address);
  });
  const map = new Map([...mapOf({ 1: far.url }), ...mapOf({ 2: near.url }, stun.address().port)]);
  const measure = async () => 3_000;
  const { node } = testNode(t, map, { interfaces: LOOPBACK, measure });
  await eventually(() => node.node?.endpoints.includes('192.0.2.7:4242') ?? false, 'the public address');
  assert.equal(node.node!.preferredDerp, 2);
  const ports = new Set(node.node!.endpoints.map((text) => text.slice(text.lastIndexOf(':'))));
  assert.equal(ports.size, 2, 'the port that STUN saw, and the own one with each address');
  assert.deepEqual(Object.keys(node.node!.derpLatency).sort(), ['1-v4', '2-v4']);
});

test('asks for its public address again when a path fails', async (t) => {
  const server = await relayServer(t);
  const stun = createSocket('udp4');
  t.after(() => stun.close());
  stun.bind(0, '127.0.0.1');
  await once(stun, 'listening');
  let seen = '192.0.2.7:4242';
  stun.on('message', (packet, from) => {
    const tx = decodeStunRequest(packet);
    if (tx) stun.send(encodeStunResponse(tx, parseEndpoint(seen)!), from.port, from.address);
  });
  const map = mapOf({ 1: server.url }, stun.address().port);
  const udp = new FilteredUdp();
  const a = testNode(t, map, { interfaces: LOOPBACK, clock: fastClock });
  const b = testNode(t, mapOf({ 1: server.url }), { interfaces: LOOPBACK, clock: fastClock, udp: udp.open });
  hurry(t, a, b);
  introduce(a, b);
  const publishes = (text: string) => a.node.node?.endpoints.includes(text) ?? false;
  await eventually(() => publishes(seen), 'the public address');
  await reaches(a, b, 'hello');
  await goesDirect(a, b);
  // the answer is fresh for 27 s, and checks of the network follow each other after 20 s or more
  seen = '192.0.2.8:4343';
  udp.isCut = true;
  const since = fastClock.monotonic();
  await eventually(() => {
    send(a, b, 'x');
    return publishes(seen);
  }, 'the other address');
  const took = fastClock.monotonic() - since;
  assert.ok(took < 10_000, `after ${took} ms`);
});

/** A peer of this node that the test plays itself: its keys, and a UDP socket. */
async function attacker(t: TestContext, victim: TestNode) {
  const socket = createSocket('udp4');
  t.after(() => socket.close());
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const received: Buffer[] = [];
  socket.on('message', (packet) => received.push(packet));
  const port = Number(victim.node.node!.endpoints[0]!.split(':')[1]);
  const raw = (packet: Buffer) =>
    new Promise<void>((resolve) => socket.send(packet, port, '127.0.0.1', () => resolve()));
  const disco = (keys: KeyPair, message: Parameters<typeof sealDisco>[2]) =>
    raw(sealDisco(keys.publicKey, Box.between(keys, victim.discoKeys.publicKey)!, message));
  return { raw, disco, received, port: socket.address().port };
}

test('answers pings of known peers only, and a flood of them costs only the peer', async (t) => {
  const server = await relayServer(t);
  const map = mapOf({ 9: server.url });
  const [a, b] = [testNode(t, map, { interfaces: LOOPBACK }), testNode(t, map, { interfaces: LOOPBACK })];
  introduce(a, b);
  await eventually(() => (a.node.node?.endpoints.length ?? 0) > 0, 'the endpoints of a');
  await reaches(a, b, 'hello');
  const { raw, disco, received } = await attacker(t, a);
  const tx = Buffer.alloc(12, 7);
  const dropped = () => a.node.status().dropped;
  // garbage, a stranger, and a known peer that names another node key
  for (const packet of [Buffer.alloc(0), Buffer.from('54'), Buffer.alloc(1_500, 0xff), Buffer.alloc(32, 4)])
    await raw(packet);
  await disco(KeyPair.generate(), { type: 'ping', tx });
  const { disco: refused } = dropped();
  await disco(b.discoKeys, { type: 'ping', tx, nodeKey: a.keys.publicKey });
  await eventually(() => dropped().disco === refused + 1, 'the wrong node key');
  // pongs that nobody asked for, and a call-me-maybe that did not come over the relay
  await disco(b.discoKeys, { type: 'pong', tx, source: parseEndpoint('192.0.2.1:1')! });
  await disco(b.discoKeys, { type: 'callMeMaybe', endpoints: [parseEndpoint('192.0.2.1:1')!] });
  await disco(b.discoKeys, { type: 'ping', tx, nodeKey: b.keys.publicKey });
  await eventually(() => received.length === 1, 'the pong');
  for (let i = 0; i < 1_000; i++) await disco(b.discoKeys, { type: 'ping', tx, nodeKey: b.keys.publicKey });
  await eventually(() => dropped().disco > refused + 300, 'the end of its budget');
  assert.ok(received.length < 700, `${received.length} pongs`);
  await reaches(a, b, 'still here');
  await reaches(b, a, 'and here');
});

test('a flood of packets that name a peer does not end its direct path', async (t) => {
  const server = await relayServer(t);
  const map = mapOf({ 9: server.url });
  const [a, b] = [testNode(t, map, { interfaces: LOOPBACK }), testNode(t, map, { interfaces: LOOPBACK })];
  introduce(a, b);
  await reaches(a, b, 'hello');
  await goesDirect(a, b);
  const { raw } = await attacker(t, a);
  // the disco keys of senders are readable on the network
  const other = KeyPair.generate();
  const box = Box.between(other, a.discoKeys.publicKey)!;
  const forged = sealDisco(b.discoKeys.publicKey, box, { type: 'ping', tx: Buffer.alloc(12) });
  for (let i = 0; i < 1_000; i++) await raw(forged);
  await eventually(() => a.node.status().dropped.disco > 300, 'the end of the budget for strange addresses');
  assert.equal((await a.node.ping(b.id)).path.kind, 'direct');
});

test('accepts data only from addresses that disco has validated, and replays change nothing', async (t) => {
  const server = await relayServer(t);
  const map = mapOf({ 9: server.url });
  const recorded: Buffer[] = [];
  const [a, b] = [
    testNode(t, map, {
      interfaces: LOOPBACK,
      udp: async (family, events) =>
        openUdp(family, {
          ...events,
          onPacket: (packet, host, port) => {
            recorded.push(Buffer.from(packet));
            events.onPacket(packet, host, port);
          },
        }),
    }),
    testNode(t, map, { interfaces: LOOPBACK }),
  ];
  introduce(a, b);
  await reaches(a, b, 'hello');
  await goesDirect(b, a);
  send(b, a, 'once');
  await eventually(() => a.received.at(-1)?.text === 'once', 'the packet');
  const { raw, received } = await attacker(t, a);
  const { unknown } = a.node.status().dropped;
  const count = () => a.received.filter(({ text }) => text === 'once').length;
  const before = count();
  const data = recorded.filter((packet) => packet[0] === 4);
  for (const packet of data) await raw(packet);
  await eventually(() => a.node.status().dropped.unknown >= unknown + data.length, 'the replayed data');
  assert.equal(count(), before);
  // replayed pings are answered, but that does not move the peer's path
  const path = pathOf(b);
  for (const packet of recorded.filter((packet) => packet[0] === 0x54)) await raw(packet);
  await eventually(() => received.length > 0, 'the answers');
  await reaches(b, a, 'after the replay');
  assert.deepEqual(pathOf(b), path);
  assert.equal(count(), before);
});

test('the addresses of this machine can be published', () => {
  const addresses = interfaceAddresses();
  assert.ok(addresses.length > 0);
  assert.ok(addresses.every((address) => address.length === 16));
});

test('packets are longer on a direct path of the loopback interface, and arrive', async (t) => {
  const server = await relayServer(t);
  const map = mapOf({ 9: server.url });
  const udp = new FilteredUdp();
  const a = testNode(t, map, { interfaces: LOOPBACK, udp: udp.open });
  const b = testNode(t, map, { interfaces: LOOPBACK });
  introduce(a, b);
  await reaches(a, b, 'hello');
  assert.equal(a.node.packetBytes(b.address), MTU);
  await goesDirect(a, b);
  await eventually(() => a.node.packetBytes(b.address) === MAX_PACKET_BYTES, 'long packets');
  assert.equal(a.node.packetBytes(a.address), MTU, 'no peer');
  const long = 'x'.repeat(MAX_PACKET_BYTES - 40);
  assert.equal(send(a, b, `${long}x`), false);
  await reaches(a, b, long);
  a.node.longPacketsLost(b.address);
  assert.equal(a.node.packetBytes(b.address), MTU);
});
