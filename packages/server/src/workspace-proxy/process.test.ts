import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type { ProxyHealthReport, Response, UpdateWorkspaceProxyResponse } from '@ropewalk/contract';
import { silentLogger } from '@ropewalk/kit';
import { ADMIN, createPerson, eventually, logIn, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { freePort } from '@ropewalk/testkit/ports';
import { type Pipe, startPipe } from '@ropewalk/testkit/tcp-proxy';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { linkSession } from '@ropewalk/wire/link-session';
import {
  PROXY_AGENT_PATH,
  PROXY_LINK_PATH,
  type ProxyLinkRequest,
  readLines,
  TICKET_HEADER,
} from '@ropewalk/wire/proxy-link';
import { requestTunnel } from '@ropewalk/wire/tunnel';
import { acceptWebSocket, dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import { loadConfig } from '../config/load.ts';
import { startTestApp, type TestApp } from '../http/apps/testing/app.ts';
import { ask, open } from '../http/apps/testing/ask.ts';
import { type RunningWorkspaceProxy, startWorkspaceProxy } from './start.ts';

/** A workspace proxy behind which a server is, with a pipe between the two that tests cut. */
let server: TestServer;
let app: TestApp;
let workspace: TestWorkspace;
let pipe: Pipe;
let made: UpdateWorkspaceProxyResponse;
let proxy: RunningWorkspaceProxy;
let fellow: { id: string; token: string };

const HTML = { Accept: 'text/html' };
const PATH = '/@admin/dev/apps/web';
const host = (slug: string) => `${slug}--main--dev--admin.eu.test:${new URL(proxy.url).port}`;

async function start(
  token: string,
  primaryAccessUrl: string,
  { accessUrl }: { accessUrl?: string } = {},
): Promise<RunningWorkspaceProxy> {
  const at = await freePort();
  const { config } = loadConfig({
    env: {
      CODER_HTTP_ADDRESS: `127.0.0.1:${at}`,
      CODER_ACCESS_URL: accessUrl ?? `http://127.0.0.1:${at}`,
      CODER_WILDCARD_ACCESS_URL: '*.eu.test',
    },
  });
  return startWorkspaceProxy({
    options: { ...config, sessionToken: token, primaryAccessUrl, derpOnly: false },
    log: silentLogger,
  });
}

const report = async (url = proxy.url) =>
  JSON.parse((await ask(url, { path: '/healthz-report' })).body) as ProxyHealthReport;
const isReady = (url = proxy.url) =>
  eventually('the proxy is connected', async () => (await report(url)).errors.length === 0);

before(async () => {
  server = await startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.test' } });
  app = await startTestApp();
  const url = `http://localhost:${app.port}`;
  const apps = [
    { slug: 'web', url, subdomain: true },
    { slug: 'open', url, subdomain: true, sharingLevel: 2 },
    { slug: 'ours', url, subdomain: true, sharingLevel: 1 },
  ];
  workspace = await startTestWorkspace(server, 'dev', { agent: { apps: apps as never } });
  fellow = await createPerson(server, 'fellow');
  made = (await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name: 'eu' } })).body;
  const { hostname, port } = new URL(server.url);
  pipe = await startPipe({ host: hostname, port: Number(port) });
  proxy = await start(made.proxy_token, `http://127.0.0.1:${pipe.port}`);
  await isReady();
});
after(async () => {
  await proxy.close();
  pipe.close();
  await workspace.stop();
  await app.close();
  await server.stop();
});

const AT_PROXY = () => ({ url: proxy.url, listens: proxy.url });
const session = () => logIn(server, ADMIN.email, ADMIN.password);
const bySession = (token: string) => ({ 'Coder-Session-Token': token });
const closed = (stream: NodeJS.EventEmitter) => new Promise<void>((resolve) => stream.once('close', () => resolve()));

/** Follows redirects like a browser, from the proxy to the server's sign-in and back. */
async function signIn(token: string, path: string, at?: string): Promise<{ cookie: string; used: string }> {
  const where = at === undefined ? {} : { host: at };
  const first = await ask(proxy.url, { ...where, path, headers: HTML });
  assert.equal(first.status, 307, first.body);
  const there = new URL(first.headers.location!);
  assert.equal(there.pathname, '/api/v2/applications/auth-redirect');
  const second = await ask(server.url, {
    path: there.pathname + there.search,
    headers: { ...HTML, Cookie: `coder_session_token=${token}` },
  });
  assert.equal(second.status, 307, second.body);
  const back = new URL(second.headers.location!);
  assert.equal(back.host, at ?? new URL(proxy.url).host);
  const used = back.pathname + back.search;
  const third = await ask(proxy.url, { ...where, path: used, headers: HTML });
  assert.equal(third.status, 307, third.body);
  assert.equal(third.headers.location, path, 'the address is clean again');
  assert.match(third.headers['set-cookie']![0]!, /; Path=\/; .*HttpOnly; SameSite=Lax$/);
  return { cookie: third.cookies[0]!, used };
}

