import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type {
  AuditLogResponse,
  RegionsResponse,
  RegisterWorkspaceProxyResponse,
  Response,
  UpdateWorkspaceProxyResponse,
  WorkspaceProxiesResponse,
  WorkspaceProxy,
} from '@ropewalk/contract';
import { routes } from '@ropewalk/contract';
import { createLogger } from '@ropewalk/kit';
import { insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { verifiedProxy } from '../../authz/proofs.ts';
import { sampleRequest } from '../../http/testing/route-sample.ts';
import { missProcess } from './register.ts';

/** Proxies as people manage them, and the routes that proxies themselves call. */
let server: TestServer;
let lines = '';
let member: { id: string; token: string };
before(async () => {
  const write = (line: string) => {
    lines += line;
  };
  server = await startTestServer({ log: createLogger({ level: 'debug', sinks: [{ format: 'json', write }] }) });
  member = await insertPerson(server, 'ann');
});
after(() => server.stop());

type Made = UpdateWorkspaceProxyResponse;
const call = <T = Response>(method: string, path: string, body?: object, token?: string) =>
  server.api<T>(method, `/workspaceproxies${path}`, { ...(body ? { body } : {}), ...(token ? { token } : {}) });

async function create(name: string, more: object = {}): Promise<Made> {
  const answer = await call<Made>('POST', '', { name, ...more });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body;
}

/** A call of a proxy, with no other credential. */
const asProxy = <T = Response>(proxyToken: string, method: string, path: string, body?: object) =>
  server.api<T>(method, `/workspaceproxies/me${path}`, {
    token: null,
    headers: { 'Coder-External-Proxy-Token': proxyToken },
    ...(body ? { body } : {}),
  });

const registration = (more: object = {}) => ({
  access_url: 'https://eu.example.com',
  wildcard_hostname: '*.eu.example.com',
  derp_enabled: true,
  derp_only: false,
  replica_id: crypto.randomUUID(),
  hostname: 'eu-1',
  replica_error: '',
  replica_relay_address: 'http://10.0.0.1:3001',
  version: server.services.version,
  ...more,
});
const register = (token: string, more: object = {}) =>
  asProxy<RegisterWorkspaceProxyResponse & Response>(token, 'POST', '/register', registration(more));

test('creates, lists, changes and deletes proxies, next to the primary region', async () => {
  const { proxy, proxy_token: token } = await create('lab', { display_name: 'Laboratory', icon: '/emojis/1f5fa.png' });
  assert.match(token, new RegExp(`^${proxy.id}:[0-9A-Za-z]{64}$`));
  assert.deepEqual(
    [proxy.name, proxy.display_name, proxy.icon_url, proxy.path_app_url, proxy.healthy, proxy.status?.status],
    ['lab', 'Laboratory', '/emojis/1f5fa.png', '', false, 'unregistered'],
  );
  assert.deepEqual([proxy.derp_enabled, proxy.derp_only, proxy.deleted, proxy.version], [true, false, false, '']);
  for (const name of [proxy.id, 'lab', 'LAB']) {
    assert.equal((await call<WorkspaceProxy>('GET', `/${name}`)).body.id, proxy.id, name);
  }
  // upstream's clients send all fields, with the id of the proxy
  const all = { id: proxy.id, name: 'lab-2', display_name: '', icon: '', regenerate_token: false };
  const changed = await call<Made>('PATCH', `/${proxy.id}`, all);
  assert.equal(changed.status, 200, JSON.stringify(changed.body));
  assert.deepEqual(
    [changed.body.proxy.name, changed.body.proxy.display_name, changed.body.proxy_token],
    ['lab-2', '', ''],
  );
  const named = async (path: string, as?: string) =>
    (await server.api<WorkspaceProxiesResponse>('GET', path, as ? { token: as } : {})).body.regions.map(
      ({ name }) => name,
    );
  assert.deepEqual(await named('/workspaceproxies'), ['primary', 'lab-2']);
  assert.deepEqual(await named('/workspaceproxies', member.token), ['primary', 'lab-2']);
  assert.deepEqual(await named('/regions', member.token), ['primary', 'lab-2']);
  assert.equal((await call('DELETE', '/lab-2')).status, 200);
  assert.equal((await call('GET', `/${proxy.id}`)).status, 404);
  assert.equal((await call('DELETE', '/lab-2')).status, 404);
  assert.deepEqual(await named('/regions'), ['primary']);
  assert.equal((await asProxy(token, 'GET', '/crypto-keys?feature=workspace_apps_token')).status, 401);
  await create('lab-2');
  await call('DELETE', '/lab-2');
});

test('rejects wrong names, used names and people without the right', async () => {
  await create('taken');
  for (const name of ['primary', 'Primary', 'me', '', 'a b', 'a/b', '-a', crypto.randomUUID()]) {
    const { status, body } = await call('POST', '', { name });
    assert.equal(status, 400, name);
    assert.equal(body.validations?.[0]?.field, 'name', name);
  }
  for (const body of [{ name: 'Taken' }, { name: 'taken', token: 'x' }]) {
    assert.equal((await call('POST', '', body)).status, 'token' in body ? 400 : 409);
  }
  assert.equal((await call('POST', '', { name: 'x', icon: 'javascript:alert(1)' })).status, 400);
  const other = await create('other');
  assert.equal((await call('PATCH', `/${other.proxy.id}`, { name: 'TAKEN' })).status, 409);
  assert.equal((await call('POST', '', { name: 'mine' }, member.token)).status, 403);
  assert.equal((await call('PATCH', '/taken', { display_name: 'x' }, member.token)).status, 403);
  assert.equal((await call('DELETE', '/taken', undefined, member.token)).status, 403);
  assert.equal((await call('PATCH', '/absent', { display_name: 'x' })).status, 404);
  for (const name of ['taken', 'other']) await call('DELETE', `/${name}`);
});

test('changes how the primary region looks, and nothing else of it', async () => {
  const { deploymentId } = server.services;
  for (const name of ['primary', deploymentId]) {
    assert.equal((await call<WorkspaceProxy>('GET', `/${name}`)).body.id, deploymentId);
  }
  const changed = await call<Made>('PATCH', '/primary', { name: 'primary', display_name: 'Home' });
  assert.deepEqual([changed.status, changed.body.proxy.display_name, changed.body.proxy_token], [200, 'Home', '']);
  const icon = await call<Made>('PATCH', `/${deploymentId}`, { icon: '/emojis/1f5fa.png' });
  assert.deepEqual([icon.body.proxy.display_name, icon.body.proxy.icon_url], ['Home', '/emojis/1f5fa.png']);
  const { regions } = (await server.api<RegionsResponse>('GET', '/regions', { token: member.token })).body;
  assert.deepEqual([regions[0]!.display_name, regions[0]!.icon_url], ['Home', '/emojis/1f5fa.png']);
  for (const body of [{ name: 'other', icon: 'x' }, {}, { icon: 'x', regenerate_token: true }]) {
    assert.equal((await call('PATCH', '/primary', body)).status, 400, JSON.stringify(body));
  }
  assert.equal((await call('DELETE', '/primary')).status, 400);
  assert.equal((await call('DELETE', '/primary', undefined, member.token)).status, 403);
  assert.equal((await call('PATCH', '/primary', { icon: 'x' }, member.token)).status, 403);
});

test('a new token replaces the old one, and no log, audit entry or later response contains either', async () => {
  const { proxy, proxy_token: first } = await create('renewed');
  assert.equal((await register(first)).status, 201);
  const renewed = await call<Made>('PATCH', '/renewed', { regenerate_token: true });
  const second = renewed.body.proxy_token;
  assert.notEqual(first, second);
  assert.equal((await register(first)).status, 401);
  assert.equal((await register(second)).status, 201);
  const { body: audit } = await server.api<AuditLogResponse>('GET', '/audit?q=resource_type:workspace_proxy&limit=100');
  assert.ok(audit.audit_logs.some(({ resource_id: id }) => id === proxy.id));
  const texts = [
    lines,
    JSON.stringify(audit),
    ...(await Promise.all(
      ['', '/renewed'].map(async (path) => JSON.stringify((await call<unknown>('GET', path)).body)),
    )),
  ];
  for (const token of [first, second]) {
    const secret = token.split(':')[1]!;
    for (const text of texts) assert.ok(!text.includes(secret));
  }
  const [row] = await server.services.sql`SELECT w::text AS text FROM workspace_proxies w WHERE id = ${proxy.id}`;
  assert.ok(!(row!['text'] as string).includes(second.split(':')[1]!));
  await call('DELETE', '/renewed');
});

test('rejects every token that is not the current one of a proxy', async () => {
  const { proxy, proxy_token: token } = await create('guarded');
  const other = await create('guarded-2');
  const [id, secret] = token.split(':') as [string, string];
  for (const wrong of [
    '',
    id,
    secret,
    `${id}:`,
    `${id}:${secret.slice(1)}x`.slice(0, -1),
    `${id}:${'x'.repeat(64)}`,
    `${token}:`,
    ` ${crypto.randomUUID()}:${secret}`.trim(),
    `${other.proxy.id}:${secret}`,
    `${id}:${secret.toLowerCase()}`,
  ]) {
    const { status, body } = await register(wrong);
    assert.equal(status, 401, wrong);
    assert.ok(!JSON.stringify(body).includes(secret));
  }
  // a session is not enough
  const asPerson = await server.api('POST', '/workspaceproxies/me/register', { body: registration() });
  assert.equal(asPerson.status, 401);
  assert.equal((await call<WorkspaceProxy>('GET', `/${proxy.id}`)).body.status?.status, 'unregistered');
  for (const name of ['guarded', 'guarded-2']) await call('DELETE', `/${name}`);
});

test('registers the processes of a proxy, and names each the others', async () => {
  const { proxy, proxy_token: token } = await create('eu');
  const seenAt = async (path: string) => (await call<WorkspaceProxy>('GET', path)).body.last_seen_at;
  assert.deepEqual([await seenAt('/eu'), await seenAt('/primary')], [undefined, undefined]);
  const one = crypto.randomUUID();
  const first = await register(token, { replica_id: one });
  assert.equal(first.status, 201, JSON.stringify(first.body));
  const { derp_map, ...rest } = first.body;
  assert.ok(derp_map.Regions['999']);
  assert.deepEqual(rest, {
    derp_mesh_key: '',
    derp_region_id: rest.derp_region_id,
    derp_force_websockets: false,
    sibling_replicas: [],
  });
  assert.ok(rest.derp_region_id > 10_000 && rest.derp_region_id < 20_000, `${rest.derp_region_id}`);
  const { body } = await call<WorkspaceProxy>('GET', '/eu');
  assert.deepEqual(
    [body.path_app_url, body.wildcard_hostname, body.version],
    ['https://eu.example.com', '*.eu.example.com', server.services.version],
  );
  const two = crypto.randomUUID();
  const second = await register(token, { replica_id: two, hostname: 'eu-2', replica_error: 'no route' });
  assert.deepEqual(
    second.body.sibling_replicas.map(({ id, hostname, region_id }) => [id, hostname, region_id]),
    [[one, 'eu-1', rest.derp_region_id]],
  );
  const again = await register(token, { replica_id: one });
  assert.deepEqual(
    again.body.sibling_replicas.map(({ id, error }) => [id, error]),
    [[two, 'no route']],
  );
  const end = (id: string) => asProxy(token, 'POST', '/deregister', { replica_id: id });
  assert.equal((await end(two)).status, 204);
  assert.equal((await end(two)).status, 404);
  assert.equal((await end(crypto.randomUUID())).status, 404);
  assert.equal((await register(token, { replica_id: two })).status, 400);
  assert.deepEqual((await register(token, { replica_id: one })).body.sibling_replicas, []);
  // a process that has stopped registering is not listed
  const [seen] = await server.services.sql<{ at: Date }[]>`UPDATE workspace_proxy_replicas
    SET seen_at = now() - interval '2 minutes' WHERE proxy_id = ${proxy.id} RETURNING seen_at AS at`;
  const { regions } = (await server.api<WorkspaceProxiesResponse>('GET', '/workspaceproxies')).body;
  assert.deepEqual(
    [await seenAt('/eu'), regions.find(({ name }) => name === 'eu')?.last_seen_at].map((at) => Date.parse(at!)),
    [seen!.at.getTime(), seen!.at.getTime()],
  );
  assert.deepEqual((await register(token)).body.sibling_replicas, []);
  // and another proxy cannot touch it
  const other = await create('us');
  assert.equal((await asProxy(other.proxy_token, 'POST', '/deregister', { replica_id: one })).status, 404);
  for (const name of ['eu', 'us']) await call('DELETE', `/${name}`);
});

/** Resolves when all events that were published before have arrived. */
async function eventsArrive(): Promise<void> {
  const { events } = server.services;
  const last = crypto.randomUUID();
  const arrived = Promise.withResolvers<void>();
  const off = events.on('agent_logs', ({ agent_id: id }) => id === last && arrived.resolve());
  events.publishSoon('agent_logs', { agent_id: last });
  await arrived.promise;
  off();
}

test('a process whose connection ended is gone, unless it registers again', async () => {
  const { proxy, proxy_token: token } = await create('eu');
  const other = await create('us');
  const [one, two] = [crypto.randomUUID(), crypto.randomUUID()];
  const { sql, events } = server.services;
  await eventsArrive();
  let changes = 0;
  const off = events.on('workspace_proxies_changed', () => void changes++);
  const clock = { ...server.services.clock, monotonic: () => 0, sleep: async () => {} };
  const miss = async (by: { id: string }, { id = one, silentMs = 0, clock: at = clock } = {}) =>
    missProcess({ sql, events, clock: at }, verifiedProxy(by), { id, silentMs }, AbortSignal.timeout(10_000));
  const alive = async () => (await register(token, { replica_id: two })).body.sibling_replicas.map(({ id }) => id);
  await register(token, { replica_id: one });
  assert.deepEqual(await alive(), [one]);
  await miss(other.proxy);
  await miss(proxy, { id: crypto.randomUUID() });
  // it has registered since its connection was in use
  await miss(proxy, { silentMs: 60_000 });
  // it registers in time
  const sleep = async () => void (await register(token, { replica_id: one }));
  const late = { ...clock, sleep, monotonic: () => performance.now() };
  await miss(proxy, { clock: late });
  assert.deepEqual(await alive(), [one]);
  await eventsArrive();
  assert.equal(changes, 2, 'both are new');
  await miss(proxy);
  assert.deepEqual(await alive(), []);
  await eventsArrive();
  assert.equal(changes, 3, 'servers learn that it is gone');
  await register(token, { replica_id: one });
  assert.deepEqual(await alive(), [one]);
  await eventsArrive();
  assert.equal(changes, 4, 'servers learn that it is back');
  off();
  for (const name of ['eu', 'us']) await call('DELETE', `/${name}`);
});

test('rejects registrations that no visitor could use, and too many processes', async () => {
  const { proxy_token: token } = await create('wrong');
  for (const bad of [
    { access_url: 'eu.example.com' },
    { access_url: 'ftp://eu.example.com' },
    { access_url: 'https://eu.example.com/path' },
    { access_url: 'https://user:pass@eu.example.com' },
    { wildcard_hostname: 'eu.example.com' },
    { wildcard_hostname: '*' },
    { wildcard_hostname: 'https://*.eu.example.com' },
    { replica_id: '00000000-0000-0000-0000-000000000000' },
    { derp_enabled: false, derp_only: true },
    { access_url: `https://${'x'.repeat(5_000)}.example.com` },
  ]) {
    const { status, body } = await register(token, bad);
    assert.equal(status, 400, JSON.stringify(bad));
    assert.ok(body.message);
  }
  const plain = { access_url: 'http://EU.example.com:3001/', wildcard_hostname: '' };
  assert.equal((await register(token, plain)).status, 201);
  assert.equal((await call<WorkspaceProxy>('GET', '/wrong')).body.path_app_url, 'http://eu.example.com:3001');
  await server.services
    .sql`INSERT INTO workspace_proxy_replicas (proxy_id, id, hostname, relay_address, version, problem)
    SELECT id, gen_random_uuid(), '', '', '', '' FROM workspace_proxies, generate_series(1, 63) WHERE name = 'wrong'`;
  assert.equal((await register(token)).status, 409);
  await call('DELETE', '/wrong');
});

test('a proxy token reaches only the routes of proxies', { timeout: 120_000 }, async () => {
  const { proxy, proxy_token: token } = await create('stolen');
  await register(token);
  const secret = token.split(':')[1]!;
  const things = new Proxy({ externalauth: 'github' } as Record<string, string>, {
    get: (given, name: string) => given[name] ?? proxy.id,
  });
  const credentials: Record<string, string>[] = [
    { 'Coder-External-Proxy-Token': token },
    { 'Coder-Session-Token': token },
    { 'Coder-Session-Token': secret },
    { Authorization: `Bearer ${token}` },
  ];
  const wrong: string[] = [];
  for (const [key, { auth }] of Object.entries(routes)) {
    if (auth !== 'session' && auth !== 'agent' && auth !== 'daemon') continue;
    const { method, path, body, raw } = sampleRequest(key as keyof typeof routes, things);
    for (const headers of credentials) {
      const answer = await server.api(method, path, {
        token: null,
        headers,
        ...(body === undefined ? {} : { body }),
        ...(raw === undefined ? {} : { raw }),
      });
      if (answer.status !== 401) wrong.push(`${key} with ${Object.keys(headers).join()}: ${answer.status}`);
    }
  }
  assert.deepEqual(wrong, []);
  await call('DELETE', '/stolen');
});
