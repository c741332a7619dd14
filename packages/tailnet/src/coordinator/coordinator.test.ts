import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  type CoordinateRequest,
  CoordinateRequestSchema,
  type CoordinateResponse,
  CoordinateResponseSchema,
  CoordinateResponse_PeerUpdate_Kind as Kind,
  type Node,
  NodeSchema,
} from '@ropewalk/wire/proto/tailnet';
import { eventually, seededRandom } from '@ropewalk/wire/testing/sockets';
import { addressOf, formatHostPrefix, SERVICE_PREFIX, TAILNET_PREFIX } from '../address.ts';
import { encodeNodeKey, formatDiscoKey } from '../keys.ts';
import { fromHex, hex, vectors } from '../testing/vectors.ts';
import {
  type CoordinatedPeer,
  Coordinator,
  MAX_NODE_UPDATE_BURST,
  MAX_NODE_UPDATES_PER_SECOND,
  MAX_RESPONSES,
  MAX_TUNNELS,
} from './coordinator.ts';
import { agentRule, type CoordinateRule, clientRule, MAX_NODE_BYTES } from './rules.ts';

/** Every question whether a pair is permitted asks for the partners of both keys, too. */
class CheckedCoordinator extends Coordinator {
  override permits(source: string, destination: string): boolean {
    const isPermitted = super.permits(source, destination);
    assert.equal(this.partnersOf(source).includes(destination), isPermitted);
    assert.equal(this.partnersOf(destination).includes(source), isPermitted);
    return isPermitted;
  }
}

const ALLOW: CoordinateRule = () => undefined;
const AGENT = Buffer.alloc(16, 0xaa);
const CLIENT = Buffer.alloc(16, 0xcc);

function node(id: Uint8Array, key: number, endpoint = '192.0.2.1:1'): Node {
  const address = formatHostPrefix(addressOf(TAILNET_PREFIX, id));
  return create(NodeSchema, {
    key: encodeNodeKey(Buffer.alloc(32, key)),
    disco: formatDiscoKey(Buffer.alloc(32, key)),
    preferredDerp: 999,
    addresses: [address],
    allowedIps: [address],
    endpoints: [endpoint],
  });
}
const keyOf = (key: number): string => Buffer.alloc(32, key).toString('hex');

/** A connection whose responses are collected. */
class Connected {
  readonly responses: CoordinateResponse[] = [];
  readonly peer: CoordinatedPeer;
  ended = false;

  constructor(coordinator: Coordinator, id: Uint8Array, rule: CoordinateRule = ALLOW, owner = hex(id)!) {
    this.peer = coordinator.connect({ id, owner, rule });
    void this.#collect();
  }

  async #collect(): Promise<void> {
    for await (const response of this.peer.responses) this.responses.push(response);
    this.ended = true;
  }

  ask(request: MessageInitShape<typeof CoordinateRequestSchema>): Promise<void> {
    return this.peer.request(create(CoordinateRequestSchema, request));
  }

  /** What came since the last call, as `KIND id reason`, or the error. */
  async take(): Promise<string[]> {
    await new Promise((resolve) => setImmediate(resolve));
    return this.responses
      .splice(0)
      .flatMap(({ error, peerUpdates }) =>
        error
          ? [error]
          : peerUpdates.map(({ kind, id, reason }) => [Kind[kind], hex(id)!.slice(0, 2), reason].join(' ').trim()),
      );
  }
}

/** An agent and a client with a tunnel to it, which know each other. */
async function introduced(coordinator = new CheckedCoordinator()) {
  const agent = new Connected(coordinator, AGENT);
  await agent.ask({ updateSelf: { node: node(AGENT, 1) } });
  const client = new Connected(coordinator, CLIENT);
  await client.ask({ updateSelf: { node: node(CLIENT, 2) }, addTunnel: { id: AGENT } });
  assert.deepEqual(await client.take(), ['NODE aa add tunnel']);
  assert.deepEqual(await agent.take(), ['NODE cc add tunnel']);
  return { coordinator, agent, client };
}

test('answers the recorded agent and clients as recorded', async () => {
  const recorded =
    vectors<
      { request: string; events: { t: number; dir: 'client' | 'server'; kind: 'message' | 'close'; hex: string }[] }[]
    >('coordinate');
  const coordinator = new CheckedCoordinator();
  const agentId = fromHex('7ba0d12a084343109c26c08f0e5436fa');
  const clientIds = recorded[0]!.events
    .filter(({ dir, hex: bytes }) => dir === 'server' && bytes.length > 400)
    .map((event) => fromBinary(CoordinateResponseSchema, fromHex(event.hex)).peerUpdates[0]!.id);
  const ids = [agentId, ...clientIds];
  const rules = [agentRule(agentId), ...clientIds.map(() => clientRule((id) => agentId.equals(id)))];
  const connections: (Connected | undefined)[] = [];
  const steps = recorded.flatMap(({ events }, i) => events.map((event) => ({ ...event, i })));
  for (const step of steps.filter(({ dir }) => dir === 'client').toSorted((a, b) => a.t - b.t)) {
    connections[step.i] ??= new Connected(coordinator, ids[step.i]!, rules[step.i]!);
    await connections[step.i]!.peer.request(fromBinary(CoordinateRequestSchema, fromHex(step.hex)));
  }
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(connections.length, 3);
  for (const [i, { events }] of recorded.entries()) {
    const expected = events.filter(({ dir }) => dir === 'server');
    const responses = connections[i]!.responses.map((response) => hex(toBinary(CoordinateResponseSchema, response)));
    assert.deepEqual(
      responses,
      expected.flatMap(({ kind, hex: bytes }) => (kind === 'message' ? [bytes] : [])),
    );
    assert.equal(connections[i]!.ended, true);
  }
  assert.deepEqual(coordinator.size, { peers: 0, tunnels: 0 });
});

