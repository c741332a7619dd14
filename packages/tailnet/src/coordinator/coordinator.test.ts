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
import { seededRandom } from '@ropewalk/wire/test-sockets';
import { addressOf, formatHostPrefix, SERVICE_PREFIX, TAILNET_PREFIX } from '../address.ts';
import { encodeNodeKey, formatDiscoKey } from '../keys.ts';
import { fromHex, hex, vectors } from '../testing/vectors.ts';
import { type CoordinatedPeer, Coordinator, MAX_RESPONSES, MAX_TUNNELS } from './coordinator.ts';
import { agentRule, type CoordinateRule, clientRule, MAX_NODE_BYTES } from './rules.ts';

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

  constructor(coordinator: Coordinator, id: Uint8Array, rule: CoordinateRule = ALLOW) {
    this.peer = coordinator.connect({ id, rule });
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
async function introduced(coordinator = new Coordinator()) {
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
  const coordinator = new Coordinator();
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
  const coordinator = new Coordinator();
  const client = new Connected(coordinator, CLIENT);
  await client.ask({ addTunnel: { id: AGENT } });
  await client.ask({ updateSelf: { node: node(CLIENT, 2) } });
  const agent = new Connected(coordinator, AGENT);
  assert.deepEqual(await agent.take(), ['NODE cc init']);
  await agent.ask({ updateSelf: { node: node(AGENT, 1) } });
  assert.deepEqual(await client.take(), ['NODE aa node update']);
});

test('many nodes come in batches when a peer connects', async () => {
  const coordinator = new Coordinator();
  for (let i = 0; i < 1_100; i++) {
    const id = Buffer.alloc(16);
    id.writeUInt32BE(i, 12);
    const client = coordinator.connect({ id, rule: ALLOW });
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
  const coordinator = new Coordinator();
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
  assert.deepEqual(await client.take(), ['READY_FOR_HANDSHAKE aa', 'READY_FOR_HANDSHAKE aa']);
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

test('a peer that does not read its responses is lost', async () => {
  const coordinator = new Coordinator();
  const { client } = await introduced(coordinator);
  // a peer whose responses are never read
  const stuck = coordinator.connect({ id: Buffer.alloc(16, 0xee), rule: ALLOW });
  await stuck.request(
    create(CoordinateRequestSchema, { updateSelf: { node: node(CLIENT, 5) }, addTunnel: { id: CLIENT } }),
  );
  for (let i = 0; i < MAX_RESPONSES - 1; i++)
    await client.ask({ updateSelf: { node: node(CLIENT, 2, `192.0.2.1:${i + 2}`) } });
  assert.deepEqual(await client.take(), ['NODE ee add tunnel']);
  await client.ask({ updateSelf: { node: node(CLIENT, 2, '192.0.2.1:9999') } });
  assert.deepEqual(await client.take(), ['LOST ee failed update']);
  assert.deepEqual(coordinator.size, { peers: 2, tunnels: 1 });
  let count = 0;
  for await (const response of stuck.responses) count += response.peerUpdates.length;
  assert.equal(count, MAX_RESPONSES);
});

test('the number of tunnels of one peer is limited, and its ids have 16 bytes', async () => {
  const coordinator = new Coordinator();
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
  assert.throws(() => coordinator.connect({ id: Buffer.alloc(15), rule: ALLOW }), RangeError);
});

test('the relay permits peers that share a tunnel, and lost ones for 15 minutes', async () => {
  const clock = { now: 0 };
  const coordinator = new Coordinator({ clock: { monotonic: () => clock.now } });
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
  const second = new Connected(coordinator, Buffer.alloc(16, 0xdd));
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
    const coordinator = new Coordinator();
    const ids = Array.from({ length: 8 }, (_, i) => Buffer.alloc(i === 7 ? 5 : 16, i));
    const open = new Map<number, Connected>();
    for (let i = 0; i < 300; i++) {
      const which = random(7);
      const peer = open.get(which) ?? new Connected(coordinator, ids[which]!);
      open.set(which, peer);
      const id = ids[random(random(20) ? 7 : 8)]!;
      await peer.ask({
        ...(random(3) === 0 && { updateSelf: { node: random(9) ? node(ids[which]!, random(20)) : {} } }),
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