test('serves path apps and subdomain apps to a browser that signed in at the server', async () => {
  const token = await session();
  for (const [path, at] of [
    [`${PATH}/deep?x=1`, undefined],
    ['/deep?x=1', host('web')],
  ] as const) {
    const where = at === undefined ? {} : { host: at };
    const { cookie, used } = await signIn(token, path, at);
    const answer = await ask(proxy.url, { ...where, path, headers: { Cookie: cookie } });
    assert.equal(answer.status, 200, answer.body);
    assert.doesNotMatch(answer.body, /coder_/, 'the app sees no cookie of the proxy');
    assert.match(answer.cookies[0]!, /^coder_signed_app_token=/);
    // its own grant suffices, without a question to the server
    const granted = await ask(proxy.url, { ...where, path, headers: { Cookie: answer.cookies[0]! } });
    assert.deepEqual([granted.status, granted.cookies], [200, []]);
    // what the browser brought works once, and does not send a browser in circles
    const again = await ask(proxy.url, { ...where, path: used, headers: HTML });
    assert.equal(again.status, 403);
    assert.match(again.body, /already used/);
    assert.doesNotMatch(cookie, new RegExp(token.split('-')[1]!));
    assert.equal((await server.api('GET', '/users/me', { token: cookie.split('=')[1]! })).status, 401);
  }
});

test('serves programs, visitors without a session, uploads, WebSockets and nothing else', async () => {
  const headers = bySession(server.adminToken);
  const echo = await ask(proxy.url, { path: `${PATH}/echo`, headers });
  assert.equal(echo.status, 200, echo.body);
  assert.doesNotMatch(echo.body, /session/i);
  assert.equal((await ask(proxy.url, { host: host('open'), path: '/echo' })).status, 200);
  assert.equal((await ask(proxy.url, { host: host('web'), path: '/echo' })).status, 401);
  const stranger = await ask(proxy.url, { host: host('web'), path: '/echo', headers: bySession(fellow.token) });
  assert.equal(stranger.status, 404);
  const up = await ask(proxy.url, { method: 'POST', path: `${PATH}/upload`, headers, body: Buffer.alloc(3_000_000) });
  assert.equal(JSON.parse(up.body).bytes, 3_000_000);
  const { connection } = await dialWebSocket(`${proxy.url.replace('http', 'ws')}${PATH}/socket`, { headers });
  connection.sendText('hello');
  const [text] = await once(connection, 'text');
  assert.equal(text, 'hello');
  connection.close();
  for (const [path, status] of [
    ['/healthz', 200],
    ['/latency-check', 200],
    ['/api/v2/buildinfo', 200],
    ['/', 307],
    ['/api/v2/users/me', 404],
    ['/%', 404],
  ] as const)
    assert.equal((await ask(proxy.url, { path, headers })).status, status, path);
});

test('the bytes of an app take the connection of its agent, and not the one to the server', async () => {
  const headers = bySession(server.adminToken);
  const echo = () => ask(proxy.url, { path: `${PATH}/echo`, headers });
  assert.equal((await echo()).status, 200);
  const stream = await eventually('a stream does not end with the connection to the server', async () => {
    const found = await open(proxy.url, { path: `${PATH}/sse`, headers });
    found.resume();
    pipe.cut();
    await eventually('the proxy reports it', async () => (await report()).errors.length > 0);
    pipe.mend();
    await isReady();
    return found.destroyed ? undefined : found;
  });
  const more = once(stream, 'data');
  for (const response of app.open) response.write('data: more\n\n');
  assert.match(String((await more)[0]), /more/);
  stream.destroy();
});

