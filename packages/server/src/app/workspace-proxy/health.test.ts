import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type {
  HealthcheckReport,
  RegionsResponse,
  UpdateWorkspaceProxyResponse,
  WorkspaceProxy,
} from '@ropewalk/contract';
import { eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { ProxyHealth } from './health.ts';

/** What the server finds at the access URL of a proxy. */
let server: TestServer;
let url: string;
/** A port on which nothing listens. */
let closed: string;
let listener: RequestListener = () => {};
const site = createServer((request, response) => listener(request, response));
before(async () => {
  site.listen(0, '127.0.0.1');
  await once(site, 'listening');
  url = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  closed = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  other.close();
  server = await startTestServer({
    env: {
      CODER_PROMETHEUS_ENABLE: 'true',
      CODER_PROMETHEUS_ADDRESS: '127.0.0.1:0',
      CODER_WILDCARD_ACCESS_URL: '*.apps.test',
      CODER_DERP_SERVER_STUN_ADDRESSES: 'disable',
    },
  });
});
after(async () => {
  site.closeAllConnections();
  site.close();
  await server.stop();
});

const report =
  (body: unknown, status = 200, headers: Record<string, string> = {}): RequestListener =>
  ({ url: path }, response) => {
    assert.equal(path, '/healthz-report');
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
const FINE = { errors: [], warnings: [] };

let made: UpdateWorkspaceProxyResponse;
async function proxy(name: string, answer: RequestListener, more: object = {}): Promise<WorkspaceProxy> {
  listener = answer;
  made = (await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name } })).body;
  await register(more);
  await server.api('GET', '/debug/health?force=true');
  return look(name);
}
async function register(more: object = {}): Promise<void> {
  const { status, body } = await server.api('POST', '/workspaceproxies/me/register', {
    token: null,
    headers: { 'Coder-External-Proxy-Token': made.proxy_token },
    body: {
      access_url: url,
      wildcard_hostname: '*.eu.example.com',
      // these proxies have no relay, which the health page would check
      derp_enabled: false,
      derp_only: false,
      replica_id: crypto.randomUUID(),
      hostname: 'eu-1',
      version: server.services.version,
      ...more,
    },
  });
  assert.equal(status, 201, JSON.stringify(body));
}
const look = async (name: string) => (await server.api<WorkspaceProxy>('GET', `/workspaceproxies/${name}`)).body;
const forget = async (name: string) =>
  assert.equal((await server.api('DELETE', `/workspaceproxies/${name}`)).status, 200);
const texts = ({ status }: WorkspaceProxy) => [...status!.report.errors, ...status!.report.warnings];

test('shows a healthy proxy everywhere', async () => {
  const found = await proxy('fine', report(FINE));
  assert.deepEqual([found.status?.status, found.healthy, texts(found)], ['ok', true, []]);
  const { regions } = (await server.api<RegionsResponse>('GET', '/regions')).body;
  assert.deepEqual(
    regions.map(({ name, healthy }) => [name, healthy]),
    [
      ['primary', true],
      ['fine', true],
    ],
  );
  const { workspace_proxy: section } = (await server.api<HealthcheckReport>('GET', '/debug/health?force=true')).body;
  assert.deepEqual([section.severity, section.healthy, section.error, section.warnings], ['ok', true, null, []]);
  assert.deepEqual(
    section.workspace_proxies.regions.map(({ name }) => name),
    ['primary', 'fine'],
  );
  await forget('fine');
});

