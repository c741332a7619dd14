import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Template, WorkspaceAgent } from '@ropewalk/contract';
import { createTestTemplate, eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Lifecycle_State } from '@ropewalk/wire/proto/agent';
import { acceptTunnel } from '@ropewalk/wire/tunnel';
import { byteStream, dialWebSocket, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { dialAgent, finishBuild, makeAgents, refusal } from '../../rpc/testing/agents.ts';

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'tunnels');
});
after(() => server.stop());

const startedAgent = async (name: string) => (await makeAgents(server, template, name)).agents[0]!;

/** An agent on the wire. Its tunnels return what they get in upper case. */
async function connectAgent(token: string) {
  const session = new YamuxSession(byteStream(await dialAgent(server, token)), {
    role: 'client',
    keepAlive: false,
    onStream: (stream) => {
      void acceptTunnel(stream).then((tunnel) => {
        const inside = tunnel.accept();
        inside.on('data', (data: Buffer) => inside.write(data.toString().toUpperCase()));
        inside.on('end', () => inside.end());
      });
    },
  });
  return { session, rpc: createDrpcClient(Agent, () => session.openStream()) };
}

/** Checks that bytes reach the agent and come back as it changes them. */
async function carries(connection: WebSocketConnection): Promise<void> {
  const stream = byteStream(connection);
  stream.write('through');
  const [data] = (await once(stream, 'data')) as [Buffer];
  assert.equal(data.toString(), 'THROUGH');
  stream.destroy();
}

const status = async (dial: Promise<unknown>) => (await refusal(dial)).status;

test('opens a tunnel to the agent, pinned to its key, on the agent’s newest connection', async () => {
  const { id: agentId, token } = await startedAgent('reached');
  const first = await connectAgent(token);
  const second = await connectAgent(token);
  await first.session.closed;
  const { connection, responseHeaders } = await dialWebSocket(
    `${server.url}/api/v2/workspaceagents/${agentId}/tunnel?service=ssh`,
    {
      headers: { 'Coder-Session-Token': server.adminToken },
    },
  );
  assert.equal(responseHeaders['platform-ssh-host-key'], 'a2V5');
  await carries(connection);
  const stranger = await insertPerson(server, 'nosy');
  const dial = (headers: Record<string, string>) =>
    dialWebSocket(`${server.url}/api/v2/workspaceagents/${agentId}/tunnel`, { headers });
  assert.equal(await status(dial({ 'Coder-Session-Token': stranger.token })), 404);
  assert.equal(await status(dial({})), 401);
  assert.equal(
    await status(dial({ Cookie: `coder_session_token=${server.adminToken}`, Origin: 'https://evil.example' })),
    403,
  );
  assert.equal(await status(dialAgent(server, token, { hostKey: 'b3RoZXI=' })), 403, 'a changed host key');
  const [audited] = await server.services
    .sql`SELECT 1 FROM audit_logs WHERE resource_id = ${agentId} AND status_code = 403`;
  assert.ok(audited);
  second.session.close();
});

test("opens a tunnel by the workspace's name, if it runs and its agent is ready", async () => {
  const { workspace, agents } = await makeAgents(server, template, 'named');
  const { id: agentId, token } = agents[0]!;
  const dial = (path: string, sent = server.adminToken) =>
    dialWebSocket(`${server.url}/api/v2/users/${path}`, { headers: { 'Coder-Session-Token': sent } });
  const { session, rpc } = await connectAgent(token);
  assert.equal(await status(dial('me/workspace/named/tunnel')), 409, 'its scripts still run');
  const changedAt = timestampFromDate(new Date());
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.STARTING, changedAt } });
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.READY, changedAt } });

  for (const path of ['me/workspace/Named/tunnel', 'admin/workspace/named/tunnel?agent=a0&service=ssh']) {
    const { connection, responseHeaders } = await dial(path);
    assert.equal(responseHeaders['platform-agent-id'], agentId);
    assert.equal(responseHeaders['platform-ssh-host-key'], 'a2V5');
    await carries(connection);
  }
  assert.equal(await status(dial('me/workspace/named/tunnel?agent=other')), 404);
  assert.equal(await status(dial('me/workspace/none/tunnel')), 404);
  assert.equal(await status(dial('me/workspace/named/tunnel?service=forget')), 400);
  const stranger = await insertPerson(server, 'curious');
  assert.equal(await status(dial('admin/workspace/named/tunnel', stranger.token)), 404);
  assert.equal(await status(dial('me/workspace/named/tunnel', stranger.token)), 404);

  const stop = await server.api('POST', `/workspaces/${workspace.id}/builds`, { body: { transition: 'stop' } });
  assert.equal(stop.status, 201);
  assert.equal(await status(dial('me/workspace/named/tunnel')), 404, 'it stops');
  await finishBuild(server, []);
  assert.equal(await status(dial('me/workspace/named/tunnel')), 404);
  session.close();
});

test('cuts the open tunnel of a revoked token, and keeps that of a changed token that still may', async () => {
  const { id: agentId, token } = await startedAgent('revoked');
  const { session } = await connectAgent(token);
  await eventually('it is connected', async () => {
    const { body } = await server.api<WorkspaceAgent>('GET', `/workspaceagents/${agentId}`);
    return body.status === 'connected';
  });
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { body: { token_name: 'tunnel' } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${agentId}/tunnel`, {
    headers: { 'Coder-Session-Token': made.body.key },
  });
  const stream = byteStream(connection);
  stream.on('error', () => {});
  const echo = async () => {
    stream.write('x');
    const [data] = (await once(stream, 'data')) as [Buffer];
    return data.toString();
  };
  assert.equal(await echo(), 'X');
  const renamed = await server.api('PUT', '/users/me/profile', { body: { username: 'admin', name: 'Still here' } });
  assert.equal(renamed.status, 200);
  assert.equal(await echo(), 'X');
  const gone = await server.api('DELETE', `/users/me/keys/${made.body.key.split('-')[0]}`);
  assert.equal(gone.status, 204);
  await eventually('it is cut', () => stream.closed, 5_000);
  session.close();
});