test('ends what is open when a session is revoked, a person is suspended, or a port is not shared any more', async () => {
  const token = await session();
  const mine = await open(proxy.url, { path: `${PATH}/sse`, headers: bySession(token) });
  assert.equal(mine.statusCode, 200);
  const ended = closed(mine.resume());
  const theirs = await open(proxy.url, { host: host('ours'), path: '/sse', headers: bySession(fellow.token) });
  assert.equal(theirs.statusCode, 200);
  const granted = theirs.headers['set-cookie']![0]!.split(';')[0]!;
  const theirsEnded = closed(theirs.resume());
  const since = performance.now();
  assert.equal((await server.api('POST', '/users/logout', { token })).status, 200);
  await ended;
  assert.ok(performance.now() - since < 5_000);
  assert.equal(theirs.destroyed, false, 'another person is not concerned');
  const suspended = performance.now();
  assert.equal((await server.api('PUT', `/users/${fellow.id}/status/suspend`)).status, 200);
  await theirsEnded;
  assert.ok(performance.now() - suspended < 5_000);
  const after = await ask(proxy.url, { host: host('ours'), path: '/echo', headers: { Cookie: granted } });
  assert.equal(after.status, 401, 'a grant that has not expired is no longer valid');
  await server.api('PUT', `/users/${fellow.id}/status/activate`);

  const port = { agent_name: 'main', port: app.port };
  const wide = { max_port_share_level: 'public' };
  const template = `/templates/${workspace.workspace.template_id}`;
  assert.equal((await server.api('PATCH', template, { body: wide })).status, 200);
  const shares = `/workspaces/${workspace.workspace.id}/port-share`;
  assert.equal(
    (await server.api('POST', shares, { body: { ...port, protocol: 'http', share_level: 'public' } })).status,
    200,
  );
  const shared = await open(proxy.url, { host: host(String(app.port)), path: '/sse' });
  assert.equal(shared.statusCode, 200);
  const sharedEnded = closed(shared.resume());
  const taken = performance.now();
  assert.equal((await server.api('DELETE', shares, { body: port })).status, 200);
  await sharedEnded;
  assert.ok(performance.now() - taken < 5_000);
});

/** Opens the terminal of the workspace at a proxy, as the dashboard does. */
async function terminal(token = server.adminToken, { url, listens }: { url: string; listens: string } = AT_PROXY()) {
  const path = `/api/v2/workspaceagents/${workspace.agentId}/pty`;
  const at = `${url.replace('http', 'ws')}${path}`;
  const { body, status } = await server.api<{ signed_token: string }>(
    'POST',
    '/applications/reconnecting-pty-signed-token',
    { body: { url: at, agentID: workspace.agentId }, token },
  );
  assert.equal(status, 200, JSON.stringify(body));
  const query = new URLSearchParams({
    reconnect: crypto.randomUUID(),
    width: '80',
    height: '24',
    command: 'sh',
    coder_signed_app_token_23db1dde: body.signed_token,
  });
  const { connection } = await dialWebSocket(`${listens.replace('http', 'ws')}${path}?${query}`, {});
  let shown = '';
  connection.on('binary', (bytes) => {
    shown += bytes.toString();
  });
  return {
    connection,
    shown: () => shown,
    type: (data: string) => connection.sendBinary(Buffer.from(JSON.stringify({ data }))),
    shows: (text: string) => eventually(`the terminal shows ${text}`, () => shown.includes(text)),
  };
}

test('a terminal over the connection of its agent does not notice an outage of the server, and ends with the session', async () => {
  const token = await session();
  const shell = await terminal(token);
  shell.type('x=4; echo is-$((x+1))\r');
  await shell.shows('is-5');
  pipe.cut();
  await eventually('the proxy reports it', async () => /connection to .* failed/.test((await report()).errors.join()));
  shell.type('echo still-$((x+2))\r');
  await shell.shows('still-6');
  assert.doesNotMatch(shell.shown(), /cannot be reached/);
  const page = await ask(proxy.url, { path: `${PATH}/`, headers: { ...HTML, ...bySession(token) } });
  assert.equal(page.status, 503);
  assert.match(page.body, /cannot reach its server/);
  pipe.mend();
  await isReady();
  shell.type('echo and-$((x+3))\r');
  await shell.shows('and-7');
  const since = performance.now();
  assert.equal((await server.api('POST', '/users/logout', { token })).status, 200);
  await shell.connection.closed;
  assert.ok(performance.now() - since < 5_000);
});

test('a terminal whose bytes cross the server waits for it, and ends with the session', async (t) => {
  // nothing listens where agents would look for this proxy
  const accessUrl = `http://127.0.0.1:${await freePort()}`;
  const { body } = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', {
    body: { name: 'far' },
  });
  const far = await start(body.proxy_token, `http://127.0.0.1:${pipe.port}`, { accessUrl });
  t.after(() => far.close());
  await isReady(far.url);
  const token = await session();
  const shell = await terminal(token, { url: accessUrl, listens: far.url });
  shell.type('x=4; echo is-$((x+1))\r');
  await shell.shows('is-5');
  pipe.cut();
  await shell.shows('cannot be reached');
  // what a person types meanwhile arrives
  shell.type('echo still-$((x+2))\r');
  pipe.mend();
  await shell.shows('still-6');
  assert.equal(shell.connection.open, true);
  await isReady(far.url);
  const since = performance.now();
  assert.equal((await server.api('POST', '/users/logout', { token })).status, 200);
  await shell.connection.closed;
  assert.ok(performance.now() - since < 5_000);
  await isReady();
});

