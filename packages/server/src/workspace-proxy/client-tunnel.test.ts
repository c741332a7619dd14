import assert from 'node:assert/strict';
import type { Duplex } from 'node:stream';
import { after, before, type TestContext, test } from 'node:test';
import type { UpdateWorkspaceProxyResponse } from '@ropewalk/contract';
import { silentLogger } from '@ropewalk/kit';
import { ADMIN, createPerson, eventually, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';
import { freePort } from '@ropewalk/testkit/ports';
import { type Pipe, startPipe } from '@ropewalk/testkit/tcp-proxy';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { linkSession } from '@ropewalk/wire/link-session';
import { CLIENT_PATH, PERMIT_HEADER, PROXY_LINK_PATH } from '@ropewalk/wire/proxy-link';
import { requestTunnel } from '@ropewalk/wire/tunnel';
import { dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';
import { loadConfig } from '../config/load.ts';
import { type RunningWorkspaceProxy, startWorkspaceProxy } from './start.ts';
import { askPath, echo, startPing, takePath } from './testing/client-path.ts';

// The path of tunnels through a workspace proxy: what its holder can do, what a thief of the proxy's token can do with a
// permit, and what ends the path.

const MAX_REVOKED_MS = 5_000;

let server: TestServer;
let workspace: TestWorkspace;
let pipe: Pipe;
let made: UpdateWorkspaceProxyResponse;
let proxy: RunningWorkspaceProxy;
let fellow: { id: string; token: string };

async function startProxy(token: string): Promise<RunningWorkspaceProxy> {
  const at = await freePort();
  const { config } = loadConfig({
    env: { CODER_HTTP_ADDRESS: `127.0.0.1:${at}`, CODER_ACCESS_URL: `http://127.0.0.1:${at}` },
  });
  const options = {
    ...config,
    sessionToken: token,
    primaryAccessUrl: `http://127.0.0.1:${pipe.port}`,
    derpOnly: false,
  };
  return startWorkspaceProxy({ options, log: silentLogger });
}

const isReady = (url: string) =>
  eventually('the proxy is ready', async () => (await fetch(`${url}/readyz`)).status === 200);

async function newProxy(name: string) {
  const { body } = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name } });
  const running = await startProxy(body.proxy_token);
  await isReady(running.url);
  return { made: body, running };
}

before(async () => {
  server = await startTestServer({ env: { CODER_PROXY_HEALTH_INTERVAL: '1s' } });
  workspace = await startTestWorkspace(server, 'dev');
  fellow = await createPerson(server, 'fellow');
  const { hostname, port } = new URL(server.url);
  pipe = await startPipe({ host: hostname, port: Number(port) });
  ({ made, running: proxy } = await newProxy('eu'));
});
after(async () => {
  await proxy?.close();
  pipe?.close();
  await workspace?.stop();
  await server?.stop();
});

const session = () => logIn(server, ADMIN.email, ADMIN.password);
/** Resolves when the stream has ended, or rejects if it takes longer than any right may outlive its end. */
const closed = (stream: Duplex) =>
  new Promise<void>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('it is still open')), 2 * MAX_REVOKED_MS);
    stream
      .once('close', () => {
        clearTimeout(late);
        resolve();
      })
      .resume();
  });
const statusOf = (err: unknown) => {
  assert.ok(err instanceof WebSocketDialError, String(err));
  return err.status;
};

interface AskOptions {
  token?: string;
  proxyId?: string;
  path?: string;
  of?: TestWorkspace;
}

/** Asks the server for permits. */
function ask({
  token = server.adminToken,
  proxyId = made.proxy.id,
  path = crypto.randomUUID(),
  of = workspace,
}: AskOptions) {
  return askPath(server, { token, proxyId, agentId: of.agentId, path });
}

/** The path of a person's tunnels. */
const startPath = (t: TestContext, options: AskOptions = {}) => takePath(t, ask(options));

