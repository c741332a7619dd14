import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import type { BytesSentRecv } from '@ropewalk/contract';
import { addressOf, formatHostPrefix, randomAddress, TAILNET_PREFIX } from '@ropewalk/tailnet/address';
import { DerpClient } from '@ropewalk/tailnet/derp/client';
import type { Restart } from '@ropewalk/tailnet/derp/frames';
import { encodeNodeKey, KeyPair } from '@ropewalk/tailnet/keys';
import {
  createTestTemplate,
  eventually,
  insertPerson,
  limitedToken,
  startTestServer,
  type TestServer,
} from '@ropewalk/testkit';
import { CoordinateResponse_PeerUpdate_Kind as Kind, Workspace_Status } from '@ropewalk/wire/proto/tailnet';
import { uuidBytes, uuidText } from '@ropewalk/wire/uuid';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { tokenScope } from '../../authz/scope.ts';
import { dialAgent, finishBuild, type MadeAgent, makeAgents, refusal } from '../testing/agents.ts';
import { Control } from '../testing/tailnet.ts';

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
  const { connection } = await dialWebSocket(`${server.url}/derp`, { protocols: ['derp'] });
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

const denied = async () => JSON.parse(await debug('tailnet')).dropped.denied as number;
async function debug(page: string): Promise<string> {
  const headers = { 'Coder-Session-Token': server.adminToken };
  return (await fetch(`${server.url}/api/v2/debug/${page}`, { headers })).text();
}

/** Asserts that the relay forwards from one node to the other, or that it does not. */
async function forwards(t: TestContext, from: Control, to: Control, does: boolean): Promise<void> {
  const received: string[] = [];
  const source = await relayed(t, from.keys);
  const destination = await relayed(t, to.keys, received);
  const before = await denied();
  source.send(to.keys.publicKey, Buffer.from('packet'));
  await eventually(does ? 'the packet' : 'the denial', async () =>
    does ? received.length > 0 : (await denied()) > before,
  );
  assert.equal(received.length > 0, does);
  source.close();
  destination.close();
}

/** A client of a person and an agent that have each other's nodes, and that the relay forwards for. */
async function introduced(t: TestContext, person: { token: string }, owner?: string) {
  const joined = await joinedAgent(t, owner);
  const client = await joinedClient(t, joined.agent, person.token);
  await Promise.all([client.has(joined.control), joined.control.has(client)]);
  await forwards(t, client, joined.control, true);
  return { ...joined, client };
}

/** Asserts that the agent loses the client within 5 s of this change, and that the relay forwards nothing afterwards. */
async function endsWith(
  t: TestContext,
  { client, control }: { client: Control; control: Control },
  change: () => Promise<unknown>,
): Promise<void> {
  await change();
  await eventually('the end', async () => control.kinds().includes(Kind.DISCONNECTED), MAX_MS);
  await forwards(t, client, control, false);
}

test('ends the tunnel of a person whose session is revoked', async (t) => {
  const person = await insertPerson(server, 'signed-out');
  const both = await introduced(t, person, person.token);
  await endsWith(t, both, async () => {
    const { status } = await server.api('POST', '/users/logout', { token: person.token });
    assert.equal(status, 200);
  });
  await eventually('the connection', async () => both.client.session.isClosed, MAX_MS);
});

test('ends the tunnel of a person who loses the role for it', async (t) => {
  const boss = await insertPerson(server, 'boss', ['owner']);
  const both = await introduced(t, boss);
  await endsWith(t, both, async () => {
    const { status } = await server.api('PUT', '/users/boss/roles', { body: { roles: [] } });
    assert.equal(status, 200);
  });
});

test('ends the tunnel of a client that has cut its control connection before its session is revoked', async (t) => {
  const person = await insertPerson(server, 'cut');
  const both = await introduced(t, person, person.token);
  both.client.connection.destroy();
  await eventually('the loss', async () => both.control.kinds().includes(Kind.LOST));
  // nodes outlive an interruption of the coordination
  await forwards(t, both.client, both.control, true);
  await server.api('POST', '/users/logout', { token: person.token });
  // the agent keeps the sessions of a client that is only lost
  await eventually('the end', async () => both.control.kinds().includes(Kind.DISCONNECTED), MAX_MS);
  await eventually('the end of the permission', async () => {
    const before = await denied();
    const received: string[] = [];
    const source = await relayed(t, both.client.keys);
    const destination = await relayed(t, both.control.keys, received);
    source.send(both.control.keys.publicKey, Buffer.from('packet'));
    await eventually('an outcome', async () => received.length > 0 || (await denied()) > before);
    source.close();
    destination.close();
    return received.length === 0;
  });
});