test('names what is wrong with a proxy', async () => {
  const old = 'v0.0.1';
  const cases: [string, RequestListener, object, string, RegExp][] = [
    ['errors', report({ errors: ['no relay'], warnings: ['slow disk'] }), {}, 'unhealthy', /no relay.*slow disk/s],
    ['status', report('gone', 503), {}, 'unhealthy', /answered with status 503/],
    ['page', report('<html>'), {}, 'unhealthy', /gave no health report. Check/],
    ['server', report('<html>', 200, { 'x-coder-build-version': 'v1' }), {}, 'unhealthy', /leads to a server/],
    ['redirect', report('', 302, { location: 'http://127.0.0.1/' }), {}, 'unhealthy', /status 302/],
    ['large', report({ errors: ['x'.repeat(2_000_000)] }), {}, 'unreachable', /too large/],
    ['old', report(FINE), { version: old }, 'ok', /older than the server's.*Update the proxy/],
    ['newer', report(FINE), { version: 'v9999.0.0' }, 'ok', /newer than the server's.*Update the server/],
    ['odd', report(FINE), { version: 'main' }, 'ok', /differs/],
    [
      'wildcard',
      report(FINE),
      { wildcard_hostname: `*.apps.test:${new URL(server.url).port}` },
      'ok',
      /that of the server/,
    ],
    [
      'clock',
      report(FINE, 200, { date: new Date(Date.now() - 600_000).toUTCString() }),
      {},
      'ok',
      /clock is \d+ seconds behind/,
    ],
    [
      'ahead',
      report(FINE, 200, { date: new Date(Date.now() + 600_000).toUTCString() }),
      {},
      'ok',
      /clock is \d+ seconds ahead/,
    ],
    ['mesh', report(FINE), { replica_error: 'cannot reach eu-2' }, 'ok', /"eu-1" reports: cannot reach eu-2/],
    ['absent', report(FINE), { access_url: closed }, 'unreachable', /cannot reach http:.*ECONNREFUSED/],
    [
      'metadata',
      report(FINE),
      { access_url: 'http://169.254.169.254' },
      'unreachable',
      /sends nothing to 169.254.169.254/,
    ],
    ['self', report(FINE), { access_url: server.accessUrl }, 'unhealthy', /access URL .* is that of the server/],
  ];
  for (const [name, answer, more, status, text] of cases) {
    const found = await proxy(name, answer, more);
    assert.equal(found.status?.status, status, `${name}: ${texts(found).join('\n')}`);
    assert.match(texts(found).join('\n'), text, name);
    assert.equal(found.healthy, status === 'ok', name);
    await forget(name);
  }
});

test('announces to pages that a proxy or its health changed, and nothing else', async () => {
  let announced = 0;
  const off = server.services.events.on('object_changed', ({ kind, id }) => {
    if (kind === 'deployment' && id === 'workspace_proxies') announced++;
  });
  const grows = async (what: string, run: () => Promise<unknown>) => {
    const before = announced;
    await run();
    await eventually(`pages learn that ${what}`, async () => announced > before);
  };
  const check = () => server.api('GET', '/debug/health?force=true');
  await grows('there is one', () => proxy('seen', report(FINE)));
  await eventually('it is healthy', async () => (await look('seen')).healthy);
  await check();
  const before = announced;
  await check();
  listener = report({ errors: ['no relay'], warnings: [] });
  await grows('it is not healthy', check);
  assert.equal(announced, before + 1);
  await grows('the primary one has another name', () =>
    server.api('PATCH', '/workspaceproxies/primary', { body: { display_name: 'Home' } }),
  );
  await grows('it is deleted', () => forget('seen'));
  off();
});

test('warns of a wildcard host of two proxies, and of one without processes', async () => {
  await proxy('one', report(FINE));
  const two = await proxy('two', report(FINE));
  assert.match(texts(two).join(), /wildcard host \*\.eu\.example\.com is that of the proxy "one"/);
  await server.services.sql`UPDATE workspace_proxy_replicas SET seen_at = now() - interval '3 minutes'`;
  const { workspace_proxy: section } = (await server.api<HealthcheckReport>('GET', '/debug/health?force=true')).body;
  assert.deepEqual([section.severity, section.healthy], ['warning', true]);
  assert.ok(section.warnings.every(({ code }) => code === 'EWP04'));
  assert.ok(section.warnings.some(({ message }) => /^one: No process of the proxy has registered/.test(message)));
  for (const name of ['one', 'two']) await forget(name);
});

test('a check that was asked for during another one sees what changed meanwhile', async () => {
  await proxy('first', report(FINE));
  const health = new ProxyHealth(server.services);
  const held = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  listener = (request, response) => {
    if (request.url === '/healthz-report') asked.resolve();
    void held.promise.then(() => report(FINE)(request, response));
  };
  const check = () => health.checkAll(AbortSignal.timeout(20_000));
  const early = check();
  await asked.promise;
  await forget('first');
  const late = [check(), check()];
  held.resolve();
  await early;
  assert.equal(health.results().size, 1);
  await Promise.all(late);
  assert.equal(health.results().size, 0);
});

test('the health page names a relay that does not work', async () => {
  const broken: RequestListener = (request, response) => {
    if (request.url === '/healthz-report') report(FINE)(request, response);
    else response.writeHead(404).end();
  };
  await proxy('broken', broken, { derp_enabled: true });
  const { derp } = (await server.api<HealthcheckReport>('GET', '/debug/health?force=true')).body;
  const found = Object.values(derp.regions).find((one) => one?.region?.RegionCode === 'coder_broken');
  assert.deepEqual([derp.severity, found?.healthy, found?.severity], ['error', false, 'error']);
  assert.match(`${found?.error}`, /404/);
  await forget('broken');
});

test('the health page says what the server could not find out', async () => {
  const { sql } = server.services;
  const section = async () =>
    (await server.api<HealthcheckReport>('GET', '/debug/health?force=true')).body.workspace_proxy;
  await sql`ALTER TABLE workspace_proxy_replicas RENAME TO away`;
  const unchecked = await section().finally(() => sql`ALTER TABLE away RENAME TO workspace_proxy_replicas`);
  assert.deepEqual([unchecked.severity, unchecked.healthy, unchecked.error], ['warning', true, null]);
  assert.deepEqual(
    unchecked.warnings.map(({ code }) => code),
    ['EWP01'],
  );
  // the name of the primary region
  const [stored] = await sql<{ value: string }[]>`DELETE FROM site_config WHERE key = 'primary_region' RETURNING value`;
  await sql`INSERT INTO site_config (key, value) VALUES ('primary_region', 'no JSON')`;
  const unread = await section().finally(async () => {
    await sql`DELETE FROM site_config WHERE key = 'primary_region'`;
    if (stored) await sql`INSERT INTO site_config (key, value) VALUES ('primary_region', ${stored.value})`;
  });
  assert.deepEqual([unread.severity, unread.healthy, unread.warnings], ['error', false, []]);
  assert.match(unread.error ?? '', /^EWP02: the server could not read the workspace proxies/);
});

test('checks a proxy soon after it registers, and shows the result as metrics', async () => {
  listener = report(FINE);
  made = (await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name: 'soon' } })).body;
  const { id } = made.proxy;
  const metrics = async () => (await fetch(`${server.metricsUrl}/metrics`)).text();
  await eventually('it is unregistered', async () =>
    (await metrics()).includes(`coderd_proxyhealth_health_check_results{proxy_id="${id}"} 0`),
  );
  await register();
  await eventually('it is healthy', async () => (await look('soon')).healthy);
  const text = await metrics();
  assert.ok(text.includes(`coderd_proxyhealth_health_check_results{proxy_id="${id}"} 1`));
  assert.match(text, /coderd_proxyhealth_health_check_duration_seconds_count [1-9]/);
  await forget('soon');
  await eventually('it is forgotten', async () => !(await metrics()).includes(id));
});