/** That `end` ends what is open over a path within seconds, and for good. */
async function endsWith(t: TestContext, what: string, options: AskOptions, end: () => Promise<unknown>): Promise<void> {
  const { news } = await startPath(t, options);
  const ping = await startPing(news);
  await echo(ping, 'before');
  const gone = closed(ping);
  const since = performance.now();
  await end();
  await gone;
  const took = performance.now() - since;
  t.diagnostic(`${what}: ${Math.round(took)} ms`);
  assert.ok(took < MAX_REVOKED_MS, `${what}: ${took} ms`);
  await assert.rejects(startPing(news), what);
}

test('carries tunnels to the agent, without a byte over the server', async (t) => {
  const { news } = await startPath(t);
  assert.equal(news.url, proxy.url);
  const ping = await startPing(news);
  await echo(ping, 'one');
  pipe.cut();
  await echo(ping, 'two');
  const another = await startPing(news);
  await echo(another, 'three');
  pipe.mend();
  await isReady(proxy.url);
  another.destroy();
  ping.destroy();
});

test('offers the path with a tunnel only if there is a healthy proxy', async () => {
  const offered = async () => {
    const path = `/workspaceagents/${workspace.agentId}/tunnel?service=ping&resume=new`;
    const { connection, responseHeaders } = await dialWebSocket(`${server.url}/api/v2${path}`, {
      headers: { 'Coder-Session-Token': server.adminToken },
    });
    connection.close();
    return String(responseHeaders['platform-capabilities']);
  };
  await eventually('it is offered', async () => (await offered()).includes('proxy-path/1'));
  const other = await startTestServer();
  try {
    const alone = await startTestWorkspace(other, 'alone');
    const { responseHeaders, connection } = await dialWebSocket(
      `${other.url}/api/v2/workspaceagents/${alone.agentId}/tunnel?service=ping&resume=new`,
      { headers: { 'Coder-Session-Token': other.adminToken } },
    );
    connection.close();
    assert.doesNotMatch(String(responseHeaders['platform-capabilities']), /proxy-path/);
    await alone.stop();
  } finally {
    await other.stop();
  }
});

test('the server signs permits only for people who may use tunnels to the agent', async () => {
  const refused = (options: AskOptions) => ask(options).then(() => assert.fail('it was permitted'), statusOf);
  assert.equal(await refused({ token: fellow.token }), 404);
  assert.equal(await refused({ token: 'none' }), 401);
  assert.equal(await refused({ token: made.proxy_token }), 401);
  assert.equal(await refused({ proxyId: crypto.randomUUID() }), 404);
  assert.equal(await refused({ proxyId: 'eu' }), 400);
  assert.equal(await refused({ path: 'x' }), 400);
  const silent = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', {
    body: { name: 'silent' },
  });
  assert.equal(await refused({ proxyId: silent.body.proxy.id }), 409, 'it has no address');
});

test('the server signs none for older agents, and none if people connect through the browser only', async (t) => {
  const old = await startTestWorkspace(server, 'old', { withoutTunnels: true });
  t.after(() => old.stop());
  assert.equal(await ask({ of: old }).then(() => assert.fail('it was permitted'), statusOf), 501);
  const browser = await startTestServer({ env: { CODER_BROWSER_ONLY: 'true' } });
  t.after(() => browser.stop());
  const there = await startTestWorkspace(browser, 'there');
  t.after(() => there.stop());
  const query = new URLSearchParams({ proxy: crypto.randomUUID(), path: crypto.randomUUID() });
  const asked = dialWebSocket(`${browser.url}/api/v2/workspaceagents/${there.agentId}/proxy-path?${query}`, {
    headers: { 'Coder-Session-Token': browser.adminToken },
  });
  assert.equal(await asked.then(() => assert.fail('it was permitted'), statusOf), 403);
});