test('ends the tunnels to the agent of a workspace that is stopped', async (t) => {
  const both = await introduced(t, { token: server.adminToken });
  const { status } = await server.api('POST', `/workspaces/${both.workspace.id}/builds`, {
    body: { transition: 'stop' },
  });
  assert.equal(status, 201);
  await finishBuild(server, []);
  await eventually('the end', async () => both.client.session.isClosed, MAX_MS);
  await forwards(t, both.client, both.control, false);
  const again = dial(t, coordinate(both.agent));
  assert.equal((await refusal(again)).status, 404);
});

test('rejects clients without the right, with a wrong version, or with a wrong resume token', async (t) => {
  const { agent } = await joinedAgent(t);
  const rejected = async (path: string, token?: string) => {
    const dialed = dialWebSocket(`${server.url}/api/v2${path}`, {
      headers: { 'Coder-Session-Token': token ?? server.adminToken },
    });
    try {
      await dialed;
    } catch (err) {
      const { status, body } = err as { status: number; body: string };
      const { message, validations } = JSON.parse(body) as { message: string; validations?: { detail: string }[] };
      return [status, message, ...(validations ?? []).map(({ detail }) => detail)];
    }
    return assert.fail('it was let in');
  };
  const notFound = [404, 'Resource not found or you do not have access to this resource'];
  assert.deepEqual(await rejected(coordinate(agent), member.token), notFound);
  assert.deepEqual(await rejected(coordinate({ id: crypto.randomUUID() })), notFound);
  const unsupported = 'Unknown or unsupported API version';
  const version = (text: string) => rejected(coordinate(agent, `version=${text}`));
  assert.deepEqual(await version('2.99'), [
    400,
    unsupported,
    'server is at version 2.11, behind requested minor version 2.99',
  ]);
  assert.deepEqual(await version('3.0'), [
    400,
    unsupported,
    'server is at version 2.11, behind requested major version 3.0',
  ]);
  assert.deepEqual(await version('1.0'), [400, unsupported, 'version 1.0 is no longer supported']);
  assert.deepEqual(await rejected(coordinate(agent, '')), [400, unsupported, 'version 1.0 is no longer supported']);
  assert.deepEqual(await version('2'), [400, unsupported, 'invalid version string: 2']);
  assert.deepEqual(await version('x.0'), [400, unsupported, 'invalid major version: x']);
  const invalid = [401, 'Invalid resume token', 'Invalid resume token'];
  const { tailnet } = await dial(t, coordinate(agent));
  const { token } = await tailnet.refreshResumeToken({});
  const resume = (text: string) => coordinate(agent, `version=2.0&resume_token=${text}`);
  assert.deepEqual(await rejected(resume(`${token}x`)), invalid);
  const [, claims] = token.split('.');
  const none = Buffer.from('{"alg":"none","kid":"1"}').toString('base64url');
  assert.deepEqual(await rejected(resume(`${none}.${claims}.`)), invalid);
  const other = await insertPerson(server, 'resumer', ['owner']);
  assert.deepEqual(await rejected(resume(token), other.token), invalid);
});

test('a client keeps its id with the resume token', async (t) => {
  const { agent, control } = await joinedAgent(t);
  const first = await joinedClient(t, agent);
  const { id } = await control.has(first);
  const { token, refreshIn, expiresAt } = await first.tailnet.refreshResumeToken({});
  assert.equal(refreshIn!.seconds, 43_200n);
  assert.ok(Math.abs(Number(expiresAt!.seconds) - Date.now() / 1_000 - 86_400) < 60);
  const second = await dial(t, coordinate(agent, `version=2.0&resume_token=${token}`));
  await second.send({ addTunnel: { id: uuidBytes(agent.id) } });
  await second.publish(randomAddress(TAILNET_PREFIX));
  assert.equal(uuidText((await control.has(second)).id), uuidText(id));
  await eventually('the first one ends', async () => first.ended);
  assert.deepEqual(first.errors, ['peer ID overwritten by new connection']);
});

test('a client gets no node of an agent that it may not reach', async (t) => {
  const own = await joinedAgent(t, member.token);
  const foreign = await joinedAgent(t);
  const tries = [
    await dial(t, coordinate(own.agent), member.token),
    await dial(t, '/tailnet?version=2.3', member.token),
  ];
  for (const client of tries) {
    await client.publish(randomAddress(TAILNET_PREFIX));
    await client.send({ addTunnel: { id: uuidBytes(foreign.agent.id) } });
    await eventually('the end', async () => client.ended);
    assert.deepEqual(client.errors, ['authorization: agent not accessible']);
    assert.deepEqual(client.updates, []);
    await forwards(t, client, foreign.control, false);
  }
  // the administrator's control connection for one agent reaches no other
  const client = await dial(t, coordinate(own.agent));
  await client.send({ addTunnel: { id: uuidBytes(foreign.agent.id) } });
  await eventually('the end', async () => client.ended);
  assert.deepEqual(client.updates, []);
});

