import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, type TestContext, test } from 'node:test';
import type { UpdateWorkspaceProxyResponse, WorkspaceProxy } from '@ropewalk/contract';
import { silentLogger } from '@ropewalk/kit';
import { ADMIN, eventually, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';
import { freePort } from '@ropewalk/testkit/ports';
import { type Pipe, startPipe } from '@ropewalk/testkit/tcp-proxy';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import type { PathNews } from '@ropewalk/wire/proxy-link';
import { dialWebSocket, type WebSocketDialError } from '@ropewalk/wire/websocket';
import { loadConfig } from '../config/load.ts';
import { startTestApp, type TestApp } from '../http/apps/testing/app.ts';
import { ask, open } from '../http/apps/testing/ask.ts';
import { SIBLING_PATH } from './siblings.ts';
import { type RunningWorkspaceProxy, startWorkspaceProxy } from './start.ts';
import { askPath, echo, startPing, takePath } from './testing/client-path.ts';

// One proxy with two processes behind a load balancer, which sends the agents to the first one. The visitors of these tests are at
// the second one, whose way to the server can be cut.

const PATH = '/@admin/dev/apps/web';
let server: TestServer;
let app: TestApp;
let workspace: TestWorkspace;
let made: UpdateWorkspaceProxyResponse;
let balancer: Pipe;
let toServer: Pipe;
let first: RunningWorkspaceProxy;
let second: RunningWorkspaceProxy;

async function start(port: number, primaryAccessUrl: string, more: Record<string, string> = {}) {
  const { config } = loadConfig({
    env: { CODER_HTTP_ADDRESS: `127.0.0.1:${port}`, CODER_ACCESS_URL: `http://127.0.0.1:${balancer.port}`, ...more },
  });
  const options = { ...config, sessionToken: made.proxy_token, primaryAccessUrl, derpOnly: false };
  const running = await startWorkspaceProxy({ options, log: silentLogger });
  await isReady(running);
  return running;
}

const isReady = ({ url }: RunningWorkspaceProxy) =>
  eventually('the process is connected', async () => {
    const report = await ask(url, { path: '/healthz-report' });
    return (JSON.parse(report.body) as { errors: string[] }).errors.length === 0;
  });

before(async () => {
  server = await startTestServer();
  app = await startTestApp();
  workspace = await startTestWorkspace(server, 'dev', {
    agent: { apps: [{ slug: 'web', url: `http://localhost:${app.port}` }] as never },
  });
  made = (await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name: 'eu' } })).body;
  const { hostname, port } = new URL(server.url);
  toServer = await startPipe({ host: hostname, port: Number(port) });
  const at = await freePort();
  balancer = await startPipe({ host: '127.0.0.1', port: at });
  first = await start(at, server.url);
  // it learns of the first one when it registers
  second = await start(await freePort(), `http://127.0.0.1:${toServer.port}`);
});
after(async () => {
  await second?.close();
  await first?.close();
  for (const pipe of [toServer, balancer]) pipe?.close();
  await workspace?.stop();
  await app?.close();
  await server?.stop();
});

/** The permit of a tunnel. The agent is connected to the first process then. */
async function startPath(t: TestContext, token = server.adminToken): Promise<PathNews> {
  const { agentId } = workspace;
  const asked = askPath(server, { token, proxyId: made.proxy.id, agentId, path: crypto.randomUUID() });
  return (await takePath(t, asked)).news;
}

/** Pings at a process that the balancer did not choose. */
const startPingAt = (news: PathNews, { url }: { url: string }) => startPing({ ...news, url });

const closed = (stream: NodeJS.EventEmitter) => new Promise<void>((resolve) => stream.once('close', () => resolve()));

test('a tunnel reaches the agent through the process to which it is connected', { timeout: 60_000 }, async (t) => {
  const token = await logIn(server, ADMIN.email, ADMIN.password);
  const news = await startPath(t, token);
  const ping = await startPingAt(news, second);
  await echo(ping, 'one');
  toServer.cut();
  await echo(ping, 'two');
  const another = await startPingAt(news, second);
  await echo(another, 'three');
  another.destroy();
  toServer.mend();
  await isReady(second);
  const gone = closed(ping.resume());
  const since = performance.now();
  assert.equal((await server.api('POST', '/users/logout', { token })).status, 200);
  await gone;
  assert.ok(performance.now() - since < 5_000);
});

