import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Template, WorkspaceAgentLog } from '@ropewalk/contract';
import { silentLogger } from '@ropewalk/kit';
import { createTestTemplate, eventually, runAgent, startTestServer, type TestServer } from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Lifecycle_State } from '@ropewalk/wire/proto/agent';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { dialAgent, finishBuild, makeAgents, refusal } from '../testing/agents.ts';

// What the holder of an agent's token, or of something like it, can still do.

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'tokens');
});
after(() => server.stop());

const REST: [method: string, path: string, body?: unknown][] = [
  ['GET', '/workspaceagents/me/reinit'],
  ['GET', '/workspaceagents/me/gitsshkey'],
  ['POST', '/workspaceagents/me/log-source', { id: crypto.randomUUID(), display_name: 'x', icon: '' }],
  ['PATCH', '/workspaceagents/me/logs', { logs: [{ created_at: '2026-01-01T00:00:00Z', output: 'x', level: 'info' }] }],
  ['PATCH', '/workspaceagents/me/app-status', { app_slug: 'x', state: 'working', message: 'x', uri: '' }],
];

/** Checks that the token opens none of the agents' routes. */
async function isRefused(token: string | undefined): Promise<void> {
  const { status, message } = await refusal(dialAgent(server, token));
  assert.deepEqual({ status, message }, { status: 401, message: 'Workspace agent not authorized.' });
  for (const [method, path, body] of REST) {
    const answer = await server.api(method, path, { token: token ?? null, body });
    assert.equal(answer.status, 401, `${method} ${path}`);
  }
}

async function joined(token: string) {
  const session = new YamuxSession(byteStream(await dialAgent(server, token)), { role: 'client', keepAlive: false });
  return { session, rpc: createDrpcClient(Agent, () => session.openStream()) };
}
const build = async (workspaceId: string, transition: string) => {
  const { status, body } = await server.api('POST', `/workspaces/${workspaceId}/builds`, { body: { transition } });
  assert.equal(status, 201, JSON.stringify(body));
};
const logOf = async (id: string) => {
  const { body } = await server.api<WorkspaceAgentLog[]>('GET', `/workspaceagents/${id}/logs`);
  return body.map(({ output }) => output);
};

test('opens nothing without a token, with an unknown one or with a person’s', async () => {
  await isRefused(undefined);
  await isRefused('garbage');
  await isRefused("' OR true --");
  await isRefused(crypto.randomUUID());
  await isRefused(server.adminToken);
  const { agents } = await makeAgents(server, template, 'open');
  const agentToken = agents[0]!.token;
  assert.equal((await server.api('GET', '/users/me', { token: agentToken })).status, 401, 'nor the other way');
  assert.equal((await server.api('PATCH', REST[3]![1], { token: agentToken, body: REST[3]![2] })).status, 200);
});

test('gives an agent with the scope no_user_data nothing of its owner', async () => {
  const key = ({ agents }: Awaited<ReturnType<typeof makeAgents>>) =>
    server.api('GET', '/workspaceagents/me/gitsshkey', { token: agents[0]!.token });
  const may = await key(await makeAgents(server, template, 'data'));
  assert.equal(may.status, 200);
  const mayNot = await key(await makeAgents(server, template, 'nodata', { apiKeyScope: 'no_user_data' }));
  assert.equal(mayNot.status, 403);
  assert.ok(!JSON.stringify(mayNot.body).includes('PRIVATE KEY'));
});

test('gives a token no access to another agent’s scripts, apps and logs', async () => {
  const { agents } = await makeAgents(server, template, 'two', { count: 2 });
  const [one, other] = [await joined(agents[0]!.token), await joined(agents[1]!.token)];
  const { scripts } = await other.rpc.getManifest({});
  const now = timestampFromDate(new Date());
  await one.rpc.scriptCompleted({ timing: { scriptId: scripts[0]!.id, start: now, end: now, exitCode: 1 } });
  const timings = await server.services.sql`SELECT FROM workspace_agent_script_timings t
    JOIN workspace_agent_scripts s ON s.id = t.script_id WHERE s.workspace_agent_id = ${agents[1]!.id}`;
  assert.equal(timings.length, 0);
  const forged = { logSourceId: scripts[0]!.logSourceId, logs: [{ output: 'forged' }] };
  await one.rpc.batchCreateLogs(forged).catch(() => {});
  assert.deepEqual(await logOf(agents[1]!.id), []);
  await Promise.all([one.session.close(), other.session.close()]);
});