test('a desktop client reaches each agent of its person, until it may no longer', async (t) => {
  const person = await insertPerson(server, 'desk', ['owner']);
  const own = await joinedAgent(t, person.token);
  const foreign = await joinedAgent(t);
  const client = await dial(t, '/tailnet?version=2.3', person.token);
  await client.publish(randomAddress(TAILNET_PREFIX));
  for (const { agent } of [own, foreign]) await client.send({ addTunnel: { id: uuidBytes(agent.id) } });
  await Promise.all([client.has(own.control), client.has(foreign.control)]);
  assert.equal((await server.api('PUT', '/users/desk/roles', { body: { roles: [] } })).status, 200);
  await eventually('the end', async () => foreign.control.kinds().includes(Kind.DISCONNECTED), MAX_MS);
  assert.equal(client.ended, false);
  assert.ok(!own.control.kinds().includes(Kind.DISCONNECTED));
  await forwards(t, client, own.control, true);
  await forwards(t, client, foreign.control, false);
});

test('an agent can neither lie about its address, nor take a key, nor open tunnels', async (t) => {
  const victim = await joinedAgent(t);
  const client = await joinedClient(t, victim.agent);
  await client.has(victim.control);
  const lies: [name: string, lie: (agent: Control) => Promise<void>, error: RegExp][] = [
    ['address', (it) => it.publish(addressOf(TAILNET_PREFIX, uuidBytes(victim.agent.id))), /invalid node address/],
    [
      'allowed IPs',
      (it) => it.publish(Buffer.alloc(16), { addresses: [], allowedIps: ['::/0'] }),
      /invalid node address/,
    ],
    ['tunnel', (it) => it.send({ addTunnel: { id: uuidBytes(victim.agent.id) } }), /agents cannot open tunnels/],
    [
      'key',
      (it) =>
        it.publish(Buffer.alloc(16), {
          addresses: [],
          allowedIps: [],
          key: encodeNodeKey(victim.control.keys.publicKey),
        }),
      /belongs to another owner/,
    ],
  ];
  for (const [name, lie, error] of lies) {
    const liar = await joinedAgent(t);
    await lie(liar.control);
    await eventually(name, async () => liar.control.errors.length > 0);
    assert.match(liar.control.errors[0]!, error);
  }
  await forwards(t, client, victim.control, true);
});

test('the relay forwards between strangers only a little, and limits them per network', async (t) => {
  const [a, b] = [KeyPair.generate(), KeyPair.generate()];
  const received: string[] = [];
  const from = await relayed(t, a);
  await relayed(t, b, received);
  for (let n = 0; n < 200; n++) from.send(b.publicKey, Buffer.from(`${n}`));
  await from.ping();
  await eventually('the budget', async () => JSON.parse(await debug('tailnet')).dropped.budget >= 100);
  assert.equal(received.length, 64);
  const { agent, control } = await joinedAgent(t);
  const client = await joinedClient(t, agent);
  await client.has(control);
  await relayed(t, control.keys);
  const before = await denied();
  from.send(control.keys.publicKey, Buffer.from('to an agent'));
  await eventually('the denial', async () => (await denied()) > before);
  const dials = Array.from({ length: 80 }, () =>
    dialWebSocket(`${server.url}/derp`, { protocols: ['derp'] }).then(
      ({ connection }) => {
        t.after(() => connection.destroy());
        return 101;
      },
      ({ status }: { status: number }) => status,
    ),
  );
  const answers = await Promise.all(dials);
  assert.ok(answers.includes(429) && answers.filter((status) => status === 101).length <= 64, answers.join());
});

test('answers requests for the relay that are not upgrades, or with an unknown protocol', async () => {
  const plain = await fetch(`${server.url}/derp`);
  assert.deepEqual([plain.status, await plain.text()], [426, 'DERP requires connection upgrade\n']);
  const { status } = await refusal(dialWebSocket(`${server.url}/derp`));
  assert.equal(status, 400);
  const check = await fetch(`${server.url}/derp/latency-check`);
  assert.deepEqual([check.status, await check.text()], [200, '']);
});

