import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import type { UpdateWorkspaceProxyResponse } from '@ropewalk/contract';
import { addressOf, randomAddress, TAILNET_PREFIX } from '@ropewalk/tailnet/address';
import { DerpClient } from '@ropewalk/tailnet/derp/client';
import { KeyPair } from '@ropewalk/tailnet/keys';
import { createTestTemplate, eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { framedMessages, frameMessage } from '@ropewalk/wire/framed-messages';
import { linkSession } from '@ropewalk/wire/link-session';
import { CoordinateResponse_PeerUpdate_Kind as Kind } from '@ropewalk/wire/proto/tailnet';
import { MAX_RELAY_MESSAGE, PROXY_LINK_PATH, PROXY_TOKEN_HEADER, type RelayNews } from '@ropewalk/wire/proxy-link';
import { requestTunnel } from '@ropewalk/wire/tunnel';
import { uuidBytes, uuidText } from '@ropewalk/wire/uuid';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { liveReplicas } from '../../db/queries/replicas.ts';
import { dialAgent, type MadeAgent, makeAgents } from '../../rpc/testing/agents.ts';
import { Control } from '../../rpc/testing/tailnet.ts';

// Clients and agents that speak upstream's protocol, each at another server.

const MAX_MS = 5_000;
const env = { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable' };
let one: TestServer;
let two: TestServer;
before(async () => {
  one = await startTestServer({ env });
  two = await startTestServer({ joins: one, env });
});
after(async () => {
  await two.stop();
  await one.stop();
});

let made = 0;
async function makeAgent(owner?: string): Promise<MadeAgent> {
  const name = `w${++made}`;
  const template = await createTestTemplate(one, name);
  return (await makeAgents(one, template, name, owner === undefined ? {} : { token: owner })).agents[0]!;
}

/** An agent of upstream's kind at a server. */
async function joinAgent(t: TestContext, server: TestServer, agent: MadeAgent): Promise<Control> {
  const control = new Control(await dialAgent(server, agent.token, { ours: false }));
  t.after(() => control.connection.destroy());
  await control.publish(addressOf(TAILNET_PREFIX, uuidBytes(agent.id)));
  return control;
}

async function joinClient(
  t: TestContext,
  server: TestServer,
  agent: MadeAgent,
  { token = one.adminToken, resume = '' } = {},
): Promise<Control> {
  const query = `version=2.0${resume === '' ? '' : `&resume_token=${resume}`}`;
  const url = `${server.url}/api/v2/workspaceagents/${agent.id}/coordinate?${query}`;
  const { connection } = await dialWebSocket(url, { headers: { 'Coder-Session-Token': token } });
  const control = new Control(connection);
  t.after(() => connection.destroy());
  await control.send({ addTunnel: { id: uuidBytes(agent.id) } });
  await control.publish(randomAddress(TAILNET_PREFIX));
  return control;
}

/** A connection to the relay of a server. */
async function relayed(
  t: TestContext,
  server: TestServer,
  keys: KeyPair,
  received: string[] = [],
): Promise<DerpClient> {
  const { connection } = await dialWebSocket(`${server.url}/derp`, { protocols: ['derp'] });
  const onPacket = (_source: Buffer, packet: Buffer) => received.push(packet.toString());
  const derp = new DerpClient(byteStream(connection), { keys, onPacket });
  t.after(() => derp.close());
  await derp.ready;
  return derp;
}

async function relayStats(server: TestServer): Promise<{ dropped: Record<string, number>; packetsFromRelays: number }> {
  const headers = { 'Coder-Session-Token': one.adminToken };
  return (await fetch(`${server.url}/api/v2/debug/tailnet`, { headers })).json() as never;
}

/** Sends packets until one arrives. */
async function reaches(from: DerpClient, to: Control, received: string[], text: string): Promise<void> {
  await eventually(`the packet ${text}`, async () => {
    from.send(to.keys.publicKey, Buffer.from(text));
    await from.ping();
    return received.includes(text);
  });
}

test('introduces a client of one server to an agent of the other, and forwards their packets', async (t) => {
  const agent = await makeAgent();
  const control = await joinAgent(t, two, agent);
  const client = await joinClient(t, one, agent);
  await client.has(control);
  const { id } = await control.has(client);
  await control.send({ readyForHandshake: [{ id }] });
  await eventually('ready', async () => client.kinds().includes(Kind.READY_FOR_HANDSHAKE));

  const [atClient, atAgent]: [string[], string[]] = [[], []];
  // as a balancer may choose: each relay connection at the other server
  const near = await relayed(t, two, client.keys, atClient);
  const far = await relayed(t, one, control.keys, atAgent);
  await reaches(near, control, atAgent, 'there');
  await reaches(far, client, atClient, 'back');
  assert.ok((await relayStats(one)).packetsFromRelays > 0);

  // a stranger's packets stay at its relay
  const stranger = await relayed(t, two, KeyPair.generate());
  const before = (await relayStats(two)).dropped['denied']!;
  stranger.send(control.keys.publicKey, Buffer.from('strange'));
  await eventually('the denial', async () => (await relayStats(two)).dropped['denied']! > before);
  assert.ok(!atAgent.includes('strange'));

  await client.send({ disconnect: {} });
  await eventually('the end', async () => client.ended && control.kinds().includes(Kind.DISCONNECTED));
});

test('ends the tunnel and the packets of a person whose session is revoked, also after the client is cut off', async (t) => {
  for (const isCut of [false, true]) {
    const person = await insertPerson(one, `out-${isCut}`);
    const agent = await makeAgent(person.token);
    const control = await joinAgent(t, two, agent);
    const client = await joinClient(t, one, agent, { token: person.token });
    await Promise.all([client.has(control), control.has(client)]);
    const received: string[] = [];
    const near = await relayed(t, two, client.keys);
    await relayed(t, two, control.keys, received);
    await reaches(near, control, received, 'before');
    if (isCut) {
      client.connection.destroy();
      await eventually('the loss', async () => control.kinds().includes(Kind.LOST));
      await reaches(near, control, received, 'cut');
    }
    assert.equal((await two.api('POST', '/users/logout', { token: person.token })).status, 200);
    // the agent keeps the sessions of a client that is only lost
    await eventually('the end', async () => control.kinds().includes(Kind.DISCONNECTED), MAX_MS);
    await eventually(
      'the end of the permission',
      async () => {
        const before = (await relayStats(two)).dropped['denied']!;
        near.send(control.keys.publicKey, Buffer.from('after'));
        await near.ping();
        return (await relayStats(two)).dropped['denied']! > before;
      },
      MAX_MS,
    );
  }
});

/** A desktop client, which reaches several agents over one control connection. */
async function joinDesktop(t: TestContext, server: TestServer, agents: MadeAgent[], token: string): Promise<Control> {
  const { connection } = await dialWebSocket(`${server.url}/api/v2/tailnet?version=2.3`, {
    headers: { 'Coder-Session-Token': token },
  });
  const control = new Control(connection);
  t.after(() => connection.destroy());
  for (const { id } of agents) await control.send({ addTunnel: { id: uuidBytes(id) } });
  await control.publish(randomAddress(TAILNET_PREFIX));
  return control;
}

/** What an agent has last received about a client. */
const lastKind = (agent: Control, client: Uint8Array): Kind | undefined =>
  agent.updates.findLast(({ id, kind }) => kind !== Kind.READY_FOR_HANDSHAKE && Buffer.from(id).equals(client))?.kind;

test('ends one of the tunnels of a client when only the right to its agent ends, also after the client is cut off', {
  timeout: 60_000,
}, async (t) => {
  for (const isCut of [false, true]) {
    const name = `desk-${isCut}`;
    const person = await insertPerson(one, name, ['owner']);
    const agents = [await makeAgent(person.token), await makeAgent(), await makeAgent(person.token)];
    const [own, foreign, other] = (await Promise.all(agents.map((agent) => joinAgent(t, two, agent)))) as [
      Control,
      Control,
      Control,
    ];
    const client = await joinDesktop(t, one, agents, person.token);
    await Promise.all([own, foreign, other].map((control) => client.has(control)));
    const { id } = await own.has(client);
    await Promise.all([foreign.has(client), other.has(client)]);
    // each agent is ready for itself
    await foreign.send({ readyForHandshake: [{ id }] });
    await eventually('ready', async () => client.updates.some(({ kind }) => kind === Kind.READY_FOR_HANDSHAKE));
    const ready = client.updates.filter(({ kind }) => kind === Kind.READY_FOR_HANDSHAKE);
    assert.deepEqual(
      ready.map((update) => uuidText(update.id)),
      [agents[1]!.id],
    );
    if (isCut) {
      client.connection.destroy();
      await eventually('the loss', async () => [own, foreign, other].every((it) => lastKind(it, id) === Kind.LOST));
    }
    assert.equal((await one.api('PUT', `/users/${name}/roles`, { body: { roles: [] } })).status, 200);
    await eventually('the end', async () => lastKind(foreign, id) === Kind.DISCONNECTED, MAX_MS);
    const kept = isCut ? Kind.LOST : Kind.NODE;
    assert.deepEqual([lastKind(own, id), lastKind(other, id)], [kept, kept]);
    assert.equal((await two.api('POST', '/users/logout', { token: person.token })).status, 200);
    await eventually(
      'the end of all',
      async () => [own, other].every((it) => lastKind(it, id) === Kind.DISCONNECTED),
      MAX_MS,
    );
  }
});

/** What a server says about the only pair of two keys, to a workspace proxy at whose relay both are. */
async function pairAt(t: TestContext, server: TestServer, proxyToken: string, keys: KeyPair[]) {
  const { connection } = await dialWebSocket(`${server.url}${PROXY_LINK_PATH}`, {
    headers: { [PROXY_TOKEN_HEADER]: proxyToken },
  });
  const link = linkSession(connection, { role: 'client' });
  t.after(() => link.close());
  const stream = await requestTunnel(link, { service: 'relay' });
  for (const { publicKey } of keys)
    stream.write(frameMessage(Buffer.from(JSON.stringify({ key: publicKey.toString('hex'), isPresent: true }))));
  const pair = { isPermitted: false };
  const read = async () => {
    for await (const message of framedMessages(stream, MAX_RELAY_MESSAGE)) {
      const news = JSON.parse(message.toString()) as RelayNews;
      if ('pair' in news) pair.isPermitted = news.isPermitted;
    }
  };
  void read().catch(() => {});
  return pair;
}

test('a workspace proxy at either server learns of the pair of a client and an agent, and of its end', async (t) => {
  const { proxy_token: token } = (
    await one.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name: 'eu' } })
  ).body;
  const person = await insertPerson(one, 'far');
  const agent = await makeAgent(person.token);
  const control = await joinAgent(t, two, agent);
  const client = await joinClient(t, one, agent, { token: person.token });
  const keys = [control.keys, client.keys];
  const pairs = [await pairAt(t, one, token, keys), await pairAt(t, two, token, keys)];
  await Promise.all([client.has(control), control.has(client)]);
  await eventually('both permit the pair', () => pairs.every(({ isPermitted }) => isPermitted));
  assert.equal((await two.api('POST', '/users/logout', { token: person.token })).status, 200);
  await eventually('both end it', () => pairs.every(({ isPermitted }) => !isPermitted), MAX_MS);
});

