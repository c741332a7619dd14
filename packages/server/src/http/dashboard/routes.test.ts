import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, get, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import type { UpdateWorkspaceProxyResponse } from '@ropewalk/contract';
import { AppError, createLogger } from '@ropewalk/kit';
import { eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { fastify } from 'fastify';
import type { Dashboard } from './build.ts';
import { writePack } from './pack.ts';
import { dashboardRoutes } from './routes.ts';

const PAGE = '<!doctype html><title>Coder</title><div id="root"></div>';
const FIRST_PAGE = '<!doctype html><title>Coder</title><div id="root"></div><div id="frame"></div>';
const SCRIPT = `console.log(${JSON.stringify('x'.repeat(4_000))})`;
const HTML = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

let server: TestServer;
let folder: string;
const lines: string[] = [];
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'dashboard-'));
  mkdirSync(folder, { recursive: true });
  const files = new Map([
    ['/index.html', Buffer.from(PAGE)],
    ['/first-page.html', Buffer.from(FIRST_PAGE)],
    ['/theme.js', Buffer.from('1;')],
    ['/assets/index-abc.js', Buffer.from(SCRIPT)],
    ['/assets/inter.woff2', Buffer.from([1, 2, 3])],
    ['/icon/docker.svg', Buffer.from('<svg/>')],
    ['/icon/icons.json', Buffer.from('[]')],
  ]);
  writePack(folder, files, { '1f4bb': '<svg>laptop</svg>', '25b6': '<svg>play</svg>' }, { quality: () => 5 });
  const log = createLogger({ level: 'warn', sinks: [{ format: 'json', write: (line) => void lines.push(line) }] });
  server = await startTestServer({ dashboard: folder, log });
});
after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Got {
  status: number;
  headers: IncomingMessage['headers'];
  bytes: Buffer;
}

/** Sends a request without the conveniences of fetch, which decompresses. */
async function ask(path: string, headers: Record<string, string> = {}, method = 'GET', body?: string): Promise<Got> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request(`${server.url}${path}`, { method, headers }, resolve).once('error', reject).end(body);
  });
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return { status: answer.statusCode!, headers: answer.headers, bytes: Buffer.concat(chunks) };
}

test('shows the page at every path that a person may have in a link', async () => {
  const paths = [
    '/workspaces?filter=owner:me',
    '/@ann/dev',
    '/@ann/dev/builds/3',
    '/ann/dev/settings/schedule',
    '/templates/org/docker/workspace?mode=auto&param.region=eu',
    '/templates/docker/versions/v1/edit',
    '/organizations/default/provisioner-jobs?ids=1',
    '/deployment/overview',
    '/settings/tokens/new',
    '/health/derp/regions/1',
    '/icons',
    '/a-page-that-does-not-exist',
    '/%F0%9F%92%BB',
  ];
  for (const path of paths) {
    const { status, bytes, headers } = await ask(path, HTML);
    assert.equal(status, 200, path);
    assert.equal(bytes.toString(), PAGE, path);
    assert.equal(headers['cache-control'], 'no-cache');
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.match(String(headers['content-type']), /^text\/html/);
  }
  const head = await ask('/workspaces', HTML, 'HEAD');
  assert.equal(head.status, 200);
  assert.equal(head.bytes.length, 0);
});

test('opens with the frame and the list for a browser with a session', async () => {
  const cookie = 'coder_session_token=any';
  for (const path of ['/', '/workspaces']) {
    const first = await ask(path, { ...HTML, cookie });
    assert.equal(first.bytes.toString(), FIRST_PAGE, path);
    assert.match(String(first.headers.vary), /cookie/);
    assert.match(String(first.headers['content-security-policy']), /script-src 'self'/);
    assert.equal((await ask(path, HTML)).bytes.toString(), PAGE, `${path} without a session`);
  }
  for (const path of ['/workspaces?filter=name:x', '/templates', '/login']) {
    assert.equal((await ask(path, { ...HTML, cookie })).bytes.toString(), PAGE, path);
  }
});

