import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Template, Workspace, WorkspaceAgent, WorkspaceAgentLog, WorkspaceBuild } from '@ropewalk/contract';
import { createTestTemplate, eventually, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Lifecycle_State, Log_Level, Timing_Status } from '@ropewalk/wire/proto/agent';
import { type CompletedJob_WorkspaceBuildSchema, CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { refusal } from '../../rpc/testing/agents.ts';
import { completeJob } from '../job/complete.ts';
import { agentSight } from './status.ts';

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'agents');
});
after(() => server.stop());

async function finish(agentToken?: string): Promise<void> {
  const own = await takeJob(server);
  const agents = agentToken
    ? [
        {
          id: crypto.randomUUID(),
          name: 'main',
          operatingSystem: 'linux',
          architecture: 'amd64',
          connectionTimeoutSeconds: 120,
          auth: { case: 'token' as const, value: agentToken },
          env: { FROM: 'template' },
          scripts: [{ displayName: 'Startup Script', script: 'true', runOnStart: true, timeoutSeconds: 5 }],
          metadata: [{ key: 'load', displayName: 'Load', script: 'cat /proc/loadavg', interval: 10n, timeout: 1n }],
          apps: [
            {
              slug: 'web',
              url: 'http://localhost:1',
              healthcheck: { url: 'http://localhost:1', interval: 5, threshold: 2 },
            },
          ],
        },
      ]
    : [];
  const value: MessageInitShape<typeof CompletedJob_WorkspaceBuildSchema> = {
    resources: [{ name: 'machine', type: 'vm', agents }],
  };
  await completeJob(
    server.services,
    own,
    create(CompletedJobSchema, { jobId: own.jobId, type: { case: 'workspaceBuild', value } }),
  );
}