test('the two throw-away keys of a check of the relay reach each other at two servers, with a few packets', {
  timeout: 60_000,
}, async (t) => {
  const [atOne, atTwo]: [string[], string[]] = [[], []];
  const [a, b] = [KeyPair.generate(), KeyPair.generate()];
  const [here, there] = [await relayed(t, one, a, atOne), await relayed(t, two, b, atTwo)];
  // as upstream's command does: a packet a second, of which one must arrive
  const sends = async (from: DerpClient, to: KeyPair, received: string[]) =>
    eventually('the packet', async () => {
      from.send(to.publicKey, Buffer.from('check'));
      await from.ping();
      return received.length > 0;
    });
  await sends(here, b, atTwo);
  await sends(there, a, atOne);
  const { dropped } = await relayStats(one);
  for (let n = 0; n < 100; n++) here.send(b.publicKey, Buffer.from(`${n}`));
  await here.ping();
  assert.ok((await relayStats(one)).dropped['budget']! - dropped['budget']! >= 36);
  const agent = await makeAgent();
  const control = await joinAgent(t, two, agent);
  const client = await joinClient(t, two, agent);
  await client.has(control);
  const received: string[] = [];
  await relayed(t, two, control.keys, received);
  const stranger = await relayed(t, one, KeyPair.generate());
  for (let n = 0; n < 10; n++) stranger.send(control.keys.publicKey, Buffer.from('strange'));
  await stranger.ping();
  await reaches(await relayed(t, one, client.keys), control, received, 'known');
  assert.ok(!received.includes('strange') && atTwo.length <= 64, `${atTwo.length}`);
});