test('nodes pass in both directions of a tunnel, and again only when they changed', async () => {
  const { agent, client } = await introduced();
  await client.ask({ updateSelf: { node: node(CLIENT, 2) }, addTunnel: { id: AGENT } });
  assert.deepEqual([await agent.take(), await client.take()], [[], []]);
  await client.ask({ updateSelf: { node: node(CLIENT, 2, '192.0.2.9:9') } });
  await agent.ask({ updateSelf: { node: node(AGENT, 1, '192.0.2.8:8') } });
  assert.deepEqual(await agent.take(), ['NODE cc node update']);
  assert.deepEqual(await client.take(), ['NODE aa node update']);
  await agent.ask({ updateSelf: {} });
  assert.deepEqual(await client.take(), []);
});

test('a tunnel may be opened before its destination connects', async () => {
  const coordinator = new CheckedCoordinator();
  const client = new Connected(coordinator, CLIENT);
  await client.ask({ addTunnel: { id: AGENT } });
  await client.ask({ updateSelf: { node: node(CLIENT, 2) } });
  const agent = new Connected(coordinator, AGENT);
  assert.deepEqual(await agent.take(), ['NODE cc init']);
  await agent.ask({ updateSelf: { node: node(AGENT, 1) } });
  assert.deepEqual(await client.take(), ['NODE aa node update']);
});

test('many nodes come in batches when a peer connects', async () => {
  const coordinator = new CheckedCoordinator();
  for (let i = 0; i < 1_100; i++) {
    const id = Buffer.alloc(16);
    id.writeUInt32BE(i, 12);
    const client = coordinator.connect({ id, owner: 'the same', rule: ALLOW });
    const updateSelf = { node: node(id, 3) };
    await client.request(create(CoordinateRequestSchema, { updateSelf, addTunnel: { id: AGENT } }));
  }
  const agent = new Connected(coordinator, AGENT);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    agent.responses.map(({ peerUpdates }) => peerUpdates.length),
    [1_024, 76],
  );
});

test('removing a tunnel disconnects both ends', async () => {
  const { coordinator, agent, client } = await introduced();
  await client.ask({ removeTunnel: { id: AGENT } });
  await client.ask({ removeTunnel: { id: AGENT } });
  assert.deepEqual(await agent.take(), ['DISCONNECTED cc remove tunnel']);
  assert.deepEqual(await client.take(), ['DISCONNECTED aa remove tunnel']);
  assert.equal(coordinator.permits(keyOf(1), keyOf(2)), false);
  await client.ask({ addTunnel: { id: AGENT } });
  assert.deepEqual(await agent.take(), ['NODE cc add tunnel']);
});

test('removing one of two opposite tunnels disconnects neither end', async () => {
  const { coordinator, agent, client } = await introduced();
  await agent.ask({ addTunnel: { id: CLIENT } });
  await client.ask({ removeTunnel: { id: AGENT } });
  assert.deepEqual([await agent.take(), await client.take()], [[], []]);
  assert.equal(coordinator.permits(keyOf(1), keyOf(2)), true);
  await agent.ask({ removeTunnel: { id: CLIENT } });
  assert.deepEqual(await client.take(), ['DISCONNECTED aa remove tunnel']);
});

test('a graceful end is announced, and then the server ends the connection', async () => {
  const { coordinator, agent, client } = await introduced();
  await client.ask({ disconnect: {} });
  assert.deepEqual(await agent.take(), ['DISCONNECTED cc graceful disconnect']);
  assert.equal(client.ended, true);
  assert.deepEqual(coordinator.size, { peers: 1, tunnels: 0 });
  await client.ask({ updateSelf: { node: node(CLIENT, 2) } });
  client.peer.close();
  assert.deepEqual(await agent.take(), []);
});

test('a lost client ends its tunnels, and tunnels to a lost agent stay', async () => {
  const { coordinator, agent, client } = await introduced();
  agent.peer.close();
  assert.deepEqual(await client.take(), ['LOST aa lost']);
  assert.deepEqual(coordinator.size, { peers: 1, tunnels: 1 });
  const again = new Connected(coordinator, AGENT);
  await again.ask({ updateSelf: { node: node(AGENT, 3) } });
  assert.deepEqual(await again.take(), ['NODE cc init']);
  assert.deepEqual(await client.take(), ['NODE aa node update']);
  client.peer.close();
  assert.deepEqual(await again.take(), ['LOST cc lost']);
  assert.deepEqual(coordinator.size, { peers: 1, tunnels: 0 });
});

test('ends are announced only to peers that have the node', async () => {
  const coordinator = new CheckedCoordinator();
  const [agent, client] = [new Connected(coordinator, AGENT), new Connected(coordinator, CLIENT)];
  await client.ask({ addTunnel: { id: AGENT } });
  await client.ask({ removeTunnel: { id: AGENT } });
  await client.ask({ addTunnel: { id: AGENT } });
  client.peer.close();
  agent.peer.close();
  assert.deepEqual([await agent.take(), await client.take()], [[], []]);
});

test('a second connection with the same id replaces the first and keeps its tunnels', async () => {
  const { coordinator, agent, client } = await introduced();
  const second = new Connected(coordinator, CLIENT);
  assert.deepEqual(await client.take(), ['peer ID overwritten by new connection']);
  assert.equal(client.ended, true);
  assert.deepEqual(await agent.take(), []);
  assert.deepEqual(await second.take(), ['NODE aa init']);
  assert.equal(coordinator.permits(keyOf(1), keyOf(2)), true, 'before the new connection has published its node');
  client.peer.close();
  assert.deepEqual(await agent.take(), []);
  await second.ask({ updateSelf: { node: node(CLIENT, 2, '192.0.2.7:7') } });
  assert.deepEqual(await agent.take(), ['NODE cc node update']);
});