test('a terminal ends with its shell', async () => {
  const shell = await terminal();
  shell.type('exit\r');
  const { code } = await shell.connection.closed;
  assert.equal(code, 1000);
});

test('only people who may use the terminal get one', async () => {
  const at = `/api/v2/workspaceagents/${workspace.agentId}/pty`;
  const refused = async (headers: Record<string, string>, query = '') => {
    const dialed = dialWebSocket(`${proxy.url.replace('http', 'ws')}${at}?reconnect=${crypto.randomUUID()}${query}`, {
      headers,
    });
    const err = await dialed.then(
      () => undefined,
      (thrown: WebSocketDialError) => thrown,
    );
    assert.ok(err instanceof WebSocketDialError);
    return err.status;
  };
  assert.equal(await refused({}), 401);
  assert.equal(await refused(bySession(fellow.token)), 404);
  assert.equal(await refused({}, '&coder_signed_app_token_23db1dde=abc'), 401);
  const url = `${proxy.url}${at}`;
  const body = { url, agentID: workspace.agentId };
  const path = '/applications/reconnecting-pty-signed-token';
  assert.equal((await server.api('POST', path, { body, token: fellow.token })).status, 404);
});

test('starts without its server, says why, and serves when it is there', async () => {
  const gate = await startPipe({ host: '127.0.0.1', port: Number(new URL(server.url).port) });
  gate.cut();
  const second = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', {
    body: { name: 'late' },
  });
  const late = await start(second.body.proxy_token, `http://127.0.0.1:${gate.port}`);
  try {
    assert.equal((await ask(late.url, { path: '/readyz' })).status, 503);
    await eventually('it reports why', async () =>
      /connection to .* failed/.test((await report(late.url)).errors.join()),
    );
    const page = await ask(late.url, { path: `${PATH}/`, headers: { ...HTML, ...bySession(server.adminToken) } });
    assert.equal(page.status, 503);
    assert.match(page.body, /cannot reach its server/);
    gate.mend();
    await isReady(late.url);
    assert.equal((await ask(late.url, { path: '/readyz' })).status, 200);
    const served = await ask(late.url, { path: `${PATH}/echo`, headers: bySession(server.adminToken) });
    assert.equal(served.status, 200, served.body);
    // a replaced token ends the link
    await server.api('PATCH', '/workspaceproxies/late', { body: { regenerate_token: true } });
    await eventually('the link ends', async () => (await report(late.url)).errors.some((text) => /token/.test(text)));
    const now = await ask(late.url, { path: `${PATH}/`, headers: { ...HTML, ...bySession(server.adminToken) } });
    assert.equal(now.status, 503);
    assert.match(now.body, /does not accept the token/);
    assert.equal((await ask(late.url, { path: '/readyz' })).status, 200, 'its pages say why');
  } finally {
    await late.close();
    gate.close();
  }
});

test('the holder of a stolen token opens nothing without grants of the proxy', async () => {
  const { body: thief } = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', {
    body: { name: 'thief' },
  });
  const link = async (headers: Record<string, string>) =>
    (await dialWebSocket(`${server.url.replace('http', 'ws')}${PROXY_LINK_PATH}`, { headers })).connection;
  const wrong: Record<string, string>[] = [
    {},
    bySession(server.adminToken),
    { 'Coder-External-Proxy-Token': `${thief.proxy.id}:x` },
  ];
  for (const headers of wrong) await assert.rejects(link(headers), (err: WebSocketDialError) => err.status === 401);
  const session = linkSession(await link({ 'Coder-External-Proxy-Token': thief.proxy_token }), { role: 'client' });
  const asked = (request: ProxyLinkRequest | { service: string }) =>
    requestTunnel(session, { ...request }).then(
      () => 'opened',
      (err: Error) => err.message,
    );
  const cookie = (await ask(proxy.url, { host: host('open'), path: '/echo' })).cookies[0]!;
  const foreign = cookie.slice(cookie.indexOf('=') + 1);
  const rest = { query: { reconnect: crypto.randomUUID() }, ip: '', userAgent: '' };
  for (const grant of ['', 'a.b.c', foreign, `${foreign}x`, server.adminToken]) {
    for (const service of ['app', 'watch', 'renew'] as const)
      assert.match(await asked({ service, grant }), /not valid for this proxy/, service);
    assert.match(await asked({ service: 'terminal', grant, ...rest }), /not valid for this proxy/);
  }
  assert.match(await asked({ service: 'tcp' }), /no service/);
  // a host of somebody else
  const redeem = await server.api<Response>('POST', '/workspaceproxies/me/redeem-sign-in', {
    token: null,
    headers: { 'Coder-External-Proxy-Token': thief.proxy_token },
    body: { host: '127.0.0.1', handover: 'x' },
  });
  assert.equal(redeem.status, 400);
  await session.close();
});