test('a client gets the node of an agent that moves to its server and back, and learns of its loss', async (t) => {
  const agent = await makeAgent();
  const first = await joinAgent(t, two, agent);
  const client = await joinClient(t, one, agent);
  await client.has(first);
  first.connection.destroy();
  await eventually('the loss', async () => client.kinds().includes(Kind.LOST));
  for (const server of [one, two]) {
    const next = await joinAgent(t, server, agent);
    await Promise.all([client.has(next), next.has(client)]);
  }
  assert.equal(client.ended, false);
});

test('a client keeps its id at another server with its resume token', async (t) => {
  const agent = await makeAgent();
  const control = await joinAgent(t, two, agent);
  const first = await joinClient(t, one, agent);
  const { id } = await control.has(first);
  const { token } = await first.tailnet.refreshResumeToken({});
  const second = await joinClient(t, two, agent, { resume: token });
  assert.equal(uuidText((await control.has(second)).id), uuidText(id));
});

test('a client gets the node of an agent whose server is gone when it connects to another one', async (t) => {
  const three = await startTestServer({ joins: one, env });
  let isStopped = false;
  t.after(() => (isStopped ? undefined : three.stop()));
  const agent = await makeAgent();
  const client = await joinClient(t, one, agent);
  const there = await joinAgent(t, three, agent);
  await client.has(there);
  isStopped = true;
  await three.stop();
  await eventually('the loss', async () => client.kinds().includes(Kind.LOST));
  const next = await joinAgent(t, two, agent);
  await Promise.all([client.has(next), next.has(client)]);
});