async function startedWorkspace(name: string, agentToken: string): Promise<{ workspace: Workspace; agentId: string }> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await finish(agentToken);
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${made.body.latest_build.id}`);
  return { workspace: made.body, agentId: body.resources[0]!.agents![0]!.id };
}

/** An agent on the wire. Without `ours` it is upstream's. */
async function connectAgent(token: string, { ours = true, version = '2.6' } = {}) {
  const { connection, responseHeaders } = await dialWebSocket(
    `${server.url}/api/v2/workspaceagents/me/rpc?version=${version}`,
    {
      headers: {
        Cookie: `coder_session_token=${token}`,
        ...(ours ? { 'Platform-Capabilities': 'tunnel/1', 'Platform-Ssh-Host-Key': 'a2V5' } : {}),
      },
    },
  );
  const session = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false });
  return { session, rpc: createDrpcClient(Agent, () => session.openStream()), responseHeaders };
}

const agentOf = async (id: string) => (await server.api<WorkspaceAgent>('GET', `/workspaceagents/${id}`)).body;

test('shows an agent as it reports', async () => {
  const token = crypto.randomUUID();
  const { agentId } = await startedWorkspace('reports', token);
  assert.equal((await agentOf(agentId)).status, 'connecting');
  const { session, rpc } = await connectAgent(token);
  const manifest = await rpc.getManifest({});
  assert.equal(Buffer.from(manifest.agentId).toString('hex'), agentId.replaceAll('-', ''));
  assert.deepEqual(manifest.environmentVariables, { FROM: 'template' });
  assert.equal(manifest.metadata[0]!.interval!.nanos, 10, 'seconds travel as nanoseconds there');
  assert.ok(manifest.apps[0]!.healthcheck, "upstream's agent reads it without a check");
  assert.ok((await rpc.getResourcesMonitoringConfiguration({})).config);
  assert.ok((await rpc.updateStats({})).reportInterval!.seconds > 0n);
  await rpc.updateStartup({ startup: { version: 'v1.2.3', expandedDirectory: '/home/x' } });
  const changedAt = timestampFromDate(new Date());
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.STARTING, changedAt } });
  const [script] = manifest.scripts;
  const { logLimitExceeded } = await rpc.batchCreateLogs({
    logSourceId: script!.logSourceId,
    logs: [{ output: 'hello', level: Log_Level.INFO }, { output: 'x'.repeat(5_000) }],
  });
  assert.equal(logLimitExceeded, false);
  await rpc.scriptCompleted({ timing: { scriptId: script!.id, start: changedAt, end: changedAt, exitCode: 0 } });
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.READY, changedAt } });
  const agent = await agentOf(agentId);
  assert.equal(agent.status, 'connected');
  assert.ok(agent.first_connected_at, 'a client that waits reads it without looking');
  assert.equal(agent.lifecycle_state, 'ready');
  assert.equal(agent.version, 'v1.2.3');
  assert.deepEqual([agent.scripts[0]!.status, agent.scripts[0]!.exit_code], ['ok', 0]);
  const failed = { scriptId: script!.id, start: changedAt, end: changedAt, exitCode: 3 };
  await rpc.scriptCompleted({ timing: { ...failed, status: Timing_Status.EXIT_FAILURE } });
  const [again] = (await agentOf(agentId)).scripts;
  assert.deepEqual([again!.status, again!.exit_code], ['exit_failure', 3]);
  const logs = await server.api<WorkspaceAgentLog[]>('GET', `/workspaceagents/${agentId}/logs`);
  assert.deepEqual(
    logs.body.map((line) => line.output.length),
    [5, 1024],
  );
  session.close();
  await eventually('it is seen as disconnected', async () => (await agentOf(agentId)).status === 'disconnected');
});

test('accepts a log of any size, keeps its head and its newest lines, and marks the cut', async () => {
  const token = crypto.randomUUID();
  const { agentId } = await startedWorkspace('talks', token);
  const { session, rpc } = await connectAgent(token);
  const { scripts } = await rpc.getManifest({});
  const line = 'y'.repeat(1_000);
  for (let batch = 0; batch < 10; batch++) {
    const logs = Array.from({ length: 900 }, (_, i) => ({ output: `${batch}-${i} ${line}`, level: Log_Level.INFO }));
    assert.equal((await rpc.batchCreateLogs({ logSourceId: scripts[0]!.logSourceId, logs })).logLimitExceeded, false);
  }
  const { body } = await server.api<WorkspaceAgentLog[]>('GET', `/workspaceagents/${agentId}/logs`);
  assert.match(body[0]!.output, /^0-0 /);
  assert.match(body.at(-1)!.output, /^9-899 /);
  assert.equal(body.filter((entry) => entry.output.startsWith('The log is longer')).length, 1);
  assert.ok(body.length < 9_000, `${body.length} lines were kept`);
  session.close();
});

test('serves upstream’s agent, and says that it cannot be reached', async () => {
  const token = crypto.randomUUID();
  const { agentId } = await startedWorkspace('published', token);
  const { session, rpc, responseHeaders } = await connectAgent(token, { ours: false });
  assert.equal(responseHeaders['platform-capabilities'], undefined);
  await rpc.getManifest({});
  await eventually('it is connected', async () => (await agentOf(agentId)).status === 'connected');
  const dial = dialWebSocket(`${server.url}/api/v2/workspaceagents/${agentId}/tunnel`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  assert.equal((await refusal(dial)).status, 501);
  session.close();
});

test('accepts the token of the latest build, and of the one before while a stop runs', async () => {
  const token = crypto.randomUUID();
  const { workspace } = await startedWorkspace('stops', token);
  assert.equal((await refusal(connectAgent(token, { version: '3.0' }))).status, 400);
  assert.equal((await refusal(connectAgent('not-a-uuid'))).status, 401);
  assert.equal((await refusal(connectAgent(crypto.randomUUID()))).status, 401);
  const stop = await server.api('POST', `/workspaces/${workspace.id}/builds`, { body: { transition: 'stop' } });
  assert.equal(stop.status, 201);
  const { session, rpc } = await connectAgent(token);
  await rpc.updateLifecycle({
    lifecycle: { state: Lifecycle_State.SHUTTING_DOWN, changedAt: timestampFromDate(new Date()) },
  });
  session.close();
  await finish();
  assert.equal((await refusal(connectAgent(token))).status, 401);
});

test('derives the status of an agent, row by row', () => {
  const now = new Date('2026-01-01T00:10:00Z');
  const ago = (seconds: number) => new Date(now.getTime() - seconds * 1000);
  const agent = {
    created_at: ago(60),
    connection_timeout_seconds: 120,
    first_connected_at: null,
    last_connected_at: null,
    disconnected_at: null,
  };
  const status = (more: Partial<Parameters<typeof agentSight>[0]>) => agentSight({ ...agent, ...more }, now).status;
  assert.equal(status({}), 'connecting');
  assert.equal(status({ created_at: ago(121) }), 'timeout');
  assert.equal(status({ created_at: ago(9_999), connection_timeout_seconds: 0 }), 'connecting');
  const seen = { first_connected_at: ago(50), last_connected_at: ago(10) };
  assert.equal(status(seen), 'connected');
  assert.equal(status({ ...seen, disconnected_at: ago(5) }), 'disconnected');
  assert.equal(status({ ...seen, disconnected_at: ago(20) }), 'connected');
  assert.equal(status({ ...seen, last_connected_at: ago(31) }), 'disconnected');
});