test('an agent ends what a proxy keeps open without the right, and accepts nobody else as a proxy', async (t) => {
  // a proxy that cuts nothing
  const listener = createServer();
  t.after(() => listener.close());
  const arrived = Promise.withResolvers<YamuxSession>();
  listener.on('upgrade', (request, socket, head) => {
    if (request.url !== PROXY_AGENT_PATH) return void socket.destroy();
    arrived.resolve(linkSession(acceptWebSocket(request, socket, head), { role: 'server' }));
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const accessUrl = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const greedy = (
    await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name: 'greedy' } })
  ).body;
  const headers = { 'Coder-External-Proxy-Token': greedy.proxy_token };
  const me = <T>(path: string, body: object) =>
    server.api<T>('POST', `/workspaceproxies/me${path}`, { token: null, headers, body });
  const registration = {
    access_url: accessUrl,
    derp_enabled: false,
    derp_only: false,
    replica_id: crypto.randomUUID(),
  };
  const registered = await me('/register', { ...registration, wildcard_hostname: '*.greedy.test' });
  assert.equal(registered.status, 201);
  const issued = await me<{ signed_token_str: string }>('/issue-signed-app-token', {
    app_request: {
      ...{ access_method: 'subdomain', base_path: '/', username_or_id: 'admin', workspace_name_or_id: 'dev' },
      ...{ agent_name_or_id: 'main', app_slug_or_port: 'ours' },
    },
    ...{ path_app_base_url: accessUrl, app_hostname: '*.greedy.test', session_token: fellow.token },
  });
  const grant = issued.body.signed_token_str;
  const { connection } = await dialWebSocket(`${server.url.replace('http', 'ws')}${PROXY_LINK_PATH}`, { headers });
  const link = linkSession(connection, { role: 'client' });
  t.after(() => link.close());
  (await requestTunnel(link, { service: 'invite', grant })).destroy();
  const agent = await arrived.promise;
  const news = await requestTunnel(link, { service: 'watch', grant });
  const permit = await new Promise<string>((resolve) =>
    readLines(news, (line) => resolve(line.slice('permit '.length))),
  );
  for (const wrong of [grant, server.adminToken, `${permit}x`])
    await assert.rejects(requestTunnel(agent, { service: 'permitted', permit: wrong }), /permit is not valid/);
  await assert.rejects(requestTunnel(agent, { service: 'tcp', port: app.port }), /permit is not valid/);
  const stream = await requestTunnel(agent, { service: 'permitted', permit });
  stream.on('error', () => {});
  stream.write('GET /sse HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(stream, 'data');
  const ended = closed(stream.resume());
  const since = performance.now();
  assert.equal((await server.api('PUT', `/users/${fellow.id}/status/suspend`)).status, 200);
  await ended;
  assert.ok(performance.now() - since < 5_000);
  await assert.rejects(requestTunnel(agent, { service: 'permitted', permit }), /permit is not valid/);
  await server.api('PUT', `/users/${fellow.id}/status/activate`);
  // a program without the ticket of an agent
  for (const ticket of ['', grant, permit]) {
    const dialed = dialWebSocket(`${proxy.url.replace('http', 'ws')}${PROXY_AGENT_PATH}`, {
      headers: { [TICKET_HEADER]: ticket },
    });
    await assert.rejects(dialed, (err: WebSocketDialError) => err.status === 401);
  }
  await server.api('DELETE', '/workspaceproxies/greedy');
  await agent.closed;
});

test('ends what is open when the workspace stops', async () => {
  const stream = await open(proxy.url, { path: `${PATH}/sse`, headers: bySession(server.adminToken) });
  assert.equal(stream.statusCode, 200);
  const ended = closed(stream.resume());
  const { status } = await server.api('POST', `/workspaces/${workspace.workspace.id}/builds`, {
    body: { transition: 'stop' },
  });
  assert.equal(status, 201);
  await takeJob(server);
  await workspace.agent.stop();
  await ended;
});