test('an agent that moves after a client was cut off learns of the end of its right at its new server', {
  timeout: 60_000,
}, async (t) => {
  const three = await startTestServer({ joins: one, env });
  t.after(() => three.stop());
  const person = await insertPerson(one, 'gone');
  const agent = await makeAgent(person.token);
  const first = await joinAgent(t, two, agent);
  const client = await joinClient(t, one, agent, { token: person.token });
  await client.has(first);
  const { id } = await first.has(client);
  client.connection.destroy();
  await eventually('the loss', async () => lastKind(first, id) === Kind.LOST);
  const second = await joinAgent(t, three, agent);
  // a client of the same server shows that it has found the agent
  const other = await joinClient(t, one, agent);
  await Promise.all([other.has(second), second.has(other)]);
  assert.equal((await two.api('POST', '/users/logout', { token: person.token })).status, 200);
  await eventually('the end', async () => lastKind(second, id) === Kind.DISCONNECTED, MAX_MS);
  assert.deepEqual([other.ended, lastKind(second, (await second.has(other)).id)], [false, Kind.NODE]);
});

test('relays forward to a server that has just started, before the next sign of life', {
  timeout: 60_000,
}, async (t) => {
  const seenAt = async () =>
    (await liveReplicas(one.services.sql)).find(({ id }) => id === one.services.replicaId)!.seen_at.getTime();
  // from then on, for 5 s, the first server does not look for others by itself
  const before = await seenAt();
  await eventually('a sign of life', async () => (await seenAt()) > before);
  const three = await startTestServer({ joins: one, env });
  t.after(() => three.stop());
  const received: string[] = [];
  const there = KeyPair.generate();
  await relayed(t, three, there, received);
  const here = await relayed(t, one, KeyPair.generate());
  const send = async () => {
    here.send(there.publicKey, Buffer.from('check'));
    await here.ping();
    return received.length > 0;
  };
  await eventually('the packet', send, 2_500);
});