test('a desktop client learns of the workspaces of its person, and of each change', async (t) => {
  const person = await insertPerson(server, 'watcher');
  const { agent, workspace } = await joinedAgent(t, person.token);
  await joinedAgent(t);
  const { tailnet } = await dial(t, '/tailnet?version=2.3', person.token);
  const updates = tailnet.workspaceUpdates({ workspaceOwnerId: uuidBytes(person.id) });
  const next = async () => {
    const { upsertedWorkspaces, upsertedAgents, deletedAgents } = (await updates.receive())!;
    return {
      workspaces: upsertedWorkspaces.map(({ id, name, status }) => [uuidText(id), name, status]),
      agents: upsertedAgents.map(({ id, name, workspaceId }) => [uuidText(id), name, uuidText(workspaceId)]),
      deleted: deletedAgents.map(({ id }) => uuidText(id)),
    };
  };
  assert.deepEqual(await next(), {
    workspaces: [[workspace.id, workspace.name, Workspace_Status.RUNNING]],
    agents: [[agent.id, 'a0', workspace.id]],
    deleted: [],
  });
  await server.api('POST', `/workspaces/${workspace.id}/builds`, { body: { transition: 'stop' } });
  const { workspaces, deleted } = await next();
  assert.deepEqual([workspaces[0]![2], deleted], [Workspace_Status.PENDING, [agent.id]]);
  await finishBuild(server, []);
  // of another person: nothing that this one may not connect to
  const other = await dial(t, '/tailnet?version=2.3', member.token);
  const nothing = other.tailnet.workspaceUpdates({ workspaceOwnerId: uuidBytes(person.id) });
  assert.deepEqual((await nothing.receive())!.upsertedWorkspaces, []);
});

test('a desktop client with a limited token learns of the workspaces in its allow list, and reaches no other', async (t) => {
  const person = await insertPerson(server, 'limited');
  const [listed, other] = [await joinedAgent(t, person.token), await joinedAgent(t, person.token)];
  const dialLimited = async (...limits: Parameters<typeof tokenScope>) =>
    dial(t, '/tailnet?version=2.3', await limitedToken(server, person.id, tokenScope(...limits)));
  const shown = async (client: Control) => {
    const updates = client.tailnet.workspaceUpdates({ workspaceOwnerId: uuidBytes(person.id) });
    const { upsertedWorkspaces, upsertedAgents } = (await updates.receive())!;
    return [upsertedWorkspaces, upsertedAgents].map((all) => all.map(({ id }) => uuidText(id)));
  };
  const reader = await dialLimited(['workspace:read', 'workspace:application_connect']);
  assert.deepEqual(await shown(reader), [[], []]);
  const client = await dialLimited(['coder:workspaces.access'], [`workspace:${listed.workspace.id}`]);
  assert.deepEqual(await shown(client), [[listed.workspace.id], [listed.agent.id]]);
  await client.publish(randomAddress(TAILNET_PREFIX));
  await client.send({ addTunnel: { id: uuidBytes(listed.agent.id) } });
  await client.has(listed.control);
  await forwards(t, client, listed.control, true);
  for (const each of [reader, await dialLimited(['coder:all'], [`workspace:${listed.workspace.id}`])]) {
    await each.publish(randomAddress(TAILNET_PREFIX));
    await each.send({ addTunnel: { id: uuidBytes(other.agent.id) } });
    await eventually('the end', async () => each.ended);
    assert.deepEqual(each.errors, ['authorization: agent not accessible']);
    await forwards(t, each, other.control, false);
  }
});

test('a stopping server announces to the clients of its relay when to come back', async (t) => {
  const own = await startTestServer({ env: { CODER_BROWSER_ONLY: 'true' } });
  let isStopped = false;
  t.after(() => (isStopped ? undefined : own.stop()));
  const template = await createTestTemplate(own, 'only');
  const { agents } = await makeAgents(own, template, 'only');
  const browserOnly = dialWebSocket(`${own.url}/api/v2${coordinate(agents[0]!)}`, {
    headers: { 'Coder-Session-Token': own.adminToken },
  });
  assert.deepEqual(await refusal(browserOnly), {
    status: 409,
    message: 'Non-browser connections are disabled for your deployment.',
  });
  const { connection } = await dialWebSocket(`${own.url}/derp`, { protocols: ['derp'] });
  const restart = Promise.withResolvers<Restart>();
  const onRestart = restart.resolve;
  const derp = new DerpClient(byteStream(connection), { keys: KeyPair.generate(), onPacket: () => {}, onRestart });
  await derp.ready;
  isStopped = true;
  await Promise.all([own.stop(), restart.promise]);
  assert.deepEqual(await restart.promise, { reconnectInMs: 1_000, tryForMs: 60_000 });
});

test('serves the relay after an upgrade to its own protocol', async (t) => {
  const keys = KeyPair.generate();
  const { hostname, port } = new URL(server.url);
  const request = get({ hostname, port, path: '/derp', headers: { connection: 'Upgrade', upgrade: 'DERP' } });
  const [response, socket, head] = (await once(request, 'upgrade')) as [IncomingMessage, Socket, Buffer];
  t.after(() => socket.destroy());
  assert.deepEqual([response.statusCode, response.headers['derp-version']], [101, '2']);
  if (head.length > 0) socket.unshift(head);
  const relayKey = Buffer.from(`${response.headers['derp-public-key']}`, 'hex');
  const derp = new DerpClient(socket, { keys, relayKey, onPacket: () => {} });
  await derp.ready;
  assert.ok((await derp.ping()) >= 0);
});