test('readiness passes to peers that share a tunnel', async () => {
  const { agent, client } = await introduced();
  const other = Buffer.alloc(16, 0xdd);
  await agent.ask({ readyForHandshake: [{ id: CLIENT }, { id: other }, { id: CLIENT }] });
  assert.deepEqual(await client.take(), ['READY_FOR_HANDSHAKE aa']);
  assert.deepEqual(await agent.take(), [
    'ready for handshake error: you do not share a tunnel with "dddddddd-dddd-dddd-dddd-dddddddddddd"',
  ]);
  assert.equal(agent.ended, false);
});

test('a violation of the rule ends the connection before any part of the request takes effect', async () => {
  const { coordinator, agent } = await introduced();
  const denied = new Connected(coordinator, Buffer.alloc(16, 0xee), async () => 'not here');
  await denied.ask({ updateSelf: { node: node(CLIENT, 9) }, addTunnel: { id: AGENT } });
  assert.deepEqual(await denied.take(), ['authorization: not here']);
  assert.equal(denied.ended, true);
  assert.deepEqual(await agent.take(), []);
  const failing = new Connected(coordinator, CLIENT, () => Promise.reject(new Error('no database')));
  await assert.rejects(failing.ask({ addTunnel: { id: AGENT } }), /no database/);
});

test('a peer that ended while its rule was asked has no further effect', async () => {
  const { coordinator, agent } = await introduced();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const id = Buffer.alloc(16, 0xee);
  const waiting = new Connected(coordinator, id, () => promise);
  const asked = waiting.ask({ updateSelf: { node: node(id, 9) }, addTunnel: { id: AGENT } });
  waiting.peer.close();
  resolve(undefined);
  await asked;
  assert.deepEqual(await agent.take(), []);
  assert.deepEqual(coordinator.size, { peers: 2, tunnels: 1 });
});

test('rules of clients and agents', async () => {
  const request = (init: MessageInitShape<typeof CoordinateRequestSchema>): CoordinateRequest =>
    create(CoordinateRequestSchema, init);
  const withAddresses = (addresses: string[], allowedIps = addresses) =>
    request({ updateSelf: { node: { ...node(CLIENT, 1), addresses, allowedIps } } });
  const client = clientRule(async (id) => AGENT.equals(id));
  assert.equal(await client(request({ addTunnel: { id: AGENT }, updateSelf: { node: node(CLIENT, 1) } })), undefined);
  assert.equal(await client(request({ addTunnel: { id: CLIENT } })), 'agent not accessible');
  assert.equal(await client(request({ addTunnel: { id: Buffer.alloc(3) } })), 'agent not accessible');
  const ready = request({ readyForHandshake: [{ id: AGENT }] });
  assert.equal(await client(ready), 'clients may not send ready_for_handshake');
  assert.equal(await client(withAddresses(['fd7a::/64'])), 'invalid node address "fd7a::/64"');
  assert.equal(await client(request({ updateSelf: { node: {} } })), 'invalid node key');
  const noDisco = { ...node(CLIENT, 1), disco: 'x' };
  assert.equal(await client(request({ updateSelf: { node: noDisco } })), 'invalid disco key');

  const agent = agentRule(AGENT);
  const own = [TAILNET_PREFIX, SERVICE_PREFIX].map((prefix) => formatHostPrefix(addressOf(prefix, AGENT)));
  assert.equal(await agent(withAddresses([...own, 'fd7a:115c:a1e0:49d6:b259:b7ac:b1b2:48f4/128'])), undefined);
  assert.equal(await agent(ready), undefined);
  assert.equal(await agent(request({ addTunnel: { id: CLIENT } })), 'agents cannot open tunnels');
  const foreign = formatHostPrefix(addressOf(TAILNET_PREFIX, CLIENT));
  assert.equal(await agent(withAddresses([foreign])), `invalid node address "${foreign}"`);
  assert.equal(await agent(withAddresses(own, [foreign])), `invalid node address "${foreign}"`);
});

const idOf = (number: number): Buffer => {
  const id = Buffer.alloc(16);
  id.writeUInt32BE(number, 12);
  return id;
};
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A peer whose responses are only read by `read`. */
async function unread(coordinator: Coordinator, id: Uint8Array, key: number) {
  const peer = coordinator.connect({ id, owner: hex(id)!, rule: ALLOW });
  const responses = peer.responses[Symbol.asyncIterator]();
  await peer.request(create(CoordinateRequestSchema, { updateSelf: { node: node(id, key) } }));
  const read = async (): Promise<CoordinateResponse> => (await responses.next()).value!;
  return { peer, read };
}

test('a peer that does not read the ends of its peers is lost', async () => {
  const coordinator = new CheckedCoordinator();
  const agent = await unread(coordinator, AGENT, 1);
  const other = new Connected(coordinator, Buffer.alloc(16, 0xdd));
  await other.ask({ addTunnel: { id: AGENT } });
  const visitors: Connected[] = [];
  for (let i = 0; i <= MAX_RESPONSES; i++) {
    const visitor = new Connected(coordinator, idOf(i), ALLOW, 'visitor');
    await visitor.ask({ updateSelf: { node: node(idOf(i), 5) }, addTunnel: { id: AGENT } });
    visitors.push(visitor);
  }
  assert.deepEqual(await other.take(), ['NODE aa add tunnel']);
  for (let got = 0; got < visitors.length; ) got += (await agent.read()).peerUpdates.length;
  for (const visitor of visitors.slice(1)) visitor.peer.close();
  assert.deepEqual(await other.take(), []);
  visitors[0]!.peer.close();
  assert.deepEqual(await other.take(), ['LOST aa failed update']);
  assert.deepEqual(coordinator.size, { peers: 1, tunnels: 1 });
});