test('keeps the answers of the API, of downloads, and of programs', async () => {
  assert.equal(String((await ask('/', { accept: '*/*' })).bytes), PAGE, 'for programs that watch a server');
  for (const [path, headers] of [
    ['/api/v2/nothing', HTML],
    ['/bin/nothing', HTML],
    ['/assets/nothing.js', HTML],
    ['/icon/nothing.svg', HTML],
    ['/workspaces', { accept: '*/*' }],
    ['/robots.txt', {}],
  ] as const) {
    const { status, bytes } = await ask(path, headers as Record<string, string>);
    assert.equal(status, 404, path);
    assert.equal(typeof JSON.parse(bytes.toString()).message, 'string', path);
  }
  assert.equal((await ask('/workspaces', HTML, 'POST')).status, 404);
  assert.match((await ask('/install.sh', HTML)).bytes.toString(), /^#!/);
  assert.equal((await ask('/healthz', HTML)).bytes.toString(), 'OK');
});

/** The directives of an answer's Content-Security-Policy by name. */
const policyOf = (headers: IncomingMessage['headers']) =>
  new Map(
    String(headers['content-security-policy'])
      .split('; ')
      .map((directive) => directive.split(/ (.*)/s).slice(0, 2) as [string, string]),
  );

test('lets the page run only its own scripts and connect only to this host', async () => {
  const { headers } = await ask('/templates', { ...HTML, host: 'coder.example.com:8080' });
  const policy = policyOf(headers);
  assert.equal(policy.get('default-src'), "'none'");
  assert.equal(policy.get('script-src'), "'self'");
  assert.equal(policy.get('connect-src'), "'self' ws://coder.example.com:8080 wss://coder.example.com:8080");
  assert.equal(policy.get('frame-ancestors'), "'none'");
  assert.equal(policy.get('report-uri'), '/csp/reports');
  const odd = await ask('/templates', { ...HTML, host: 'x;script-src *' });
  assert.match(String(odd.headers['content-security-policy']), /connect-src 'self';/);
});

test('lets the page connect to workspace proxies and show their apps, while they are healthy', async (t) => {
  let errors: string[] = [];
  const proxy = createServer((_request, response) => response.end(JSON.stringify({ errors, warnings: [] })));
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => proxy.close());
  const { port } = proxy.address() as AddressInfo;
  const { body: made } = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', {
    body: { name: 'eu' },
  });
  const register = (more: object = {}) =>
    server.api('POST', '/workspaceproxies/me/register', {
      token: null,
      headers: { 'Coder-External-Proxy-Token': made.proxy_token },
      body: {
        access_url: `http://127.0.0.1:${port}`,
        wildcard_hostname: `*.eu.test:${port}`,
        derp_enabled: true,
        derp_only: false,
        replica_id: crypto.randomUUID(),
        ...more,
      },
    });
  const permits = async () => {
    const policy = policyOf((await ask('/templates', { ...HTML, host: 'coder.example.com' })).headers);
    return [policy.get('connect-src'), policy.get('frame-src')];
  };
  const own = "'self' ws://coder.example.com wss://coder.example.com";
  const others = [`${own} http://127.0.0.1:${port} ws://127.0.0.1:${port}`, `'self' http://*.eu.test:${port}`];
  const becomes = (expected: unknown[]) =>
    eventually(`the policy is ${expected.join('; ')}`, async () => `${await permits()}` === `${expected}`);
  assert.deepEqual(await permits(), [own, "'none'"]);
  assert.equal((await register()).status, 201);
  await becomes(others);
  errors = ['out of order'];
  await server.api('GET', '/debug/health?force=true');
  assert.deepEqual(await permits(), [own, "'none'"]);
  errors = [];
  await register();
  await becomes(others);
  // a relay serves neither apps nor terminals
  await register({ derp_only: true });
  await becomes([own, "'none'"]);
  await register();
  await becomes(others);
  assert.equal((await server.api('DELETE', '/workspaceproxies/eu')).status, 200);
  await becomes([own, "'none'"]);
});

