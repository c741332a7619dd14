import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { AgentConnectionInfo, BytesSentRecv } from '@ropewalk/contract';
import { addressOf, formatHostPrefix, randomAddress, TAILNET_PREFIX } from '@ropewalk/tailnet/address';
import { DerpClient } from '@ropewalk/tailnet/derp/client';
import { encodeNodeKey, formatDiscoKey, KeyPair } from '@ropewalk/tailnet/keys';
import { createTestTemplate, eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import {
  type CoordinateRequestSchema,
  type CoordinateResponse_PeerUpdate,
  CoordinateResponse_PeerUpdate_Kind as Kind,
  NodeSchema,
  Tailnet,
} from '@ropewalk/wire/proto/tailnet';
import { uuidBytes, uuidText } from '@ropewalk/wire/uuid';
import { byteStream, dialWebSocket, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { dialAgent, finishBuild, type MadeAgent, makeAgents, refusal } from '../testing/agents.ts';

// Clients and agents that speak upstream's protocol, against a whole server.

/** A person's rights end for their tunnels within this time. */
const MAX_MS = 5_000;

let server: TestServer;
let member: { id: string; token: string };
before(async () => {
  server = await startTestServer({ env: { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable' } });
  member = await insertPerson(server, 'member');
});
after(() => server.stop());

type Init = Parameters<typeof create<typeof CoordinateRequestSchema>>[1];

/** A control connection with its Coordinate call. */
class Control {
  readonly connection: WebSocketConnection;
  readonly session: YamuxSession;
  readonly tailnet;
  readonly call;
  readonly keys: KeyPair = KeyPair.generate();
  readonly updates: CoordinateResponse_PeerUpdate[] = [];
  readonly errors: string[] = [];
  ended = false;

  constructor(connection: WebSocketConnection) {
    this.connection = connection;
    this.session = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false });
    this.tailnet = createDrpcClient(Tailnet, () => this.session.openStream());
    this.call = this.tailnet.coordinate();
    void this.#read();
  }

  async #read(): Promise<void> {
    try {
      for (;;) {
        const response = await this.call.receive();
        if (!response) break;
        if (response.error) this.errors.push(response.error);
        this.updates.push(...response.peerUpdates);
      }
    } catch (err) {
      if (!/closed|ended/.test(String(err))) this.errors.push(String(err));
    }
    this.ended = true;
  }

  send(init: Init): Promise<void> {
    return this.call.send(init as never);
  }

  publish(address: Uint8Array, more: object = {}): Promise<void> {
    const addresses = [formatHostPrefix(address)];
    const node = create(NodeSchema, {
      key: encodeNodeKey(this.keys.publicKey),
      disco: formatDiscoKey(KeyPair.generate().publicKey),
      preferredDerp: 999,
      addresses,
      allowedIps: addresses,
      ...more,
    });
    return this.send({ updateSelf: { node } });
  }

  /** The last kind of update about the peer with this key, by its node. */
  kinds(): Kind[] {
    return this.updates.map(({ kind }) => kind);
  }

  /** Waits until it has received the node of this control connection. */
  async has(other: Control): Promise<CoordinateResponse_PeerUpdate> {
    return eventually('the node', async () =>
      this.updates.find(({ node }) => node && Buffer.from(node.key).equals(encodeNodeKey(other.keys.publicKey))),
    ) as Promise<CoordinateResponse_PeerUpdate>;
  }
}

async function dial(t: TestContext, path: string, token = server.adminToken): Promise<Control> {
  const { connection } = await dialWebSocket(`${server.url}/api/v2${path}`, {
    headers: { 'Coder-Session-Token': token },
  });
  const control = new Control(connection);
  t.after(() => control.connection.destroy());
  return control;
}

const coordinate = (agent: Pick<MadeAgent, 'id'>, query = 'version=2.0') =>
  `/workspaceagents/${agent.id}/coordinate?${query}`;

let made = 0;
/** A workspace with an agent of upstream's kind, which has published its node. */
async function joinedAgent(t: TestContext, owner?: string) {
  const name = `w${++made}`;
  const template = await createTestTemplate(server, name);
  const { agents, workspace } = await makeAgents(server, template, name, owner === undefined ? {} : { token: owner });
  const agent = agents[0]!;
  const control = new Control(await dialAgent(server, agent.token, { ours: false }));
  t.after(() => control.connection.destroy());
  await control.publish(addressOf(TAILNET_PREFIX, uuidBytes(agent.id)));
  return { agent, workspace, control };
}

async function joinedClient(t: TestContext, agent: MadeAgent, token?: string): Promise<Control> {
  const client = await dial(t, coordinate(agent), token);
  await client.send({ addTunnel: { id: uuidBytes(agent.id) } });
  await client.publish(randomAddress(TAILNET_PREFIX));
  return client;
}

/** A connection to the relay with the keys of a node. */
async function relayed(t: TestContext, keys: KeyPair, received: string[] = []): Promise<DerpClient> {
  const { connection } = await dialWebSocket(`${server.url}/derp`, { protocols: ['derp'] } as never);
  const derp = new DerpClient(byteStream(connection), {
    keys,
    onPacket: (_source, packet) => received.push(packet.toString()),
  });
  t.after(() => derp.close());
  await derp.ready;
  return derp;
}

test('introduces a client to an agent, and forwards their packets', async (t) => {
  const { agent, control } = await joinedAgent(t);
  const client = await joinedClient(t, agent);
  const { node } = await client.has(control);
  assert.deepEqual(node!.addresses, [formatHostPrefix(addressOf(TAILNET_PREFIX, uuidBytes(agent.id)))]);
  const { id } = await control.has(client);
  await control.send({ readyForHandshake: [{ id }] });
  await eventually('ready', async () => client.kinds().includes(Kind.READY_FOR_HANDSHAKE));
  const received: string[] = [];
  const near = await relayed(t, client.keys);
  await relayed(t, control.keys, received);
  near.send(control.keys.publicKey, Buffer.from('hello'));
  await eventually('the packet', async () => received.includes('hello'));
  const { body } = await server.api<BytesSentRecv[]>('GET', '/debug/derp/traffic');
  const sender = body.find(({ key }) => key === `nodekey:${client.keys.publicKey.toString('hex')}`);
  assert.ok(sender && sender.recv > 0, JSON.stringify(body));
  // in order: the agent learns it, and the server closes the call
  await client.send({ disconnect: {} });
  await eventually('the end', async () => client.ended && control.kinds().includes(Kind.DISCONNECTED));
});