test('any number of node updates of one client leaves one update waiting, the newest', async () => {
  const clock = { now: 0 };
  const coordinator = new CheckedCoordinator({ clock: { monotonic: () => clock.now } });
  const agent = await unread(coordinator, AGENT, 1);
  const client = new Connected(coordinator, CLIENT);
  await client.ask({ addTunnel: { id: AGENT } });
  for (let i = 1; i <= 3 * MAX_RESPONSES; i++) {
    clock.now += 1_000;
    await client.ask({ updateSelf: { node: node(CLIENT, 2, `192.0.2.1:${i}`) } });
    await agent.peer.request(create(CoordinateRequestSchema, { readyForHandshake: [{ id: CLIENT }] }));
  }
  const { peerUpdates } = await agent.read();
  assert.deepEqual(
    peerUpdates.map((update) => update.node?.endpoints),
    [[`192.0.2.1:${3 * MAX_RESPONSES}`]],
  );
  let rest = 0;
  void agent.read().then(() => rest++);
  await turn();
  assert.equal(rest, 0);
  assert.deepEqual(coordinator.size, { peers: 2, tunnels: 1 });
});

test('updates beyond the budget wait, and only the newest is published', async () => {
  const clock = { now: 0 };
  const coordinator = new CheckedCoordinator({ clock: { monotonic: () => clock.now } });
  const { agent, client } = await introduced(coordinator);
  const update = (i: number) => client.ask({ updateSelf: { node: node(CLIENT, 2, `192.0.2.1:${100 + i}`) } });
  const published = async () => {
    await turn();
    return agent.responses
      .splice(0)
      .flatMap(({ peerUpdates }) => peerUpdates.map((one) => Number(one.node!.endpoints[0]!.split(':')[1]) - 100));
  };
  for (let i = 1; i <= MAX_NODE_UPDATE_BURST + 10; i++) {
    await update(i);
    await turn();
  }
  const burst = Array.from({ length: MAX_NODE_UPDATE_BURST - 1 }, (_, i) => i + 1);
  assert.deepEqual(await published(), burst, 'the first update was the one before this test');
  coordinator.tick();
  assert.deepEqual(await published(), []);
  clock.now += 1_000 / MAX_NODE_UPDATES_PER_SECOND;
  coordinator.tick();
  assert.deepEqual(await published(), [MAX_NODE_UPDATE_BURST + 10]);
  clock.now += 1_000;
  coordinator.tick();
  assert.deepEqual(await published(), []);

  // a client that comes back with its id comes back with its budget
  client.peer.close();
  const again = new Connected(coordinator, CLIENT);
  await agent.take();
  await again.ask({ addTunnel: { id: AGENT } });
  for (let i = 1; i <= MAX_NODE_UPDATES_PER_SECOND + 1; i++) {
    await again.ask({ updateSelf: { node: node(CLIENT, 5 + i) } });
    await turn();
  }
  assert.equal((await published()).length, MAX_NODE_UPDATES_PER_SECOND);
  await again.ask({ disconnect: {} });
  clock.now += 10_000;
  coordinator.tick();
  assert.deepEqual(await agent.take(), ['DISCONNECTED cc graceful disconnect']);
  assert.equal(coordinator.introduced(keyOf(6 + MAX_NODE_UPDATES_PER_SECOND)), false);
});

test('the timer publishes an update that waited', async () => {
  const coordinator = new CheckedCoordinator();
  const { client } = await introduced(coordinator);
  for (let i = 0; i < MAX_NODE_UPDATE_BURST + 10; i++)
    await client.ask({ updateSelf: { node: node(CLIENT, 2, `192.0.2.1:${100 + i}`) } });
  const newest = `192.0.2.1:${100 + MAX_NODE_UPDATE_BURST + 9}`;
  assert.notEqual(coordinator.nodeOf(CLIENT)!.endpoints[0], newest);
  await eventually(() => coordinator.nodeOf(CLIENT)!.endpoints[0] === newest, 'the newest node');
});

test('a key of a connected or recently lost node is rejected from any other owner', async () => {
  const clock = { now: 0 };
  const coordinator = new CheckedCoordinator({ clock: { monotonic: () => clock.now } });
  const { agent, client } = await introduced(coordinator);
  const mallory = Buffer.alloc(16, 0xee);
  const publish = async (change: Partial<Node>, owner = 'mallory') => {
    const peer = new Connected(coordinator, mallory, ALLOW, owner);
    await peer.ask({ updateSelf: { node: { ...node(mallory, 3), ...change } }, addTunnel: { id: AGENT } });
    const answers = await peer.take();
    peer.peer.close('disconnected');
    return [...answers, peer.ended];
  };
  const [{ key }, { disco }] = [node(CLIENT, 2), node(CLIENT, 2)];
  const rejections = [
    ['authorization: the node key belongs to another owner', true],
    ['authorization: the disco key belongs to another owner', true],
  ];
  const accepted = ['NODE aa add tunnel', false];
  const stolen = async () => [await publish({ key }), await publish({ disco })];
  assert.deepEqual(await stolen(), rejections);
  assert.deepEqual(await agent.take(), [], 'a rejected request has no effect');

  client.peer.close('disconnected');
  clock.now += 15 * 60_000 - 1;
  assert.deepEqual(await stolen(), rejections);
  // the owner comes back with another id and the same keys, and is lost
  const again = new Connected(coordinator, Buffer.alloc(16, 0xcd), ALLOW, hex(CLIENT));
  await again.ask({ updateSelf: { node: node(CLIENT, 2) }, addTunnel: { id: AGENT } });
  assert.deepEqual(await again.take(), ['NODE aa add tunnel']);
  again.peer.close();
  clock.now += 15 * 60_000 - 1;
  assert.deepEqual(await stolen(), rejections);
  clock.now += 1;
  assert.deepEqual(await publish({ key }), accepted);
});

