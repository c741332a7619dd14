// The server reaches an agent that has no tunnels of it over the tailnet, against a whole server. The agent is this
// project's, as upstream's is: neither end knows the other's tunnels.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type { WorkspaceAgentListContainersResponse, WorkspaceAgentListeningPortsResponse } from '@ropewalk/contract';
import {
  eventually,
  insertPerson,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { freePort } from '@ropewalk/testkit/ports';
import { acceptWebSocket, dialWebSocket, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { startTestApp, type TestApp } from '../../http/apps/testing/app.ts';
import { ask } from '../../http/apps/testing/ask.ts';

const APP = '/@admin/dev.main/apps/web/';

let server: TestServer;
/** Another server of the deployment. The agent is not connected to it. */
let other: TestServer;
let app: TestApp;
let dev: TestWorkspace;
before(async () => {
  const env = { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable', CODER_WILDCARD_ACCESS_URL: '*.apps.test' };
  server = await startTestServer({ env });
  other = await startTestServer({ joins: server, env });
  app = await startTestApp();
  dev = await startTestWorkspace(server, 'dev', {
    withoutTunnels: true,
    agent: { apps: [{ slug: 'web', url: `http://localhost:${app.port}` }] as never },
  });
});
after(async () => {
  await dev?.stop();
  await app?.close();
  await other?.stop();
  await server?.stop();
});

const auth = () => ({ 'Coder-Session-Token': server.adminToken });

/** A terminal of a person, with all that it has shown. */
async function openTerminal(id: string, token = server.adminToken) {
  const { connection } = await dialWebSocket(
    `${server.url}/api/v2/workspaceagents/${dev.agentId}/pty?reconnect=${id}&width=90&height=30`,
    { headers: { 'Coder-Session-Token': token } },
  );
  const terminal = { connection, shown: '' };
  connection.on('binary', (part: Buffer) => {
    terminal.shown += part.toString();
  });
  return terminal;
}

const type = (connection: WebSocketConnection, data: string) =>
  connection.sendBinary(Buffer.from(JSON.stringify({ data })));

test('a client that can join the tailnet gets no tunnel, whichever server it asks', async () => {
  for (const { url } of [server, other]) {
    const path = `/api/v2/workspaceagents/${dev.agentId}/tunnel?service=tcp&port=${app.port}`;
    await assert.rejects(dialWebSocket(url + path, { headers: auth() }), { name: 'WebSocketDialError', status: 501 });
  }
});

test('an app answers through the server that the agent is not connected to', async () => {
  const answer = await ask(other.url, { path: APP, headers: auth() });
  assert.equal(answer.status, 200, answer.body);
});

test('an app answers, also with 5 MB and over a WebSocket', async () => {
  const answer = await ask(server.url, { path: `${APP}x?y`, headers: auth() });
  assert.equal(answer.status, 200, answer.body);
  assert.equal((JSON.parse(answer.body) as { url: string }).url, '/x?y');

  const text = 'bytes over the tailnet '.repeat(220_000);
  const big = createServer((_request, response) => response.end(text));
  big.on('upgrade', (request, socket, head) => {
    const connection = acceptWebSocket(request, socket, head);
    connection.on('text', (message) => void connection.sendText(`<${message}>`));
  });
  big.listen(0, '127.0.0.1');
  await once(big, 'listening');
  try {
    const host = `${(big.address() as AddressInfo).port}--main--dev--admin.apps.test`;
    const answered = await ask(server.url, { host, path: '/', headers: auth() });
    assert.equal(answered.status, 200);
    assert.ok(answered.body === text, `${answered.body.length} characters`);
    const { connection } = await dialWebSocket(server.url, { headers: { ...auth(), Host: host } });
    void connection.sendText('hello');
    assert.deepEqual(await once(connection, 'text'), ['<hello>']);
    connection.destroy();
  } finally {
    big.close();
  }
});

test('a port where nothing listens is reported', async () => {
  const port = await freePort();
  const { status, body } = await ask(server.url, { host: `${port}--main--dev--admin.apps.test`, headers: auth() });
  assert.equal(status, 502, body);
});

test('a terminal continues when its viewer comes back, and stays apart from those of other people', async () => {
  const id = crypto.randomUUID();
  const first = await openTerminal(id);
  type(first.connection, 'X=kept; stty size\n');
  await eventually('the size', async () => first.shown.includes('30 90'));
  first.connection.destroy();
  const again = await openTerminal(id);
  type(again.connection, 'echo is-$X\n');
  await eventually('the same shell', async () => again.shown.includes('is-kept'));

  const owner = await insertPerson(server, 'another', ['owner']);
  const others = await openTerminal(id, owner.token);
  type(others.connection, 'echo is-$X-\n');
  await eventually('another shell', async () => others.shown.includes('is--'));
  again.connection.destroy();
  others.connection.destroy();
});

test('listening ports and containers are listed', async () => {
  const ports = await server.api<WorkspaceAgentListeningPortsResponse>(
    'GET',
    `/workspaceagents/${dev.agentId}/listening-ports`,
  );
  assert.equal(ports.status, 200, JSON.stringify(ports.body));
  assert.ok(Array.isArray(ports.body.ports));
  const listed = await server.api<WorkspaceAgentListContainersResponse>(
    'GET',
    `/workspaceagents/${dev.agentId}/containers`,
  );
  assert.equal(listed.status, 200, JSON.stringify(listed.body));
  assert.deepEqual([listed.body.containers, listed.body.devcontainers], [[], []]);

  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${dev.agentId}/containers/watch`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  const [text] = await once(connection, 'text');
  assert.deepEqual(JSON.parse(String(text)), listed.body);
  connection.destroy();
});

test('a dev container that the agent does not know cannot be changed', async () => {
  const path = `/workspaceagents/${dev.agentId}/containers/devcontainers/${crypto.randomUUID()}`;
  for (const [method, route] of [
    ['POST', `${path}/recreate`],
    ['DELETE', path],
  ] as const) {
    const { status, body } = await server.api<{ message: string }>(method, route);
    assert.equal(status, 404, JSON.stringify(body));
  }
});
