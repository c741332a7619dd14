import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, type TestContext, test } from 'node:test';
import type {
  HealthcheckReport,
  RegionsResponse,
  RegisterWorkspaceProxyResponse,
  TailnetDERPMap,
  UpdateWorkspaceProxyResponse,
  WorkspaceProxy,
} from '@ropewalk/contract';
import { silentLogger } from '@ropewalk/kit';
import { addressOf, randomAddress, TAILNET_PREFIX } from '@ropewalk/tailnet/address';
import { DerpClient } from '@ropewalk/tailnet/derp/client';
import { dialRelay, measureRelay } from '@ropewalk/tailnet/derp/dial';
import { KeyPair } from '@ropewalk/tailnet/keys';
import { createTestTemplate, eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { freePort } from '@ropewalk/testkit/ports';
import { type Pipe, startPipe } from '@ropewalk/testkit/tcp-proxy';
import { framedMessages, frameMessage } from '@ropewalk/wire/framed-messages';
import { linkSession } from '@ropewalk/wire/link-session';
import { PROXY_LINK_PATH, PROXY_PROCESS_HEADER, type RelayNews } from '@ropewalk/wire/proxy-link';
import { requestTunnel } from '@ropewalk/wire/tunnel';
import { uuidBytes } from '@ropewalk/wire/uuid';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { loadConfig } from '../config/load.ts';
import { ask } from '../http/apps/testing/ask.ts';
import { dialAgent, type MadeAgent, makeAgents } from '../rpc/testing/agents.ts';
import { Control } from '../rpc/testing/tailnet.ts';
import { type RunningWorkspaceProxy, startWorkspaceProxy } from './start.ts';

// Clients and agents that speak upstream's protocol, whose packets the relay of a proxy forwards.

/** A right ends at the relay within this time. */
const MAX_MS = 5_000;
let server: TestServer;
let pipe: Pipe;
let proxy: RunningWorkspaceProxy;
let thief: UpdateWorkspaceProxyResponse;

const create = async (name: string) =>
  (await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name } })).body;

async function start(
  token: string,
  { derpOnly = false, env = {}, url }: { derpOnly?: boolean; env?: Record<string, string>; url?: string } = {},
): Promise<RunningWorkspaceProxy> {
  const at = await freePort();
  const own = { CODER_HTTP_ADDRESS: `127.0.0.1:${at}`, CODER_ACCESS_URL: url ?? `http://127.0.0.1:${at}` };
  const { config } = loadConfig({ env: { ...own, ...env } });
  const options = { ...config, sessionToken: token, primaryAccessUrl: `http://127.0.0.1:${pipe.port}`, derpOnly };
  return startWorkspaceProxy({ options, log: silentLogger });
}

