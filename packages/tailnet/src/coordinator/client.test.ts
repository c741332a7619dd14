import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { silentLogger } from '@ropewalk/kit';
import { CoordinateRequestSchema, type Node, NodeSchema } from '@ropewalk/wire/proto/tailnet';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { addressOf, formatHostPrefix, randomAddress, TAILNET_PREFIX } from '../address.ts';
import { DerpRelay } from '../derp/relay.ts';
import { encodeNodeKey, formatDiscoKey, KeyPair } from '../keys.ts';
import { TailnetNode } from '../node/tailnet-node.ts';
import { ControlServer } from '../testing/control-server.ts';
import { packetOf } from '../testing/nodes.ts';
import { RelayServer } from '../testing/relay-server.ts';
import { CoordinatorClient, type CoordinatorClientOptions, READY_MS } from './client.ts';
import { clientRule } from './rules.ts';

// Nodes, a coordinator and a relay that know each other only through their protocols.

async function setUp(t: TestContext) {
  const control: { server?: ControlServer } = {};
  const policy = {
    introduced: (key: string) => control.server!.coordinator.introduced(key),
    permits: (source: string, destination: string) => control.server!.coordinator.permits(source, destination),
  };
  const relay = new DerpRelay({ policy });
  t.after(() => relay.close());
  const http = await RelayServer.start(t, relay);
  const node = { name: '999b', regionId: 999n, hostName: 'elsewhere.example', derpPort: 1, stunPort: -1 };
  const region = { regionId: 999n, embeddedRelay: true, regionName: 'Embedded', nodes: [node] };
  const server = new ControlServer({ homeParams: {}, regions: { 999: region } });
  control.server = server;
  t.after(() => server.close());
  return { server, relay, url: http.url };
}

type Setup = Awaited<ReturnType<typeof setUp>>;

function part(
  t: TestContext,
  { server, url }: Setup,
  { agent, ...options }: Partial<CoordinatorClientOptions> & { agent?: Buffer } = {},
) {
  const address = agent ? addressOf(TAILNET_PREFIX, agent) : randomAddress(TAILNET_PREFIX);
  const received: string[] = [];
  const node = new TailnetNode({
    ...{ keys: KeyPair.generate(), id: 1n, addresses: [address], blockDirect: true },
    onPacket: (packet) => received.push(packet.subarray(40).toString()),
  });
  const connected: boolean[] = [];
  const client = new CoordinatorClient({
    ...{ node, serverUrl: url, role: agent ? 'agent' : 'client' },
    dial: agent ? server.dialAsAgent(agent) : server.dialAsClient,
    onConnected: (isConnected) => connected.push(isConnected),
    ...options,
  });
  const running = client.run();
  running.catch(() => {});
  t.after(async () => {
    await client.close();
    node.close();
  });
  return { node, client, address, received, running, connected };
}

type Part = ReturnType<typeof part>;

async function reaches(from: Part, to: Part, text: string) {
  await eventually(() => {
    from.node.send(packetOf(from.address, to.address, text));
    return to.received.includes(text);
  }, `"${text}" arrives`);
}

const AGENT = Buffer.alloc(16, 0xaa);

test('a client reaches an agent, also while the coordinator is away and after it restarted', async (t) => {
  const setup = await setUp(t);
  const { server } = setup;
  const agent = part(t, setup, { agent: AGENT });
  const client = part(t, setup);
  client.client.addTunnel(AGENT);
  await reaches(client, agent, 'hello');
  await reaches(agent, client, 'and back');
  assert.deepEqual(client.node.ids, [AGENT]);
  const [clientId] = agent.node.ids;
  await eventually(() => server.refreshes === 1, 'the resume token');

  server.isUp = false;
  await server.restart();
  await eventually(() => client.connected.at(-1) === false && agent.connected.at(-1) === false, 'the loss');
  await reaches(client, agent, 'without a coordinator');
  assert.equal(client.node.status().peers[0]!.isLost, true);

  server.isUp = true;
  await eventually(() => agent.node.status().peers[0]!.isLost === false, 'the client is back');
  await eventually(() => client.node.status().peers[0]!.isLost === false, 'the agent is back');
  assert.deepEqual(agent.node.ids, [clientId], 'the client kept its id');
  await reaches(client, agent, 'after the restart');
});