test('a proxy serves only permits for itself, and never a session token, a grant or a ticket', async (t) => {
  const { news } = await startPath(t);
  const far = await newProxy('far');
  t.after(() => far.running.close());
  const open = (permit: string | undefined, url = proxy.url) =>
    dialWebSocket(`${url}${CLIENT_PATH}`, { headers: permit === undefined ? {} : { [PERMIT_HEADER]: permit } }).then(
      () => assert.fail('it was served'),
      statusOf,
    );
  const { body } = await server.api<{ signed_token: string }>('POST', '/applications/reconnecting-pty-signed-token', {
    body: { url: `${proxy.url}/api/v2/workspaceagents/${workspace.agentId}/pty`, agentID: workspace.agentId },
  });
  assert.equal(await open(undefined), 401);
  assert.equal(await open(server.adminToken), 401);
  assert.equal(await open(body.signed_token), 401, 'the grant of a terminal');
  assert.equal(await open(`${news.permit}x`), 401);
  assert.equal(await open(news.permit, far.running.url), 401, 'another proxy');
  // and the other way round: a permit opens no app and no terminal
  const path = `/api/v2/workspaceagents/${workspace.agentId}/pty`;
  const query = new URLSearchParams({ reconnect: crypto.randomUUID(), coder_signed_app_token_23db1dde: news.permit });
  const terminal = dialWebSocket(`${proxy.url}${path}?${query}`, {});
  assert.equal(await terminal.then(() => assert.fail('it was served'), statusOf), 401);
});

test('a thief of the token of a proxy can do nothing else with a permit that it saw', async (t) => {
  const { connection, news } = await startPath(t);
  const thief = await dialWebSocket(`${server.url}${PROXY_LINK_PATH}`, {
    headers: { 'Coder-External-Proxy-Token': made.proxy_token },
  });
  const link = linkSession(thief.connection, { role: 'client' });
  t.after(() => void link.close());
  for (const service of ['app', 'terminal', 'watch', 'renew', 'invite', 'permit'])
    await assert.rejects(requestTunnel(link, { service, grant: news.permit, query: {} }), { code: 'refused' }, service);
  // it keeps the stream of a person who has left for no longer than the person
  const ping = await startPing(news);
  await echo(ping, 'here');
  const gone = closed(ping);
  connection.close(1000);
  await gone;
  await assert.rejects(startPing(news));
});

test('what is open ends with the session, the person, a share, and the token of the proxy', {
  timeout: 120_000,
}, async (t) => {
  const token = await session();
  await endsWith(t, 'the session is revoked', { token }, () => server.api('POST', '/users/logout', { token }));
  const shares = `/workspaces/${workspace.workspace.id}/acl`;
  const share = (role: string) => server.api('PATCH', shares, { body: { user_roles: { [fellow.id]: role } } });
  assert.equal((await share('use')).status, 204);
  const theirs = { token: fellow.token };
  await endsWith(t, 'the share is taken back', theirs, () => share(''));
  assert.equal((await share('use')).status, 204);
  await endsWith(t, 'the person is suspended', theirs, () => server.api('PUT', `/users/${fellow.id}/status/suspend`));
  const old = await newProxy('old');
  t.after(() => old.running.close());
  await endsWith(t, 'the token is replaced', { proxyId: old.made.proxy.id }, () =>
    server.api('PATCH', `/workspaceproxies/old`, {
      body: { name: 'old', display_name: '', icon: '', regenerate_token: true },
    }),
  );
});

test('a client that lost its connection continues, and its rights are still watched', async (t) => {
  const token = await session();
  const path = crypto.randomUUID();
  const { connection, news } = await startPath(t, { token, path });
  const ping = await startPing(news);
  connection.destroy();
  await echo(ping, 'still here');
  // it comes back, and leaves: its permits have the same id
  const again = await startPath(t, { token, path });
  again.connection.destroy();
  await echo(ping, 'still here');
  const gone = closed(ping);
  const since = performance.now();
  assert.equal((await server.api('POST', '/users/logout', { token })).status, 200);
  await gone;
  assert.ok(performance.now() - since < MAX_REVOKED_MS);
});

test('what is open ends when the workspace stops, although its agent still runs', async (t) => {
  const other = await startTestWorkspace(server, 'stopped');
  t.after(() => other.stop());
  await endsWith(t, 'the workspace is stopped', { of: other }, () =>
    server.api('POST', `/workspaces/${other.workspace.id}/builds`, { body: { transition: 'stop' } }),
  );
});