test('a key that a node had before, or that its budget delays, belongs to its owner too', async () => {
  const clock = { now: 0 };
  const coordinator = new CheckedCoordinator({ clock: { monotonic: () => clock.now } });
  const client = new Connected(coordinator, CLIENT);
  for (let i = 1; i <= MAX_NODE_UPDATE_BURST + 1; i++) await client.ask({ updateSelf: { node: node(CLIENT, i) } });
  assert.equal(coordinator.introduced(keyOf(MAX_NODE_UPDATE_BURST + 1)), false);
  for (const stolen of [1, MAX_NODE_UPDATE_BURST, MAX_NODE_UPDATE_BURST + 1]) {
    const mallory = new Connected(coordinator, Buffer.alloc(16, stolen), ALLOW, 'mallory');
    await mallory.ask({ updateSelf: { node: node(AGENT, stolen) } });
    assert.deepEqual(await mallory.take(), ['authorization: the node key belongs to another owner']);
  }
});

test('an id of a connected or lost peer is rejected from any other owner', async () => {
  const { coordinator, agent, client } = await introduced();
  const rejected = async () => {
    const other = new Connected(coordinator, CLIENT, ALLOW, 'mallory');
    await other.ask({ addTunnel: { id: AGENT } });
    assert.deepEqual(await other.take(), ['authorization: the peer ID belongs to another owner']);
    assert.equal(other.ended, true);
    await other.peer.forgotten;
    other.peer.close('disconnected');
  };
  await rejected();
  assert.deepEqual(coordinator.size, { peers: 2, tunnels: 1 });
  client.peer.close();
  await rejected();
  assert.equal(coordinator.permits(keyOf(1), keyOf(2)), true);
  assert.deepEqual(await agent.take(), ['LOST cc lost']);
  client.peer.close('disconnected');
  new Connected(coordinator, CLIENT, ALLOW, 'ann');
  assert.equal(coordinator.size.peers, 2);
});

test('a lost peer keeps its place until it comes back, for 15 minutes, or until its permission ends', async () => {
  const clock = { now: 0 };
  const coordinator = new CheckedCoordinator({ clock: { monotonic: () => clock.now } });
  const { agent, client } = await introduced(coordinator);
  const forgotten: string[] = [];
  const watch = (name: string, { peer }: Connected) => void peer.forgotten.then(() => forgotten.push(name));
  const state = async () => {
    coordinator.tick();
    await turn();
    return [...forgotten, coordinator.permits(keyOf(1), keyOf(2)), coordinator.introduced(keyOf(2))];
  };
  watch('first', client);
  client.peer.close();
  clock.now += 15 * 60_000 - 1;
  assert.deepEqual(await state(), [true, true]);
  const second = new Connected(coordinator, CLIENT);
  watch('second', second);
  client.peer.close('disconnected');
  client.peer.revoke(AGENT);
  assert.deepEqual(await state(), ['first', true, true], 'the first handle has no effect any more');
  await second.ask({ updateSelf: { node: node(CLIENT, 2) }, addTunnel: { id: AGENT } });
  assert.deepEqual(await second.take(), ['NODE aa add tunnel']);
  clock.now += 15 * 60_000;
  assert.deepEqual(await state(), ['first', true, true]);
  second.peer.close();
  clock.now += 15 * 60_000;
  assert.deepEqual(await state(), ['first', 'second', false, false]);

  const third = new Connected(coordinator, CLIENT);
  watch('third', third);
  await third.ask({ updateSelf: { node: node(CLIENT, 2) }, addTunnel: { id: AGENT } });
  third.peer.close();
  assert.deepEqual(await state(), ['first', 'second', true, true]);
  third.peer.close('disconnected');
  assert.deepEqual(await state(), ['first', 'second', 'third', false, false]);
  assert.deepEqual(await agent.take(), [
    'LOST cc lost',
    'NODE cc add tunnel',
    'LOST cc lost',
    'NODE cc add tunnel',
    'LOST cc lost',
    'DISCONNECTED cc revoked',
  ]);
});

test('revoking a permission of a lost client ends it, and no other', async () => {
  for (const first of ['client', 'agent'] as const) {
    const { coordinator, agent, client } = await introduced();
    const others = [0xbb, 0xbc].map((fill) => new Connected(coordinator, Buffer.alloc(16, fill)));
    for (const [i, other] of others.entries()) {
      const id = Buffer.alloc(16, 0xbb + i);
      await other.ask({ updateSelf: { node: node(id, 3 + i) } });
      await client.ask({ addTunnel: { id } });
    }
    if (first === 'agent') {
      agent.peer.close();
      others[0]!.peer.close();
    }
    client.peer.close();
    const permitted = () => [1, 3, 4].map((key) => coordinator.permits(keyOf(2), keyOf(key)));
    assert.deepEqual(permitted(), [true, true, true]);
    for (const each of [agent, ...others]) await each.take();
    client.peer.revoke(AGENT);
    assert.deepEqual(permitted(), [false, true, true], first);
    client.peer.revoke(Buffer.alloc(16, 0xbc));
    assert.deepEqual(permitted(), [false, true, false], first);
    // nodes keep the sessions of a peer that is only lost
    const ended = ['DISCONNECTED cc revoked'];
    assert.deepEqual(await agent.take(), first === 'agent' ? [] : ended);
    assert.deepEqual(await others[0]!.take(), []);
    assert.deepEqual(await others[1]!.take(), ended);
  }
});