test('serves files compressed, with types, and once for each version', async () => {
  for (const [accepted, encoding, read] of [
    ['gzip, deflate, br, zstd', 'br', brotliDecompressSync],
    ['br;q=0, gzip', 'gzip', gunzipSync],
    ['identity', undefined, (bytes: Buffer) => bytes],
  ] as const) {
    const { status, headers, bytes } = await ask('/assets/index-abc.js', { 'accept-encoding': accepted });
    assert.equal(status, 200);
    assert.equal(headers['content-encoding'], encoding);
    assert.equal(headers['content-type'], 'text/javascript; charset=utf-8');
    assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable');
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.equal(read(bytes).toString(), SCRIPT);
  }
  const font = await ask('/assets/inter.woff2', { 'accept-encoding': 'br, gzip' });
  assert.equal(font.headers['content-encoding'], undefined);
  assert.deepEqual([...font.bytes], [1, 2, 3]);
  const page = await ask('/login-x', HTML);
  const again = await ask('/other', { ...HTML, 'if-none-match': String(page.headers['etag']) });
  assert.equal(again.status, 304);
  assert.equal(again.bytes.length, 0);
  assert.ok(again.headers['content-security-policy']);
  assert.equal((await ask('/theme.js')).bytes.toString(), '1;');
});

test('serves icons and emojis under the names that templates use', async () => {
  for (const path of ['/icon/docker.svg', '/icon/docker.png']) {
    const { headers, bytes } = await ask(path);
    assert.equal(headers['content-type'], 'image/svg+xml; charset=utf-8');
    assert.equal(bytes.toString(), '<svg/>');
    assert.match(String(headers['content-security-policy']), /default-src 'none'/);
  }
  assert.equal((await ask('/icon/icons.json')).bytes.toString(), '[]');
  assert.equal((await ask('/emojis/1f4bb.png')).bytes.toString(), '<svg>laptop</svg>');
  assert.equal((await ask('/emojis/25b6-fe0f.png')).headers['content-type'], 'image/svg+xml; charset=utf-8');
  for (const name of ['1f4bc.png', 'constructor.svg', '../index.html', '1f4bb.gif'])
    assert.equal((await ask(`/emojis/${encodeURIComponent(name)}`)).status, 404, name);
});

test('logs what browsers report, without queries, and limits each network', async () => {
  const report = {
    'csp-report': {
      'document-uri': 'https://coder.example.com/templates?token=secret#x',
      'effective-directive': 'script-src-elem',
      'blocked-uri': 'https://evil.example/x.js',
      'line-number': 7,
    },
  };
  const type = { 'content-type': 'application/csp-report' };
  lines.length = 0;
  assert.equal((await ask('/csp/reports', type, 'POST', JSON.stringify(report))).status, 204);
  assert.equal((await ask('/api/v2/csp/reports', type, 'POST', JSON.stringify(report))).status, 200);
  const logged = lines.filter((line) => line.includes('content security policy'));
  assert.equal(logged.length, 2);
  assert.match(logged[0]!, /script-src-elem/);
  assert.match(logged[0]!, /evil\.example/);
  assert.doesNotMatch(lines.join(''), /secret/);
  for (const body of ['', '[]', '{"csp-report": 1}', 'no json'])
    assert.equal((await ask('/csp/reports', type, 'POST', body)).status, 400, body);
  assert.equal((await ask('/csp/reports', type, 'POST', 'x'.repeat(300_000))).status, 413);
  const statuses = new Set<number>();
  for (let i = 0; i < 25; i++) statuses.add((await ask('/csp/reports', type, 'POST', JSON.stringify(report))).status);
  assert.deepEqual([...statuses], [204, 429]);
});

/** Loads a page of a server whose dashboard is not there yet. */
async function load(dashboard: Dashboard): Promise<{ status: number; text: string }> {
  const app = fastify();
  dashboardRoutes(app, { dashboard, cspReports: { take() {} }, clientAddress: () => '127.0.0.1', waitMs: 50 });
  try {
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    const answer = await new Promise<IncomingMessage>((resolve) =>
      get(`${url}/workspaces`, { headers: HTML }, resolve),
    );
    let text = '';
    for await (const chunk of answer.setEncoding('utf8')) text += chunk;
    return { status: answer.statusCode!, text };
  } finally {
    await app.close();
  }
}

test('says that the dashboard is being built, or could not be', async () => {
  const building = await load({ files: () => new Promise(() => {}), close: async () => {} });
  assert.equal(building.status, 503);
  assert.match(building.text, /being built[\s\S]*reloads by itself/);
  const files = () => Promise.reject(new AppError('unavailable', 'no', { detail: '/secret/path' }));
  const failed = await load({ files, close: async () => {} });
  assert.equal(failed.status, 503);
  assert.match(failed.text, /could not be built[\s\S]*server's log/);
  assert.doesNotMatch(failed.text, /secret/);
});