test('the bytes of an app take that way, too, and end with the session', { timeout: 60_000 }, async () => {
  const token = await logIn(server, ADMIN.email, ADMIN.password);
  const headers = { 'Coder-Session-Token': token };
  const stream = await eventually('a stream does not end with the connection to the server', async () => {
    const found = await open(second.url, { path: `${PATH}/sse`, headers });
    found.resume();
    toServer.cut();
    await eventually('the process reports it', async () => {
      const report = await ask(second.url, { path: '/healthz-report' });
      return (JSON.parse(report.body) as { errors: string[] }).errors.length > 0;
    });
    toServer.mend();
    await isReady(second);
    return found.destroyed ? undefined : found;
  });
  const gone = closed(stream);
  assert.equal((await server.api('POST', '/users/logout', { token })).status, 200);
  await gone;
});

test('a visitor notices nothing when that process ends', { timeout: 60_000 }, async (t) => {
  const third = await start(await freePort(), server.url);
  t.after(() => third.close());
  const news = await startPath(t);
  const ping = await startPingAt(news, third);
  await echo(ping, 'one');
  const gone = closed(ping.resume());
  balancer.cut();
  await gone;
  const headers = { 'Coder-Session-Token': server.adminToken };
  // over the server
  assert.equal((await ask(third.url, { path: `${PATH}/echo`, headers })).status, 200);
  balancer.mend();
  // the agent connects again
  const again = await startPingAt(await startPath(t), third);
  await echo(again, 'two');
  again.destroy();
});

test('a process serves nobody without the token of the proxy', async () => {
  const time = String(Date.now());
  const agent = workspace.agentId;
  const proof = (token: string, of = agent, at = time) =>
    createHmac('sha256', token).update(`sibling ${of} ${at}`).digest('hex');
  const refused = async (headers: Record<string, string>) => {
    const err = await dialWebSocket(`${first.url}${SIBLING_PATH}`, { headers }).then(
      ({ connection }) => {
        connection.destroy();
        return undefined;
      },
      (thrown: WebSocketDialError) => thrown,
    );
    return err?.status;
  };
  const given = (more: { agent?: string; time?: string; proof?: string }) => ({
    'coder-sibling-agent': agent,
    'coder-sibling-time': time,
    'coder-sibling-proof': proof(made.proxy_token),
    ...Object.fromEntries(Object.entries(more).map(([name, value]) => [`coder-sibling-${name}`, value])),
  });
  assert.equal(await refused({}), 401);
  assert.equal(await refused(given({ proof: proof('another') })), 401);
  assert.equal(await refused(given({ proof: '' })), 401);
  const early = String(Date.now() - 3_600_000);
  assert.equal(await refused(given({ time: early, proof: proof(made.proxy_token, agent, early) })), 401);
  assert.equal(await refused(given({ time: 'now', proof: proof(made.proxy_token, agent, 'now') })), 401);
  const other = crypto.randomUUID();
  assert.equal(await refused(given({ agent: other })), 401, 'the proof of another agent');
  assert.equal(await refused(given({ agent: other, proof: proof(made.proxy_token, other) })), 404, 'it is not here');
});

test('health names a process that another one does not reach', { timeout: 60_000 }, async (t) => {
  // nothing listens where the others look for it
  const away = `http://127.0.0.1:${await freePort()}`;
  const lost = await start(await freePort(), server.url, { CODER_DERP_SERVER_RELAY_URL: away });
  t.after(() => lost.close());
  const another = await start(await freePort(), server.url);
  t.after(() => another.close());
  await eventually(
    'another process has reported it',
    async () => {
      await server.api('GET', '/debug/health?force=true');
      const { body } = await server.api<WorkspaceProxy>('GET', `/workspaceproxies/${made.proxy.id}`);
      const text = body.status?.report.warnings.join() ?? '';
      return text.includes('does not reach the process') && text.includes(away);
    },
    20_000,
  );
});