test('a coordinator that closes ends all responses without updates', async () => {
  const { coordinator, agent, client } = await introduced();
  const lost = new Connected(coordinator, Buffer.alloc(16, 0xee));
  lost.peer.close();
  coordinator.close();
  assert.deepEqual([await agent.take(), await client.take(), agent.ended, client.ended], [[], [], true, true]);
  for (const { peer } of [agent, client, lost]) await peer.forgotten;
  const late = new Connected(coordinator, CLIENT);
  await late.ask({ updateSelf: { node: node(CLIENT, 2) } });
  assert.deepEqual([await late.take(), late.ended], [[], true]);
  assert.equal(coordinator.permits(keyOf(1), keyOf(2)), true, 'the relay goes on');
  assert.deepEqual(coordinator.size, { peers: 0, tunnels: 0 });
});

test('the number of tunnels of one peer is limited, and its ids have 16 bytes', async () => {
  const coordinator = new CheckedCoordinator();
  const client = new Connected(coordinator, CLIENT);
  for (let i = 0; i <= MAX_TUNNELS; i++) {
    const id = Buffer.alloc(16);
    id.writeUInt32BE(i);
    await client.ask({ addTunnel: { id } });
  }
  assert.deepEqual(await client.take(), [`too many tunnels: at most ${MAX_TUNNELS}`]);
  assert.deepEqual(coordinator.size, { peers: 0, tunnels: 0 });
  for (const id of [CLIENT, Buffer.alloc(15), Buffer.alloc(0)]) {
    const wrong = new Connected(coordinator, CLIENT);
    await wrong.ask({ addTunnel: { id } });
    assert.match((await wrong.take())[0]!, /invalid tunnel/);
    assert.equal(wrong.ended, true);
  }
  assert.throws(() => coordinator.connect({ id: Buffer.alloc(15), owner: 'ann', rule: ALLOW }), RangeError);
});

test('the relay permits peers that share a tunnel, and lost ones for 15 minutes', async () => {
  const clock = { now: 0 };
  const coordinator = new CheckedCoordinator({ clock: { monotonic: () => clock.now } });
  const { client } = await introduced(coordinator);
  const [agentKey, clientKey, other] = [keyOf(1), keyOf(2), keyOf(3)];
  const permitted = () => [coordinator.permits(agentKey, clientKey), coordinator.permits(clientKey, agentKey)];
  assert.deepEqual(permitted(), [true, true]);
  assert.deepEqual([coordinator.permits(clientKey, other), coordinator.permits(other, agentKey)], [false, false]);
  assert.deepEqual(
    [agentKey, clientKey, other].map((key) => coordinator.introduced(key)),
    [true, true, false],
  );
  assert.equal(coordinator.nodeOf(AGENT)?.preferredDerp, 999);
  client.peer.close();
  assert.deepEqual(permitted(), [true, true]);
  clock.now += 15 * 60_000 - 1;
  assert.deepEqual(permitted(), [true, true]);
  clock.now += 1;
  assert.deepEqual(permitted(), [false, false]);
  assert.deepEqual([coordinator.introduced(agentKey), coordinator.introduced(clientKey)], [true, false]);
});

test('the relay forgets peers that disconnect or whose permission ended', async () => {
  for (const end of ['request', 'close'] as const) {
    const { coordinator, client } = await introduced();
    if (end === 'request') await client.ask({ disconnect: {} });
    else client.peer.close('disconnected');
    assert.equal(coordinator.permits(keyOf(1), keyOf(2)), false, end);
    assert.equal(coordinator.introduced(keyOf(2)), false, end);
    // otherwise it could send a little to another node that lost its rights, as strangers may
    assert.equal(coordinator.owned(keyOf(2)), true, end);
  }
});

test('a client that cut its connection before it lost its rights keeps no permission', async () => {
  const { coordinator, client } = await introduced();
  client.peer.close();
  assert.equal(coordinator.permits(keyOf(2), keyOf(1)), true);
  client.peer.close('disconnected');
  assert.equal(coordinator.permits(keyOf(2), keyOf(1)), false);
});

test('a client that disconnects while its agent is lost keeps no permission', async () => {
  const { coordinator, agent, client } = await introduced();
  agent.peer.close();
  assert.equal(coordinator.permits(keyOf(2), keyOf(1)), true);
  client.peer.close('disconnected');
  assert.equal(coordinator.permits(keyOf(2), keyOf(1)), false);
});

test('revoking one tunnel disconnects both ends and leaves the others, also while the agent is lost', async () => {
  const { coordinator, agent, client } = await introduced();
  const other = new Connected(coordinator, Buffer.alloc(16, 0xbb));
  await other.ask({ updateSelf: { node: node(Buffer.alloc(16, 0xbb), 3) } });
  await client.ask({ addTunnel: { id: Buffer.alloc(16, 0xbb) } });
  await client.take();
  client.peer.revoke(AGENT);
  assert.deepEqual(await client.take(), ['DISCONNECTED aa remove tunnel']);
  assert.deepEqual(await agent.take(), ['DISCONNECTED cc remove tunnel']);
  assert.deepEqual([coordinator.permits(keyOf(2), keyOf(1)), coordinator.permits(keyOf(2), keyOf(3))], [false, true]);
  other.peer.close();
  assert.equal(coordinator.permits(keyOf(2), keyOf(3)), true);
  client.peer.revoke(Buffer.alloc(16, 0xbb));
  assert.equal(coordinator.permits(keyOf(2), keyOf(3)), false);
});

test('a node has a limited length', async () => {
  const large = node(CLIENT, 2, '1'.repeat(MAX_NODE_BYTES));
  const request = create(CoordinateRequestSchema, { updateSelf: { node: large } });
  const expected = `the node has more than ${MAX_NODE_BYTES} bytes`;
  assert.equal(await clientRule(() => true)(request), expected);
  assert.equal(await agentRule(CLIENT)(request), expected);
});