test('a client whose resume token is rejected comes back with another id and the same sessions', async (t) => {
  const setup = await setUp(t);
  const agent = part(t, setup, { agent: AGENT });
  const client = part(t, setup);
  client.client.addTunnel(AGENT);
  await reaches(client, agent, 'hello');
  await eventually(() => setup.server.refreshes === 1, 'the resume token');
  const handshake = client.node.status().peers[0]!.handshakeAt;
  setup.server.tokens.clear();
  await setup.server.restart();
  await eventually(() => agent.node.ids.length === 2, 'the second id');
  await reaches(client, agent, 'again');
  await eventually(() => client.node.status().peers[0]!.isLost === false, 'the agent is back');
  assert.deepEqual(client.node.status().peers[0]!.handshakeAt, handshake);
  assert.equal(agent.node.status().knownPeers, 1);
});

test('the end of a client, and of a tunnel, removes the peer at the other end', async (t) => {
  const setup = await setUp(t);
  const agent = part(t, setup, { agent: AGENT });
  const [first, second] = [part(t, setup), part(t, setup)];
  for (const { client } of [first, second]) client.addTunnel(AGENT);
  await reaches(first, agent, 'one');
  await reaches(second, agent, 'two');
  first.client.removeTunnel(AGENT);
  assert.deepEqual(first.node.ids, []);
  await eventually(() => agent.node.ids.length === 1, 'the end of the tunnel');
  await second.client.close();
  await second.running;
  await eventually(() => agent.node.ids.length === 0, 'the end of the client');
  assert.equal(first.connected.at(-1), true);
});

test('a client waits for an agent that is not ready, but not for long', async (t) => {
  const setup = await setUp(t);
  // this agent never says that it is ready
  const silent = setup.server.coordinator.connect({ id: AGENT, owner: 'agent', rule: clientRule(() => true) });
  t.after(() => silent.close());
  const address = [formatHostPrefix(addressOf(TAILNET_PREFIX, AGENT))];
  const publish = (preferredDerp: number) =>
    silent.request(create(CoordinateRequestSchema, { updateSelf: { node: silentNode(address, preferredDerp) } }));
  const waits: { ms: number; end: () => void }[] = [];
  const clock = {
    now: () => new Date(),
    monotonic: () => performance.now(),
    sleep: (ms: number, signal?: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        waits.push({ ms, end: resolve });
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
      }),
  };
  const lines: string[] = [];
  const log = { ...silentLogger, debug: (line: string) => lines.push(line) };
  const client = part(t, setup, { clock, log });
  client.client.addTunnel(AGENT);
  const readyWaits = () => waits.filter(({ ms }) => ms === READY_MS);
  await publish(0);
  await eventually(() => lines.includes('Ignored a peer without a home'), 'the node without a home');
  assert.equal(readyWaits().length, 0);
  await publish(999);
  await eventually(() => readyWaits().length === 1, 'the client waits');
  assert.deepEqual(client.node.ids, []);
  readyWaits()[0]!.end();
  await eventually(() => client.node.ids.length === 1, 'it waits no longer');
});

const silentKeys = KeyPair.generate();

function silentNode(addresses: string[], preferredDerp: number): Node {
  return create(NodeSchema, {
    key: encodeNodeKey(silentKeys.publicKey),
    disco: formatDiscoKey(silentKeys.publicKey),
    ...{ preferredDerp, addresses, allowedIps: addresses },
  });
}

test('only a final error of the first attempt ends a client', async (t) => {
  const setup = await setUp(t);
  const dial = () => Promise.reject(new Error('not found'));
  const refused = part(t, setup, { dial, isFinal: () => true });
  await assert.rejects(refused.running, { message: 'not found' });
  let attempts = 0;
  const flaky = part(t, setup, {
    isFinal: (err) => (err as Error).message === 'final',
    dial: async (options) => {
      attempts++;
      if (attempts === 1) throw new Error('passing');
      if (attempts === 3) throw new Error('final');
      return await setup.server.dialAsClient(options);
    },
  });
  await eventually(() => flaky.connected.at(-1) === true, 'the second attempt');
  await setup.server.restart();
  await eventually(() => attempts >= 4 && flaky.connected.at(-1) === true, 'the fourth attempt');
});
