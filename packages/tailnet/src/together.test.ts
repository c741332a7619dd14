import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import {
  CoordinateRequestSchema,
  CoordinateResponse_PeerUpdate_Kind as Kind,
  NodeSchema,
} from '@ropewalk/wire/proto/tailnet';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { addressOf, formatHostPrefix, randomAddress, TAILNET_PREFIX } from './address.ts';
import { Coordinator } from './coordinator/coordinator.ts';
import { agentRule, clientRule } from './coordinator/rules.ts';
import { DerpClient } from './derp/client.ts';
import { DerpRelay } from './derp/relay.ts';
import { decodeNodeKey, encodeNodeKey, formatDiscoKey, KeyPair } from './keys.ts';
import { hex } from './testing/vectors.ts';
import { Peer } from './wireguard/peer.ts';

// All parts together, in the order of a client that connects to an agent.

interface Part {
  coordinator: Coordinator;
  relay: DerpRelay;
  id: Buffer;
  address: Buffer;
  received: Buffer[];
}

/** A node that knows the others only through the coordinator, and reaches them only through the relay. */
async function node(t: TestContext, { coordinator, relay, id, address, received }: Part, target?: Buffer) {
  const keys = KeyPair.generate();
  const peers = new Map<string, Peer>();
  const [near, far] = duplexPair();
  void relay.accept(far);
  const derp = new DerpClient(near, {
    keys,
    relayKey: relay.publicKey,
    onPacket: (source, packet) => peers.get(hex(source)!)?.receive(packet),
  });
  await derp.ready;
  const rule = target ? clientRule((agent) => target.equals(agent)) : agentRule(id);
  const control = coordinator.connect({ id, owner: hex(id)!, rule });
  const request = (init: Parameters<typeof create<typeof CoordinateRequestSchema>>[1]) =>
    control.request(create(CoordinateRequestSchema, init));
  t.after(() => {
    control.close();
    derp.close();
  });
  const ready: string[] = [];
  void (async () => {
    for await (const { peerUpdates } of control.responses)
      for (const update of peerUpdates) {
        if (update.kind === Kind.READY_FOR_HANDSHAKE) ready.push(hex(update.id)!);
        if (update.kind !== Kind.NODE) continue;
        const peer = decodeNodeKey(update.node!.key)!;
        const onMessage = (message: Buffer) => derp.send(peer, message);
        peers.set(hex(peer)!, Peer.create({ keys, peer, onMessage, onPacket: (packet) => received.push(packet) })!);
        if (!target) await request({ readyForHandshake: [{ id: update.id }] });
      }
  })();
  const addresses = [formatHostPrefix(address)];
  const own = create(NodeSchema, {
    key: encodeNodeKey(keys.publicKey),
    disco: formatDiscoKey(KeyPair.generate().publicKey),
    preferredDerp: 999,
    addresses,
    allowedIps: addresses,
  });
  if (target) await request({ addTunnel: { id: target } });
  await request({ updateSelf: { node: own } });
  return { keys, peers, derp, control, ready };
}

function packet(from: Buffer, to: Buffer, text: string): Buffer {
  const header = Buffer.alloc(8);
  header[0] = 0x60;
  header.writeUInt16BE(text.length, 4);
  return Buffer.concat([header, from, to, Buffer.from(text)]);
}

test('a client reaches an agent through the coordinator, the relay and WireGuard, and no other client does', async (t) => {
  const coordinator = new Coordinator();
  const relay = new DerpRelay({ policy: coordinator });
  t.after(() => relay.close());
  const part = (id: Buffer, address: Buffer): Part => ({ coordinator, relay, id, address, received: [] });
  const agentId = Buffer.alloc(16, 0xaa);
  const atAgent = part(agentId, addressOf(TAILNET_PREFIX, agentId));
  const atClient = part(Buffer.alloc(16, 0xcc), randomAddress(TAILNET_PREFIX));
  const agent = await node(t, atAgent);
  const client = await node(t, atClient, agentId);
  await eventually(() => client.ready.includes(hex(agentId)!), 'the agent is ready');
  const toAgent = client.peers.get(hex(agent.keys.publicKey)!)!;
  const sent = Array.from({ length: 200 }, (_, i) => packet(atClient.address, atAgent.address, `${i}`.repeat(1 + i)));
  for (const one of sent) toAgent.send(one);
  await eventually(() => atAgent.received.length > 0, 'the handshake');
  // the session keeps the last 128 packets that came before the handshake
  await eventually(() => atAgent.received.at(-1)!.equals(sent.at(-1)!), 'the last packet');
  assert.deepEqual(atAgent.received, sent.slice(-128));
  agent.peers.get(hex(client.keys.publicKey)!)!.send(packet(atAgent.address, atClient.address, 'answer'));
  await eventually(() => atClient.received.length === 1, 'the answer');
  assert.equal(atClient.received[0]!.subarray(40).toString(), 'answer');

  // another client has no tunnel, but knows the agent's key
  const stranger = await node(t, part(Buffer.alloc(16, 0xdd), randomAddress(TAILNET_PREFIX)), Buffer.alloc(16, 0xee));
  const denied = relay.stats().dropped.denied;
  stranger.derp.send(agent.keys.publicKey, Buffer.from('x'));
  await eventually(() => relay.stats().dropped.denied === denied + 1, 'the denial');
  const [near, far] = duplexPair();
  void relay.accept(far);
  const unknown = new DerpClient(near, { keys: KeyPair.generate(), onPacket: () => assert.fail() });
  t.after(() => unknown.close());
  await unknown.ready;
  unknown.send(agent.keys.publicKey, Buffer.from('x'));
  await eventually(() => relay.stats().dropped.denied === denied + 2, 'the second denial');

  // the session outlives the client's control connection
  client.control.close();
  toAgent.send(packet(atClient.address, atAgent.address, 'still here'));
  await eventually(() => atAgent.received.at(-1)!.subarray(40).toString() === 'still here', 'the last packet');
});
