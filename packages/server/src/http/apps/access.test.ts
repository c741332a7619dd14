import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { RegionsResponse, Template, Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { ADMIN, eventually, insertPerson, logIn, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';
import { createSubAgent } from '../../app/agent/sub-agents.ts';
import { completeJob } from '../../app/job/complete.ts';
import { connectedAgent } from '../../authz/proofs.ts';
import { agentById } from '../../db/queries/agents.ts';
import { startTestApp, type TestApp } from './testing/app.ts';
import { ask, open } from './testing/ask.ts';

/** Who may open which apps, how a browser signs in to them, and how soon access ends. */
let server: TestServer;
let app: TestApp;
let workspace: TestWorkspace;
const HOST = 'web--main--dev--admin.apps.test';
const HTML = { Accept: 'text/html' };
let portHost: string;

before(async () => {
  server = await startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.test' } });
  app = await startTestApp();
  portHost = `${app.port}--main--dev--admin.apps.test`;
  const url = `http://localhost:${app.port}`;
  const apps = [
    { slug: 'web', url, subdomain: true },
    { slug: 'open', url, sharingLevel: 2 },
  ];
  workspace = await startTestWorkspace(server, 'dev', { agent: { apps: apps as never } });
});
after(async () => {
  await workspace.stop();
  await app.close();
  await server.stop();
});

/** A separate session for the first user, to be revoked. */
const session = () => logIn(server, ADMIN.email, ADMIN.password);
const bySession = (token: string) => ({ 'Coder-Session-Token': token });
const byCookie = (token: string) => ({ ...HTML, Cookie: `coder_session_token=${token}` });
const share = (method: string, body: object, token?: string) =>
  server.api(method, `/workspaces/${workspace.workspace.id}/port-share`, { body, ...(token ? { token } : {}) });

/** Resolves when a stream has ended, with or without an error. */
const closed = (stream: NodeJS.EventEmitter) => new Promise<void>((resolve) => stream.once('close', () => resolve()));

/** Follows redirects like a browser, from the app's host to the dashboard's and back, with a cookie at each. */
async function signIn(token: string, host = HOST): Promise<{ cookie: string; used: string }> {
  const first = await ask(server.url, { host, path: '/deep?x=1', headers: HTML });
  assert.equal(first.status, 307);
  const second = await ask(server.url, {
    path: first.headers.location!.slice(server.accessUrl.length),
    headers: byCookie(token),
  });
  assert.equal(second.status, 307, second.body);
  const back = new URL(second.headers.location!);
  assert.equal(back.hostname, host);
  const used = back.pathname + back.search;
  const third = await ask(server.url, { host, path: used, headers: HTML });
  assert.equal(third.status, 307, third.body);
  assert.equal(third.headers.location, '/deep?x=1', 'the address is clean again');
  assert.match(third.headers['set-cookie']![0]!, /; Path=\/; .*HttpOnly; SameSite=Lax$/);
  return { cookie: third.cookies[0]!, used };
}

test('signs a browser in to a subdomain app, with a cookie that is valid only there', async () => {
  const token = await session();
  const { cookie, used } = await signIn(token);
  const answer = await ask(server.url, { host: HOST, path: '/deep', headers: { Cookie: cookie } });
  assert.equal(answer.status, 200, answer.body);
  assert.doesNotMatch(answer.body, /coder_/, 'the app sees none of it');
  const again = await ask(server.url, { host: HOST, path: used, headers: {} });
  assert.equal(again.status, 401);
  assert.match(again.body, /already used/);
  const appToken = cookie.split('=')[1]!;
  assert.notEqual(appToken, token);
  for (const [method, path] of [
    ['GET', '/users/me/keys/tokens'],
    ['GET', '/organizations'],
    ['POST', '/users/me/keys'],
  ] as const) {
    assert.equal((await server.api(method, path, { token: appToken })).status, 401, path);
  }
  // nor for another host in any form
  assert.equal((await ask(server.url, { host: portHost, headers: { Cookie: cookie } })).status, 401);
  const asToken = await ask(server.url, { host: portHost, headers: bySession(appToken) });
  assert.equal(asToken.status, 401);
  const other = await ask(server.url, { host: portHost, path: used });
  assert.match(other.body, /for another address/);
  assert.equal(answer.cookies[0]!.split('=')[0], 'coder_signed_app_token');
  const elsewhere = await ask(server.url, { host: portHost, headers: { Cookie: answer.cookies[0]! } });
  assert.equal(elsewhere.status, 401);
  const api = await server.api('GET', '/users/me', { token: null, headers: { Cookie: answer.cookies[0]! } });
  assert.equal(api.status, 401);
  await server.api('POST', '/users/logout', { token });
  const out = await ask(server.url, { host: HOST, headers: { Cookie: cookie } });
  assert.equal(out.status, 401, 'with the session the app’s ends');
});

test('redirects back to no other host', async () => {
  const uri = encodeURIComponent(`http://${HOST}:${new URL(server.accessUrl).port}//evil.example/x`);
  const path = `/api/v2/applications/auth-redirect?redirect_uri=${uri}`;
  const there = await ask(server.url, { path, headers: byCookie(await session()) });
  const back = new URL(there.headers.location!);
  const answer = await ask(server.url, { host: HOST, path: back.pathname + back.search, headers: HTML });
  assert.deepEqual([answer.status, answer.headers.location], [307, '/evil.example/x']);
});

test('redirects back to hosts of apps only, and asks for a sign-in without a session', async () => {
  const token = await session();
  for (const uri of [
    '',
    'https://evil.example/',
    'http://apps.test/',
    'http://nothing.apps.test/',
    `https://${HOST}/`,
    `http://x@${HOST}/`,
    'javascript:alert(1)',
    `http://${HOST}.evil.example/`,
    `http://${HOST}/`,
  ]) {
    const path = `/api/v2/applications/auth-redirect?redirect_uri=${encodeURIComponent(uri)}`;
    const answer = await ask(server.url, { path, headers: byCookie(token) });
    assert.equal(answer.status, 400, uri);
  }
  const none = await ask(server.url, { path: '/api/v2/applications/auth-redirect?redirect_uri=x', headers: HTML });
  assert.equal(none.status, 307);
  assert.match(none.headers.location!, /^\/login\?redirect=%2Fapi%2Fv2%2Fapplications/);
  const path = await ask(server.url, { path: '/@admin/dev/apps/web/a?b', headers: HTML });
  assert.deepEqual(
    [path.status, path.headers.location],
    [307, '/login?redirect=%2F%40admin%2Fdev%2Fapps%2Fweb%2Fa%3Fb'],
  );
});

test('ignores a forged, changed or old grant', async () => {
  const first = await ask(server.url, { host: HOST, headers: bySession(await session()) });
  const [name, value] = first.cookies[0]!.split('=') as [string, string];
  const [payload, mac] = value.split('.') as [string, string];
  const changed = Buffer.from(
    JSON.stringify({ ...JSON.parse(Buffer.from(payload, 'base64url').toString()), port: 22 }),
  );
  for (const bad of [
    `${payload}.${mac.slice(1)}`,
    payload,
    `${changed.toString('base64url')}.${mac}`,
    '',
    `${value}.`,
    'a.b',
  ]) {
    const answer = await ask(server.url, { host: HOST, headers: { Cookie: `${name}=${bad}` } });
    assert.equal(answer.status, 401, bad);
  }
  assert.equal(
    (await ask(server.url, { host: HOST, headers: { Cookie: `x${name}=1; ${name}=${value}` } })).status,
    200,
  );
});

test('ends grants, open WebSockets and streams of a revoked session immediately', async () => {
  const token = await session();
  const { cookie } = await signIn(token);
  const first = await ask(server.url, { host: HOST, headers: { Cookie: cookie } });
  const grant = first.cookies[0]!;
  const base = server.url.replace('http', 'ws');
  const { connection } = await dialWebSocket(`${base}/@admin/dev/apps/web/ws`, { headers: bySession(token) });
  connection.on('text', () => {});
  const stream = await open(server.url, { host: HOST, path: '/sse', headers: { Cookie: grant } });
  stream.on('error', () => {});
  const keeps = await open(server.url, { host: HOST, path: '/sse', headers: bySession(server.adminToken) });
  let left = 2;
  const ends = [once(connection, 'close'), closed(stream)].map((end) => end.then(() => left--));
  stream.resume();
  await server.api('POST', '/users/logout', { token });
  await eventually('both end', () => left === 0, 5_000);
  await Promise.all(ends);
  assert.equal((await ask(server.url, { host: HOST, headers: { Cookie: grant } })).status, 401);
  assert.ok(!keeps.destroyed, 'another session goes on');
  keeps.destroy();
});

test('shares ports within the template’s limit, with the named people, until the share ends', async () => {
  const other = await insertPerson(server, 'neighbour');
  const far = await insertPerson(server, 'far', [], { member: false });
  const input = { agent_name: 'main', port: app.port, protocol: 'http', share_level: 'public' };
  const statuses = async () =>
    Promise.all(
      [other.token, far.token, undefined].map(
        async (token) => (await ask(server.url, { host: portHost, headers: token ? bySession(token) : {} })).status,
      ),
    );
  const templateId = workspace.workspace.template_id;
  assert.deepEqual(await statuses(), [404, 404, 401]);
  const refused = await share('POST', input);
  assert.equal(refused.status, 400);
  assert.match(JSON.stringify(refused.body), /allows \\"owner\\" at most/);
  const widest = (level: string) =>
    server.api('PATCH', `/templates/${templateId}`, { body: { max_port_share_level: level } });
  assert.equal((await widest('public')).status, 200);
  for (const [share_level, expected] of [
    ['organization', [200, 404, 401]],
    ['authenticated', [200, 200, 401]],
    ['public', [200, 200, 200]],
  ] as const) {
    assert.equal((await share('POST', { ...input, share_level })).status, 200);
    await eventually(share_level, async () => JSON.stringify(await statuses()) === JSON.stringify(expected));
  }
  const bad = [{ port: 80 }, { port: 70_000 }, { agent_name: 'none' }, { protocol: 'ftp' }, { share_level: 'all' }];
  for (const more of bad) assert.equal((await share('POST', { ...input, ...more })).status, 400, JSON.stringify(more));
  assert.ok([403, 404].includes((await share('POST', input, other.token)).status));
  const listed = await server.api('GET', `/workspaces/${workspace.workspace.id}/port-share`);
  assert.deepEqual(listed.body, { shares: [{ ...input, workspace_id: workspace.workspace.id }] });
  const anonymous = await open(server.url, { host: portHost, path: '/sse' });
  anonymous.on('error', () => {});
  anonymous.resume();
  const over = closed(anonymous);
  assert.equal((await widest('organization')).status, 200);
  await over;
  await eventually('the template bounds it', async () => JSON.stringify(await statuses()) === '[200,404,401]');
  assert.equal((await share('DELETE', { agent_name: 'main', port: app.port })).status, 200);
  assert.equal((await share('DELETE', { agent_name: 'main', port: app.port })).status, 404);
  await eventually('it is over', async () => JSON.stringify(await statuses()) === '[404,404,401]');
});

test('lets only pages of the same owner’s apps act with the visitor’s rights', async () => {
  const { cookie } = await signIn(await session());
  const post = (origin: string, method = 'POST') =>
    ask(server.url, {
      method,
      host: HOST,
      headers: { Cookie: cookie, Origin: origin },
      ...(method === 'GET' ? {} : { body: 'x' }),
    });
  assert.equal((await post('http://x--main--ws--mallory.apps.test')).status, 403);
  assert.equal((await post('https://evil.example')).status, 403);
  assert.equal((await post('null')).status, 403);
  assert.equal((await post(`http://${HOST}`)).status, 200);
  assert.equal((await post(`http://${HOST}:8080`)).status, 200, 'a port of the same owner');
  assert.equal((await post(server.accessUrl)).status, 200, 'the dashboard');
  const mine = await post('http://open--main--dev--admin.apps.test');
  assert.equal(mine.status, 200);
  assert.equal(mine.headers['access-control-allow-origin'], 'http://open--main--dev--admin.apps.test');
  const evil = await post('http://x--main--ws--mallory.apps.test', 'GET');
  assert.equal(evil.headers['access-control-allow-origin'], undefined);
  const preflight = await ask(server.url, {
    method: 'OPTIONS',
    host: HOST,
    headers: { Origin: 'http://open--main--dev--admin.apps.test', 'Access-Control-Request-Method': 'PUT' },
  });
  assert.deepEqual([preflight.status, preflight.headers['access-control-allow-methods']], [204, 'PUT']);
  const path = await ask(server.url, {
    method: 'POST',
    path: '/@admin/dev/apps/web/',
    headers: { ...byCookie(server.adminToken), Origin: `http://${HOST}` },
    body: 'x',
  });
  assert.equal(path.status, 403, 'a subdomain app’s page at a path app');
});

test('leaves CORS to the apps of a template that passes it through', async () => {
  const templateId = workspace.workspace.template_id;
  const set = async (cors_behavior: string) => {
    const { status, body } = await server.api<Template>('PATCH', `/templates/${templateId}`, {
      body: { cors_behavior },
    });
    assert.deepEqual([status, body.cors_behavior], [200, cors_behavior]);
  };
  const { cookie } = await signIn(await session());
  const Origin = 'http://open--main--dev--admin.apps.test';
  const preflight = async (host: string) => {
    const headers = { Origin, 'Access-Control-Request-Method': 'PUT' };
    const { status, headers: got } = await ask(server.url, { method: 'OPTIONS', host, path: '/echo', headers });
    return [status, got['access-control-allow-methods']];
  };
  const read = async () => {
    const { status, headers } = await ask(server.url, { host: HOST, headers: { Cookie: cookie, Origin } });
    return [status, headers['access-control-allow-origin']];
  };
  const shared = { agent_name: 'main', port: app.port, protocol: 'http', share_level: 'public' };
  assert.equal(
    (await server.api('PATCH', `/templates/${templateId}`, { body: { max_port_share_level: 'public' } })).status,
    200,
  );
  assert.equal((await share('POST', shared)).status, 200);
  assert.deepEqual(
    [await read(), await preflight(HOST), await preflight(portHost)],
    [
      [200, Origin],
      [204, 'PUT'],
      [204, 'PUT'],
    ],
  );
  await set('passthru');
  await eventually('the app alone answers', async () => (await read())[1] === undefined);
  assert.deepEqual(await preflight(portHost), [200, undefined], 'the app answers');
  assert.deepEqual(await preflight(HOST), [204, 'PUT'], 'the app is not for everyone');
  const evil = { Cookie: cookie, Origin: 'http://x--main--ws--mallory.apps.test' };
  const { status } = await ask(server.url, { method: 'POST', host: HOST, headers: evil, body: 'x' });
  assert.equal(status, 403, "pages of another owner's apps do not act with the visitor's rights");
  await set('simple');
  await eventually('the server answers again', async () => (await read())[1] === Origin);
  assert.deepEqual(await preflight(portHost), [204, 'PUT']);
  assert.equal(
    (await server.api('PATCH', `/templates/${templateId}`, { body: { cors_behavior: 'both' } })).status,
    400,
  );
  assert.equal((await share('DELETE', { agent_name: 'main', port: app.port })).status, 200);
});

test('shows the hosts of apps in the API and to agents', async () => {
  const port = new URL(server.accessUrl).port;
  const host = await server.api<{ host: string }>('GET', '/applications/host');
  assert.equal(host.body.host, `*.apps.test:${port}`);
  const { regions } = (await server.api<RegionsResponse>('GET', '/regions')).body;
  assert.deepEqual(
    [regions[0]!.wildcard_hostname, regions[0]!.path_app_url],
    [`*.apps.test:${port}`, server.accessUrl],
  );
  const agent = (await server.api<WorkspaceAgent>('GET', `/workspaceagents/${workspace.agentId}`)).body;
  assert.deepEqual(
    agent.apps.map(({ slug, subdomain_name }) => [slug, subdomain_name]),
    [
      ['open', undefined],
      ['web', 'web--main--dev--admin'],
    ],
  );
  const url = `${server.accessUrl}/api/v2/workspaceagents/${workspace.agentId}/pty`;
  const pass = await server.api<{ signed_token: string }>('POST', '/applications/reconnecting-pty-signed-token', {
    body: { agentID: workspace.agentId, url },
  });
  assert.equal(pass.status, 200);
  const wrong = await server.api('POST', '/applications/reconnecting-pty-signed-token', {
    body: { agentID: workspace.agentId, url: 'https://evil.example/' },
  });
  assert.equal(wrong.status, 400);
});

test('limits the sharing of an app that a workspace creates to its template’s level', async () => {
  const level = (widest: string) =>
    server.api('PATCH', `/templates/${workspace.workspace.template_id}`, { body: { max_port_share_level: widest } });
  await level('owner');
  const agent = (await agentById(server.services.sql, workspace.agentId))!;
  const make = (name: string) => {
    const apps = [
      {
        ...{ slug: 'leak', displayName: '', icon: '', command: '', url: `http://localhost:${app.port}` },
        ...{ external: false, subdomain: true, hidden: false, group: '', order: 0 },
        sharing: 'public' as const,
        openIn: 'tab' as const,
      },
    ];
    const input = { name, directory: '', architecture: 'amd64', operatingSystem: 'linux', displayApps: [], apps };
    return createSubAgent(server.services, connectedAgent(agent), input);
  };
  const refused = await make('one');
  assert.deepEqual(
    refused.failures.map(({ index, field }) => [index, field]),
    [[0, 'share']],
  );
  await level('public');
  assert.deepEqual((await make('two')).failures, []);
  const [{ slug }] = await server.services.sql<[{ slug: string }]>`
    SELECT p.slug FROM workspace_apps p JOIN workspace_agents a ON a.id = p.agent_id WHERE a.name = 'two'`;
  const host = `${slug}--two--dev--admin.apps.test`;
  const anonymous = async () => (await ask(server.url, { host })).status;
  // the sub-agent is not connected: the test checks only whether the server allows the request
  assert.equal(await anonymous(), 502);
  await level('owner');
  assert.equal(await anonymous(), 401, 'a narrower template closes what was open');
});

test('says that a workspace is stopped to people with access', async () => {
  await workspace.agent.stop();
  const gone = await eventually('the agent is away', async () => {
    const answer = await ask(server.url, { host: HOST, headers: bySession(server.adminToken) });
    // the server knows that the agent is gone a moment before it knows why
    return answer.status === 502 && /closed its connection/.test(answer.body) ? answer : undefined;
  });
  assert.match(gone.body, /The agent of this workspace is not connected.*The agent closed its connection at/);
  const stop = await server.api<Workspace['latest_build']>('POST', `/workspaces/${workspace.workspace.id}/builds`, {
    body: { transition: 'stop' },
  });
  assert.equal(stop.status, 201);
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: { resources: [] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  const page = await ask(server.url, { host: HOST, headers: { ...bySession(server.adminToken), ...HTML } });
  assert.equal(page.status, 503);
  assert.match(
    page.body,
    /<h1>The workspace is stopped\.<\/h1>[\s\S]*coder start admin\/dev[\s\S]*Go to the dashboard/,
  );
  const other = await insertPerson(server, 'curious');
  assert.equal((await ask(server.url, { host: HOST, headers: bySession(other.token) })).status, 404);
  assert.equal((await ask(server.url, { host: 'open--main--dev--admin.apps.test' })).status, 401);
});

/** Asserts that nothing of the workspace's agent opens. */
async function assertNoShell(token: string): Promise<void> {
  for (const way of ['tunnel?service=ssh', 'tunnel?service=tcp&port=80', `pty?reconnect=${crypto.randomUUID()}`]) {
    const url = `${server.url}/api/v2/workspaceagents/${workspace.agentId}/${way}`;
    const refused = await dialWebSocket(url, { headers: bySession(token) }).then(
      () => undefined,
      (err: unknown) => err,
    );
    assert.ok(refused instanceof WebSocketDialError, way);
    assert.equal(refused.status, 403, way);
  }
}

test('gives an organization admin neither shells nor private apps of members', async () => {
  const { token } = await insertPerson(server, 'orgadmin');
  const { body: me } = await server.api<{ id: string; organization_ids: string[] }>('GET', '/users/me', { token });
  const roles = await server.api('PUT', `/organizations/${me.organization_ids[0]}/members/${me.id}/roles`, {
    body: { roles: ['organization-admin'] },
  });
  assert.equal(roles.status, 200);
  const { status } = await server.api('GET', `/workspaces/${workspace.workspace.id}`, { token });
  assert.equal(status, 200, 'reads and manages the workspace');
  assert.equal((await ask(server.url, { host: HOST, headers: bySession(token) })).status, 404);
  assert.equal((await ask(server.url, { host: portHost, headers: bySession(token) })).status, 404);
  await assertNoShell(token);
});

test('lets nobody into a dormant workspace, and says why', async () => {
  const path = `/workspaces/${workspace.workspace.id}/dormant`;
  assert.equal((await server.api('PUT', path, { body: { dormant: true } })).status, 200);
  const answer = await ask(server.url, { host: HOST, headers: { ...bySession(server.adminToken), ...HTML } });
  assert.equal(answer.status, 503);
  assert.match(answer.body, /The workspace is dormant\.[\s\S]*coder start admin\/dev/);
  assert.equal((await ask(server.url, { host: 'open--main--dev--admin.apps.test' })).status, 401);
  await assertNoShell(server.adminToken);
});