test('a client that could not resume its id is a second peer with the same key', async () => {
  const { coordinator, client } = await introduced();
  const second = new Connected(coordinator, Buffer.alloc(16, 0xdd), ALLOW, hex(CLIENT));
  await second.ask({ updateSelf: { node: node(CLIENT, 2) }, addTunnel: { id: AGENT } });
  client.peer.close('disconnected');
  assert.equal(coordinator.permits(keyOf(1), keyOf(2)), true);
  second.peer.close('disconnected');
  assert.equal(coordinator.permits(keyOf(1), keyOf(2)), false);
});

test('a tunnel that is removed after an interruption permits nothing', async () => {
  const { coordinator, agent, client } = await introduced();
  agent.peer.close();
  const again = new Connected(coordinator, AGENT);
  await again.ask({ updateSelf: { node: node(AGENT, 1) } });
  assert.equal(coordinator.permits(keyOf(1), keyOf(2)), true);
  await client.ask({ removeTunnel: { id: AGENT } });
  assert.equal(coordinator.permits(keyOf(1), keyOf(2)), false);
});

test('a node with another key is permitted with that key only', async () => {
  const { coordinator, client } = await introduced();
  await client.ask({ updateSelf: { node: node(CLIENT, 7) } });
  assert.deepEqual([coordinator.permits(keyOf(1), keyOf(7)), coordinator.permits(keyOf(1), keyOf(2))], [true, false]);
});

test('arbitrary requests of many peers leave nothing behind', async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = seededRandom(seed);
    const coordinator = new CheckedCoordinator();
    const ids = Array.from({ length: 8 }, (_, i) => Buffer.alloc(i === 7 ? 5 : 16, i));
    const open = new Map<number, Connected>();
    for (let i = 0; i < 300; i++) {
      const which = random(7);
      const peer = open.get(which) ?? new Connected(coordinator, ids[which]!);
      open.set(which, peer);
      const id = ids[random(random(20) ? 7 : 8)]!;
      await peer.ask({
        ...(random(3) === 0 && { updateSelf: { node: random(9) ? node(ids[which]!, which + 7 * random(3)) : {} } }),
        ...(random(3) === 0 && { addTunnel: { id } }),
        ...(random(6) === 0 && { removeTunnel: { id } }),
        ...(random(4) === 0 && { readyForHandshake: [{ id }] }),
        ...(random(20) === 0 && { disconnect: {} }),
      });
      if (random(15) === 0) peer.peer.close(random(2) ? 'lost' : 'disconnected');
      if (random(8) === 0) open.delete(which);
    }
    for (const [which, id] of ids.entries()) if (which < 7) new Connected(coordinator, id).peer.close('disconnected');
    assert.deepEqual(coordinator.size, { peers: 0, tunnels: 0 }, `seed ${seed}`);
  }
});

test('the server of the source decides about a tunnel: that of a mirror introduces nodes, but permits no packets', async () => {
  const here = new CheckedCoordinator();
  const agent = new Connected(here, AGENT);
  await agent.ask({ updateSelf: { node: node(AGENT, 1) } });
  const mirror = here.connect({ id: CLIENT, owner: 'person', rule: ALLOW, isMirror: true });
  const request = (init: MessageInitShape<typeof CoordinateRequestSchema>) =>
    mirror.request(create(CoordinateRequestSchema, init));
  await request({ addTunnel: { id: AGENT }, updateSelf: { node: node(CLIENT, 2) } });
  await eventually(() => agent.responses.some(({ peerUpdates }) => peerUpdates[0]?.kind === Kind.NODE), 'the node');
  assert.deepEqual([here.permits(keyOf(2), keyOf(1)), here.introduced(keyOf(2))], [false, true]);
  assert.deepEqual([here.isWanted(AGENT), here.isWantedHere(AGENT), here.wantedHere()], [true, false, []]);
  assert.deepEqual(here.size, { peers: 1, tunnels: 0 });
  assert.equal(here.recordOf(hex(CLIENT)!), undefined);
  // the loss of a mirror leaves no permission either
  mirror.close();
  assert.equal(here.permits(keyOf(2), keyOf(1)), false);

  const there = new CheckedCoordinator();
  const client = new Connected(there, CLIENT, ALLOW, 'person');
  const agentMirror = there.connect({ id: AGENT, owner: hex(AGENT)!, rule: ALLOW, isMirror: true });
  await agentMirror.request(create(CoordinateRequestSchema, { updateSelf: { node: node(AGENT, 1) } }));
  await client.ask({ addTunnel: { id: AGENT }, updateSelf: { node: node(CLIENT, 2) } });
  const pairs = () => there.recordOf(hex(CLIENT)!)?.pairs.map((pair) => [...pair].sort());
  assert.deepEqual(pairs(), [[keyOf(1), keyOf(2)]]);
  assert.ok(there.permits(keyOf(2), keyOf(1)) && there.isWantedHere(AGENT));
  assert.ok(there.takeChanged().includes(hex(CLIENT)!));
  // the agent's server is gone: the pair lingers, until the client's right ends
  agentMirror.close();
  assert.deepEqual([pairs(), there.permits(keyOf(2), keyOf(1))], [[[keyOf(1), keyOf(2)]], true]);
  client.peer.revoke(AGENT);
  assert.deepEqual([pairs(), there.permits(keyOf(2), keyOf(1))], [[], false]);
  assert.ok(there.takeChanged().includes(hex(CLIENT)!));
});