before(async () => {
  server = await startTestServer({ env: { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable' } });
  pipe = await startPipe({ host: '127.0.0.1', port: Number(new URL(server.url).port) });
  thief = await create('thief');
  proxy = await start((await create('eu')).proxy_token);
  await isInMap('eu', true);
});
after(async () => {
  await proxy.close();
  pipe.close();
  await server.stop();
});

const maps = async (): Promise<TailnetDERPMap> => {
  const { body } = await server.api<{ derp_map: TailnetDERPMap }>('GET', '/workspaceagents/connection');
  return body.derp_map;
};
const isInMap = (name: string, isIt: boolean) =>
  eventually(`${name} is ${isIt ? '' : 'not '}in the map`, async () => {
    const { Regions } = await maps();
    return Object.values(Regions).some(({ RegionCode }) => RegionCode === `coder_${name}`) === isIt;
  });

let made = 0;
/** An agent of upstream's kind, and a client of a person, that have each other's nodes. */
async function introduced(t: TestContext, token = server.adminToken) {
  const name = `w${++made}`;
  const template = await createTestTemplate(server, name);
  const agent = (await makeAgents(server, template, name, { token })).agents[0]!;
  const control = new Control(await dialAgent(server, agent.token, { ours: false }));
  t.after(() => control.connection.destroy());
  await control.publish(addressOf(TAILNET_PREFIX, uuidBytes(agent.id)));
  const client = await joinAsClient(t, agent, token);
  await Promise.all([client.has(control), control.has(client)]);
  return { agent, control, client };
}

async function joinAsClient(t: TestContext, agent: MadeAgent, token = server.adminToken): Promise<Control> {
  const { connection } = await dialWebSocket(
    `${server.url}/api/v2/workspaceagents/${agent.id}/coordinate?version=2.0`,
    { headers: { 'Coder-Session-Token': token } },
  );
  const client = new Control(connection);
  t.after(() => connection.destroy());
  await client.send({ addTunnel: { id: uuidBytes(agent.id) } });
  await client.publish(randomAddress(TAILNET_PREFIX));
  return client;
}

/** A connection to the relay of the proxy with the keys of a node. */
async function relayed(
  t: TestContext,
  keys: KeyPair,
  received: string[] = [],
  { websocket = false, at = proxy } = {},
): Promise<DerpClient> {
  const stream = await dialRelay(at.url, { websocket, signal: AbortSignal.timeout(10_000) });
  const onPacket = (_source: Buffer, packet: Buffer) => void received.push(packet.toString());
  const derp = new DerpClient(stream, { keys, onPacket });
  t.after(() => derp.close());
  await derp.ready;
  return derp;
}

test('forwards the first packet of a client to its agent, and answers, by both kinds of connections', async (t) => {
  assert.ok((await measureRelay(proxy.url)) < 5_000);
  for (const websocket of [false, true]) {
    const { control, client } = await introduced(t);
    const [atClient, atAgent]: [string[], string[]] = [[], []];
    const far = await relayed(t, control.keys, atAgent, { websocket });
    const near = await relayed(t, client.keys, atClient, { websocket });
    // it is sent once: the relay asks the server first
    near.send(control.keys.publicKey, Buffer.from('there'));
    await eventually('the packet', async () => atAgent.includes('there'));
    far.send(client.keys.publicKey, Buffer.from('back'));
    await eventually('the answer', async () => atClient.includes('back'));
  }
  const headers = { 'Coder-Session-Token': server.adminToken };
  const relay = await (await fetch(`${server.url}/api/v2/debug/tailnet`, { headers })).json();
  assert.equal((relay as { packetsReceived: number }).packetsReceived, 0, 'the relay of the server carried nothing');
});

test('forwards nothing of strangers and of clients of other agents to an agent', async (t) => {
  const [one, other] = [await introduced(t), await introduced(t)];
  const received: string[] = [];
  const at = await relayed(t, one.control.keys, received);
  const known = await relayed(t, one.client.keys);
  const strangers = [await relayed(t, KeyPair.generate()), await relayed(t, other.client.keys)];
  for (const stranger of strangers) {
    stranger.send(one.control.keys.publicKey, Buffer.from('strange'));
    // what it sent has arrived at the relay
    await stranger.ping();
  }
  known.send(one.control.keys.publicKey, Buffer.from('known'));
  await eventually('the packet of the client', async () => received.includes('known'));
  await at.ping();
  assert.deepEqual(received, ['known']);
});

/** Sends until the relay forwards, or does not. */
async function forwards(from: DerpClient, to: Control, received: string[], isIt: boolean): Promise<void> {
  await eventually(
    isIt ? 'a packet arrives' : 'no packet arrives',
    async () => {
      const text = crypto.randomUUID();
      from.send(to.keys.publicKey, Buffer.from(text));
      await from.ping();
      await new Promise((resolve) => setTimeout(resolve, 20));
      return received.includes(text) === isIt;
    },
    MAX_MS,
  );
}

test('a pair ends within 5 seconds when the session ends, also after an outage of the server', async (t) => {
  for (const isCut of [false, true]) {
    const person = await insertPerson(server, `out-${isCut}`);
    const { control, client } = await introduced(t, person.token);
    const received: string[] = [];
    await relayed(t, control.keys, received);
    const near = await relayed(t, client.keys);
    await forwards(near, control, received, true);
    if (isCut) {
      pipe.cut();
      await eventually('the proxy reports it', async () => !(await isConnected()));
      await forwards(near, control, received, true);
      pipe.mend();
      await eventually('the proxy is connected', isConnected);
      await forwards(near, control, received, true);
    }
    const since = performance.now();
    assert.equal((await server.api('POST', '/users/logout', { token: person.token })).status, 200);
    await forwards(near, control, received, false);
    assert.ok(performance.now() - since < MAX_MS);
  }
});

const isConnected = async () =>
  (JSON.parse((await ask(proxy.url, { path: '/healthz-report' })).body) as { errors: string[] }).errors.length === 0;

test('the holder of a stolen token learns only about keys that it knows', async (t) => {
  const { control, client } = await introduced(t);
  const other = await introduced(t);
  const { connection } = await dialWebSocket(`${server.url.replace('http', 'ws')}${PROXY_LINK_PATH}`, {
    headers: { 'Coder-External-Proxy-Token': thief.proxy_token },
  });
  const link = linkSession(connection, { role: 'client' });
  t.after(() => link.close());
  const stream = await requestTunnel(link, { service: 'relay' });
  const news: RelayNews[] = [];
  const reading = (async () => {
    for await (const message of framedMessages(stream, 1_024)) news.push(JSON.parse(message.toString()) as RelayNews);
  })().catch(() => {});
  const name = (key: string) => stream.write(frameMessage(Buffer.from(JSON.stringify({ key, isPresent: true }))));
  const [a, b, c] = [control, client, other.control].map(({ keys }) => keys.publicKey.toString('hex'));
  const seconds = () => news.filter((one) => 'isAlive' in one).length;
  const facts = () => news.filter((one) => !('isAlive' in one));
  await eventually('signs of life', async () => seconds() > 1);
  assert.deepEqual(facts(), [], 'nothing without a key');
  name(a!);
  await eventually('the answer', async () => facts().length > 0);
  name('0'.repeat(64));
  name(c!);
  await eventually('all answers', async () => facts().length > 2);
  const known = { isIntroduced: true, isOwned: true };
  const expected = [
    { key: a, ...known },
    { key: '0'.repeat(64), isIntroduced: false, isOwned: false },
    { key: c, ...known },
  ];
  assert.deepEqual(facts(), expected, 'neither ids nor partners');
  name(b!);
  await eventually('the answer', async () => facts().length > 4);
  const [first, second] = facts().slice(3) as [{ pair: string[] }, object];
  assert.deepEqual([first.pair.toSorted(), second], [[a, b].toSorted(), { key: b, ...known }]);
  // another stream of the same process ends the first
  const next = await requestTunnel(link, { service: 'relay' });
  await reading;
  next.write(frameMessage(Buffer.from(JSON.stringify({ key: a!, isPresent: true }))));
  const [answer] = (await once(next, 'data')) as [Buffer];
  assert.ok(answer.length > 0);
  // what is not a key ends the stream, and only that
  const closed = new Promise((resolve) =>
    next
      .on('error', () => {})
      .resume()
      .once('close', resolve),
  );
  next.write(frameMessage(Buffer.from(JSON.stringify({ key: `${a}x`, isPresent: true }))));
  await closed;
  assert.equal(link.isClosed, false);
  // at a relay with the stolen token, its thief cannot make other pairs
  for (const wrong of [{ service: 'tailnet mesh' }, { service: 'tailnet packets' }, { service: 'tailnet agent' }])
    await assert.rejects(requestTunnel(link, wrong), /no service/);
});

test('is in the map of clients while it is healthy, and streams learn of changes', async (t) => {
  const url = server.url.replace('http', 'ws');
  const headers = { 'Coder-Session-Token': server.adminToken };
  const { connection } = await dialWebSocket(`${url}/api/v2/derp-map`, { headers });
  t.after(() => connection.destroy());
  const seen: string[][] = [];
  connection.on('binary', (bytes) => {
    const { Regions } = JSON.parse(bytes.toString()) as TailnetDERPMap;
    seen.push(Object.values(Regions).map(({ RegionCode }) => RegionCode));
  });
  await once(connection, 'binary');
  const { control } = await introduced(t);
  const call = control.tailnet.streamDERPMaps({});
  const streamed = async () => Object.values((await call.receive())!.regions).map(({ regionCode }) => regionCode);
  assert.deepEqual(await streamed(), ['coder', 'coder_eu']);
  const late = await create('late');
  const second = await start(late.proxy_token);
  t.after(() => second.close());
  assert.deepEqual(await streamed(), ['coder', 'coder_eu', 'coder_late']);
  const section = async () =>
    (await server.api<HealthcheckReport>('GET', '/debug/health?force=true')).body.derp.regions;
  const region = Object.values(await section()).find((one) => one?.region?.RegionCode === 'coder_late');
  assert.equal(region?.healthy, true, JSON.stringify(region));
  assert.equal((await server.api('DELETE', '/workspaceproxies/late')).status, 200);
  assert.deepEqual(await streamed(), ['coder', 'coder_eu']);
  assert.deepEqual(seen, [
    ['coder', 'coder_eu'],
    ['coder', 'coder_eu', 'coder_late'],
    ['coder', 'coder_eu'],
  ]);
});

test('what a proxy learns when it registers agrees with the map', async () => {
  const { body } = await server.api<RegisterWorkspaceProxyResponse>('POST', '/workspaceproxies/me/register', {
    token: null,
    headers: { 'Coder-External-Proxy-Token': thief.proxy_token },
    body: {
      ...{ access_url: proxy.url, derp_enabled: true, derp_only: false, replica_id: crypto.randomUUID() },
    },
  });
  await isInMap('thief', true);
  const region = Object.values((await maps()).Regions).find(({ RegionCode }) => RegionCode === 'coder_thief');
  assert.equal(body.derp_region_id, region!.RegionID);
  assert.deepEqual([body.derp_mesh_key, body.derp_force_websockets], ['', false]);
  assert.ok(Object.values(body.derp_map.Regions).some(({ RegionCode }) => RegionCode === 'coder_eu'));
  assert.equal((await server.api('DELETE', '/workspaceproxies/thief')).status, 200);
  await isInMap('thief', false);
});

test('a proxy with several processes is not in the map, and its health says why', async (t) => {
  const { proxy_token: token } = await create('twins');
  const first = await start(token);
  t.after(() => first.close());
  await isInMap('twins', true);
  const second = await start(token, { url: first.url });
  await isInMap('twins', false);
  const warnings = async () =>
    (await server.api<WorkspaceProxy>('GET', '/workspaceproxies/twins')).body.status!.report.warnings.join();
  assert.match(await warnings(), /2 processes, whose relays do not forward packets/);
  await second.close();
  await isInMap('twins', true);
  assert.doesNotMatch(await warnings(), /relays/);
  assert.equal((await server.api('DELETE', '/workspaceproxies/twins')).status, 200);
});

test('a process that is gone does not keep its successor out of the map', async (t) => {
  const { proxy_token: token } = await create('heir');
  const heir = await start(token);
  t.after(() => heir.close());
  await isInMap('heir', true);
  const id = crypto.randomUUID();
  const headers = { 'Coder-External-Proxy-Token': token };
  const body = { access_url: heir.url, derp_enabled: true, derp_only: false, replica_id: id };
  const register = () => server.api('POST', '/workspaceproxies/me/register', { token: null, headers, body });
  const connect = async () => {
    const url = `${server.url.replace('http', 'ws')}${PROXY_LINK_PATH}`;
    const { connection } = await dialWebSocket(url, { headers: { ...headers, [PROXY_PROCESS_HEADER]: id } });
    t.after(() => connection.destroy());
    return connection;
  };
  const connection = await connect();
  assert.equal((await register()).status, 201);
  await isInMap('heir', false);
  // it is killed
  connection.destroy();
  await isInMap('heir', true);
  assert.equal((await register()).status, 201, 'it was only away');
  await isInMap('heir', false);
  (await connect()).destroy();
  await isInMap('heir', true);
  assert.equal((await server.api('DELETE', '/workspaceproxies/heir')).status, 200);
});

test('a proxy whose connection breaks is in the map soon after it is back', async (t) => {
  const { proxy_token: token, proxy: row } = await create('away');
  const away = await start(token);
  t.after(() => away.close());
  await isInMap('away', true);
  const lost = async () => {
    const { sql } = server.services;
    const [replica] =
      await sql`SELECT 1 FROM workspace_proxy_replicas WHERE proxy_id = ${row.id} AND lost_at IS NOT NULL`;
    return replica !== undefined;
  };
  pipe.cut();
  t.after(() => pipe.mend());
  await eventually('the process counts as gone', lost);
  await isInMap('away', false);
  pipe.mend();
  // without its connection it registers every 30 seconds
  await eventually('it has registered', async () => !(await lost()), 20_000);
  await isInMap('away', true);
  assert.equal((await server.api('DELETE', '/workspaceproxies/away')).status, 200);
});

test('a proxy that is only a relay serves no apps and terminals, and is not a region of them', async (t) => {
  const only = await start((await create('only')).proxy_token, { derpOnly: true });
  t.after(() => only.close());
  await isInMap('only', true);
  const { regions } = (await server.api<RegionsResponse>('GET', '/regions')).body;
  assert.ok(!regions.some(({ name }) => name === 'only'));
  const found = (await server.api<WorkspaceProxy>('GET', '/workspaceproxies/only')).body;
  assert.deepEqual([found.healthy, found.derp_enabled, found.derp_only], [true, true, true]);
  for (const path of ['/@admin/dev/apps/web/', '/api/v2/workspaceagents/x/pty']) {
    const { status, body } = await ask(only.url, { path });
    assert.equal(status, 400, path);
    assert.match(body, /only a relay/);
  }
  const terminal = `${only.url.replace('http', 'ws')}/api/v2/workspaceagents/${crypto.randomUUID()}/pty`;
  await assert.rejects(dialWebSocket(terminal, {}), { status: 400, body: /only a relay/ } as never);
  assert.equal((await ask(only.url, { path: '/latency-check' })).status, 200);
  const { control, client } = await introduced(t);
  const received: string[] = [];
  await relayed(t, control.keys, received, { at: only });
  const near = await relayed(t, client.keys, [], { at: only });
  await forwards(near, control, received, true);
  assert.equal((await server.api('DELETE', '/workspaceproxies/only')).status, 200);
});

test('a proxy without a relay says so, and is not in the map', async (t) => {
  const none = await start((await create('none')).proxy_token, { env: { CODER_DERP_SERVER_ENABLE: 'false' } });
  t.after(() => none.close());
  await eventually('it is healthy', async () => {
    const { healthy, derp_enabled } = (await server.api<WorkspaceProxy>('GET', '/workspaceproxies/none')).body;
    return healthy && !derp_enabled;
  });
  await isInMap('none', false);
  for (const path of ['/derp', '/derp/latency-check']) {
    const { status, body } = await ask(none.url, { path });
    assert.deepEqual([status, body], [404, 'This workspace proxy runs no relay.\n'], path);
  }
  await assert.rejects(dialRelay(none.url), { status: 404 });
  assert.equal((await ask(proxy.url, { path: '/derp' })).status, 426);
  await assert.rejects(
    start(`${crypto.randomUUID()}:secret`, { derpOnly: true, env: { CODER_DERP_SERVER_ENABLE: 'false' } }),
    /--derp-only needs the relay/,
  );
});
