import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { NodeSchema } from '@ropewalk/wire/proto/tailnet';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { formatHostPrefix, randomAddress, TAILNET_PREFIX } from '../address.ts';
import { DerpRelay } from '../derp/relay.ts';
import { encodeNodeKey, formatDiscoKey } from '../keys.ts';
import { nameOf } from '../names.ts';
import { introduce, packetOf, send, testNode } from '../testing/nodes.ts';
import { mapOf, RelayServer } from '../testing/relay-server.ts';
import { MAX_PEERS, type PeerNode, Peers, readNode } from './peers.ts';
import { LOST_MS } from './tailnet-node.ts';

const key = (number: number): Buffer => {
  const bytes = Buffer.alloc(32, 1);
  bytes.writeUInt32BE(number);
  return bytes;
};

const nodeOf = (number: number, options: Partial<PeerNode> = {}): PeerNode => ({
  ...{ key: key(number), discoKey: key(number), home: 1, addresses: [`address ${number}`], endpoints: [] },
  ...options,
});

const plain = { keepAlive: false };

test('the first peer with an address or a disco key has it, until it is removed', () => {
  const peers = new Peers();
  const first = peers.set('01', nodeOf(1), plain)!.peer;
  const second = peers.set('02', nodeOf(2, { addresses: ['address 1', 'address 2'], discoKey: key(1) }), plain)!.peer;
  // updates change nothing about that
  peers.set('01', nodeOf(1, { home: 2 }), plain);
  assert.equal(peers.byAddress('address 1'), first);
  assert.equal(peers.byDisco(key(1)), first);
  assert.equal(peers.byAddress('address 2'), second);
  peers.set('01', nodeOf(1, { addresses: [], discoKey: undefined }), plain);
  assert.equal(peers.byAddress('address 1'), second);
  assert.equal(peers.byDisco(key(1)), second);
  assert.equal(peers.remove('02'), second);
  assert.equal(peers.byAddress('address 1'), undefined);
  assert.equal(peers.byDisco(key(1)), undefined);
});

test('two ids with one key are one peer, which goes with the last of them', () => {
  const peers = new Peers();
  const { peer } = peers.set('01', nodeOf(1), plain)!;
  assert.equal(peers.set('02', nodeOf(1), plain)!.peer, peer);
  assert.equal(peers.size, 1);
  assert.equal(peers.markLost('01', 5), undefined);
  assert.equal(peers.markLost('02', 6), peer);
  assert.equal(peer.lostAt, 6);
  assert.equal(peers.remove('01'), undefined);
  // an id that has a new key is another peer
  const changed = peers.set('02', nodeOf(3), plain)!;
  assert.equal(changed.gone, peer);
  assert.notEqual(changed.peer, peer);
  assert.equal(peers.byKey(key(1)), undefined);
  assert.equal(peers.size, 1);
});

test('bounds peers, and the UDP addresses that they can claim', () => {
  const peers = new Peers();
  for (let i = 0; i < MAX_PEERS; i++) assert.ok(peers.set(`${i}`, nodeOf(i), plain));
  assert.equal(peers.set('more', nodeOf(MAX_PEERS), plain), undefined);
  assert.ok(peers.set('0', nodeOf(MAX_PEERS), plain), 'one that replaces another');
  const peer = peers.byId('1')!;
  for (let port = 0; port < 1_000; port++) peers.addSource(peer, `192.0.2.1:${port}`);
  assert.equal(peer.sources.size, 64);
  assert.deepEqual(peers.receivedFrom('192.0.2.1:0'), []);
  assert.deepEqual(peers.receivedFrom('192.0.2.1:999'), [peer]);
  for (let i = 1; i < 100; i++) peers.addSource(peers.byId(`${i}`)!, '192.0.2.1:999');
  assert.equal(peers.receivedFrom('192.0.2.1:999').length, 4);
  for (let i = 1; i < 100; i++) peers.remove(`${i}`);
  assert.deepEqual(peers.receivedFrom('192.0.2.1:999'), []);
});

test('reads what a node publishes, and leaves out what is malformed', () => {
  const good = randomAddress(TAILNET_PREFIX);
  const node = create(NodeSchema, {
    key: encodeNodeKey(key(1)),
    disco: 'discokey:xyz',
    allowedIps: [formatHostPrefix(good), '10.0.0.0/8', 'fd7a::/64', ''],
    endpoints: [
      '192.0.2.1:5',
      'example.com:5',
      '[::1]:70000',
      ...Array.from({ length: 1_000 }, (_, i) => `10.0.0.1:${i}`),
    ],
  });
  const read = readNode(node)!;
  assert.equal(read.discoKey, undefined);
  assert.deepEqual(read.addresses, [nameOf(good)]);
  assert.equal(read.endpoints.length, 62);
  assert.equal(readNode({ ...node, key: Buffer.alloc(34) }), undefined);
});

test('5,000 known peers cost no timers and no sessions, and lost ones go after 15 minutes', async (t) => {
  const relay = new DerpRelay({ policy: { introduced: () => true, permits: () => true } });
  t.after(() => relay.close());
  const map = mapOf({ 1: (await RelayServer.start(t, relay)).url });
  const clock = {
    ahead: 0,
    now: () => new Date(1_700_000_000_000 + clock.monotonic()),
    monotonic: () => performance.now() + clock.ahead,
    sleep: (ms: number, signal?: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        const timer = setTimeout(resolve, ms);
        signal?.addEventListener('abort', () => {
          clearTimeout(timer);
          reject(signal.reason);
        });
      }),
  };
  const a = testNode(t, map, { blockDirect: true, clock });
  const b = testNode(t, map, { blockDirect: true });
  const ids = Array.from({ length: 5_000 }, (_, i) => {
    const id = Buffer.alloc(16);
    id.writeUInt32BE(i);
    const address = formatHostPrefix(randomAddress(TAILNET_PREFIX));
    const disco = formatDiscoKey(key(i));
    const published = { key: encodeNodeKey(key(i)), disco, allowedIps: [address], preferredDerp: 1 };
    assert.ok(a.node.setPeer(id, create(NodeSchema, published), { keepAlive: true }));
    return id;
  });
  introduce(a, b);
  await eventually(() => send(a, b, 'x') && b.received.length > 0, 'a packet');
  const { knownPeers, peers } = a.node.status();
  assert.deepEqual([knownPeers, peers.length], [5_001, 1]);
  const since = performance.now();
  for (let i = 0; i < 100; i++) a.node.tick();
  assert.ok(performance.now() - since < 100, `100 ticks in ${performance.now() - since} ms`);
  for (const id of ids) a.node.markLost(id);
  a.node.markLost(b.id);
  clock.ahead += LOST_MS - 60_000;
  a.node.tick();
  assert.equal(a.node.status().knownPeers, 5_001);
  // a session that goes on counts from its last handshake
  await eventually(() => {
    send(a, b, 'y');
    return b.received.some(({ text }) => text === 'y');
  }, 'the packet after a new handshake');
  clock.ahead += 61_000;
  a.node.tick();
  assert.equal(a.node.status().knownPeers, 1);
  clock.ahead += LOST_MS;
  a.node.tick();
  assert.equal(a.node.status().knownPeers, 0);
  assert.equal(a.node.send(packetOf(a.address, b.address, 'z')), false);
});