test('accepts reports while a stop runs, then cuts the connection and rejects the token', async () => {
  const { workspace, agents } = await makeAgents(server, template, 'stops');
  const [agent] = agents;
  const { session, rpc } = await joined(agent!.token);
  await rpc.getManifest({});
  await build(workspace.id, 'stop');
  await rpc.batchCreateLogs({ logs: [{ output: 'from the connection of before' }] });
  const late = await joined(agent!.token);
  await session.closed;
  const changedAt = timestampFromDate(new Date());
  await late.rpc.batchCreateLogs({ logs: [{ output: 'last words' }] });
  await late.rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.OFF, changedAt } });
  assert.deepEqual(await logOf(agent!.id), ['from the connection of before', 'last words']);
  const [row] = await server.services.sql`SELECT lifecycle_state FROM workspace_agents WHERE id = ${agent!.id}`;
  assert.equal(row!['lifecycle_state'], 'off');
  await finishBuild(server, []);
  await eventually('it is cut', () => late.session.isClosed, 5_000);
  await isRefused(agent!.token);
});

test('rejects the token of the previous build after a new one, and cuts its connection', async () => {
  const { workspace, agents } = await makeAgents(server, template, 'restarts');
  const { session } = await joined(agents[0]!.token);
  await build(workspace.id, 'start');
  await isRefused(agents[0]!.token);
  const fresh = crypto.randomUUID();
  await finishBuild(server, [fresh]);
  await session.closed;
  await isRefused(agents[0]!.token);
  const again = await joined(fresh);
  assert.equal((await again.rpc.getManifest({})).workspaceName, 'restarts');
  await again.session.close();
});

test('rejects the token of a deleted workspace', async () => {
  const { workspace, agents } = await makeAgents(server, template, 'deleted');
  const { session } = await joined(agents[0]!.token);
  await build(workspace.id, 'delete');
  await finishBuild(server, []);
  await session.closed;
  await isRefused(agents[0]!.token);
});

test('rejects another host key with the same token, and writes an audit entry', async () => {
  const { agents } = await makeAgents(server, template, 'pinned');
  const { session, rpc } = await joined(agents[0]!.token);
  for (const options of [{ hostKey: 'b3RoZXI=' }, { ours: false }]) {
    const { status, message } = await refusal(dialAgent(server, agents[0]!.token, options));
    assert.equal(status, 403);
    assert.match(message, /host key .* differs from its first one/);
  }
  const rows = await server.services.sql`SELECT additional_fields, action FROM audit_logs
    WHERE resource_id = ${agents[0]!.id} AND status_code = 403`;
  assert.equal(rows.length, 2);
  assert.match(JSON.stringify(rows[0]), /changed SSH host key/);
  assert.equal((await rpc.getManifest({})).workspaceName, 'pinned', 'the first one goes on');
  await session.close();
});

test('keeps the newest of two agents with one token, and they do not reconnect in a storm', async () => {
  const { agents } = await makeAgents(server, template, 'twice');
  const home = mkdtempSync(join(tmpdir(), 'platform-twice-'));
  const options = {
    url: server.url,
    token: agents[0]!.token,
    version: 'v0.1.0',
    log: silentLogger,
    scriptDataDir: home,
    logDir: home,
    env: { PATH: process.env['PATH'], HOME: home },
  };
  const dials = async () => {
    const [row] = await server.services.sql<{ connection_number: number }[]>`SELECT connection_number
      FROM workspace_agents WHERE id = ${agents[0]!.id}`;
    return row!.connection_number;
  };
  const both = [runAgent(options)];
  try {
    await eventually('the first is there', async () => (await dials()) >= 1);
    both.push(runAgent(options));
    await eventually('the second is there, and the first is back', async () => (await dials()) >= 3);
    const [before, since] = [await dials(), performance.now()];
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    const [made, seconds] = [(await dials()) - before, (performance.now() - since) / 1_000];
    assert.ok(made <= 1.5 * seconds, `${made} more connections in ${seconds} s`);
  } finally {
    await Promise.all(both.map((agent) => agent.stop()));
    rmSync(home, { recursive: true, force: true });
  }
});