test('a mirror loses one of its tunnels, and the agent at its other end learns when the right ends', async () => {
  const coordinator = new CheckedCoordinator();
  const [first, second] = [AGENT, Buffer.alloc(16, 0xab)].map((id) => new Connected(coordinator, id)) as [
    Connected,
    Connected,
  ];
  await first.ask({ updateSelf: { node: node(AGENT, 1) } });
  await second.ask({ updateSelf: { node: node(Buffer.alloc(16, 0xab), 3) } });
  const connect = () => coordinator.connect({ id: CLIENT, owner: 'person', rule: ALLOW, isMirror: true });
  const ask = (peer: CoordinatedPeer, init: MessageInitShape<typeof CoordinateRequestSchema>) =>
    peer.request(create(CoordinateRequestSchema, init));
  const mirror = connect();
  for (const id of [AGENT, Buffer.alloc(16, 0xab)]) await ask(mirror, { addTunnel: { id } });
  await ask(mirror, { updateSelf: { node: node(CLIENT, 2) } });
  const taken = async () => [await first.take(), await second.take()];
  assert.deepEqual(await taken(), [['NODE cc node update'], ['NODE cc node update']]);
  mirror.revoke(AGENT, 'lost');
  assert.deepEqual(await taken(), [['LOST cc lost'], []]);
  mirror.revoke(AGENT);
  assert.deepEqual(await taken(), [['DISCONNECTED cc revoked'], []]);
  mirror.close();
  assert.deepEqual(await taken(), [[], ['LOST cc lost']]);
  // the client comes back to its server, for the first agent only
  const again = connect();
  await ask(again, { addTunnel: { id: AGENT }, updateSelf: { node: node(CLIENT, 2) } });
  again.revoke(Buffer.alloc(16, 0xab));
  assert.deepEqual(await taken(), [['NODE cc add tunnel'], ['DISCONNECTED cc revoked']]);
  again.close();
  again.close('disconnected');
  assert.deepEqual(await taken(), [['DISCONNECTED cc revoked'], []], 'the newest update counts');
  await again.forgotten;
});

test('an agent that is lost when the right of a client ends learns that when it comes back', async () => {
  const ends: [name: string, end: (client: Connected) => unknown][] = [
    ['revoked', ({ peer }) => peer.revoke(AGENT)],
    ['disconnected', ({ peer }) => peer.close('disconnected')],
    ['lost and revoked', ({ peer }) => [peer.close(), peer.revoke(AGENT)]],
    ['lost and disconnected', ({ peer }) => [peer.close(), peer.close('disconnected')]],
    ['only lost', ({ peer }) => peer.close()],
  ];
  for (const [name, end] of ends) {
    const { coordinator, agent, client } = await introduced();
    agent.peer.close();
    end(client);
    const again = new Connected(coordinator, AGENT);
    const expected = name === 'only lost' ? [] : ['DISCONNECTED cc revoked'];
    assert.deepEqual(await again.take(), expected, name);
    again.peer.close();
    assert.deepEqual(await new Connected(coordinator, AGENT).take(), [], 'only once');
  }
});

test('an agent is wanted for as long as a lost client may lose its right', async () => {
  const clock = { now: 0 };
  const coordinator = new CheckedCoordinator({ clock: { monotonic: () => clock.now } });
  const { client } = await introduced(coordinator);
  const isWanted = () => {
    assert.equal(coordinator.wantedHere().length, coordinator.isWantedHere(AGENT) ? 1 : 0);
    return coordinator.isWantedHere(AGENT);
  };
  client.peer.close();
  assert.deepEqual([isWanted(), coordinator.isWanted(AGENT)], [true, false]);
  client.peer.revoke(AGENT);
  assert.equal(isWanted(), false);
  const again = new Connected(coordinator, CLIENT);
  await again.ask({ addTunnel: { id: AGENT } });
  again.peer.close();
  assert.equal(isWanted(), true);
  clock.now += 15 * 60_000;
  coordinator.tick();
  assert.equal(isWanted(), false);
  // a new connection without a tunnel
  const lost = new Connected(coordinator, CLIENT);
  await lost.ask({ addTunnel: { id: AGENT } });
  lost.peer.close();
  new Connected(coordinator, CLIENT);
  assert.equal(isWanted(), false);
});

test('announces the end of a right that only another server knows, unless the two share a tunnel here', async () => {
  const { coordinator, agent, client } = await introduced();
  coordinator.disconnect(CLIENT, AGENT);
  coordinator.disconnect(Buffer.alloc(16, 0xee), AGENT);
  coordinator.disconnect(CLIENT, Buffer.alloc(16, 0xee));
  assert.deepEqual([await agent.take(), await client.take()], [['DISCONNECTED ee revoked'], []]);
});

test('a mirror never replaces a connection to this server, which replaces a mirror', async () => {
  const coordinator = new CheckedCoordinator();
  const mirror = coordinator.connect({ id: CLIENT, owner: 'person', rule: ALLOW, isMirror: true });
  const own = new Connected(coordinator, CLIENT, ALLOW, 'person');
  await mirror.forgotten;
  await coordinator.connect({ id: CLIENT, owner: 'person', rule: ALLOW, isMirror: true }).forgotten;
  await own.ask({ updateSelf: { node: node(CLIENT, 2) } });
  assert.deepEqual([own.ended, coordinator.ownerOf(CLIENT), coordinator.size.peers], [false, 'person', 1]);
});

test('does not accept a key that another server knows as that of another owner', async () => {
  const coordinator = new CheckedCoordinator({ mayPublish: (key) => key !== keyOf(2) });
  const client = new Connected(coordinator, CLIENT);
  await client.ask({ updateSelf: { node: node(CLIENT, 2) } });
  await eventually(() => client.ended, 'the end');
  assert.match(client.responses[0]!.error, /belongs to another owner/);
});
