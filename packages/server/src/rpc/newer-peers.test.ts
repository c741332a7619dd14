// Agents, daemons and log streamers of upstream's releases after 2.25.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type {
  Template,
  TemplateVersion,
  Workspace,
  WorkspaceAgent,
  WorkspaceAgentLog,
  WorkspaceBuild,
} from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  finishImport,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { createDrpcClient, DrpcError } from '@ropewalk/wire/drpc';
import { Agent, Log_Level, UpdateAppStatusRequest_AppStatusState } from '@ropewalk/wire/proto/agent';
import { CompletedJobSchema, ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { completeJob } from '../app/job/complete.ts';
import { type DialAgentOptions, dialAgent, makeAgents, refusal } from './testing/agents.ts';
import { joinDaemon } from './testing/daemons.ts';

const PSK = 'newer peers key';
let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK } });
  template = await createTestTemplate(server, 'newer');
});
after(() => server.stop());

/** A connection with an agent's token that offers nothing of ours. */
async function connect(token: string, options: DialAgentOptions) {
  const connection = await dialAgent(server, token, { ours: false, ...options });
  const session = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false });
  const rpc = createDrpcClient(Agent, () => session.openStream());
  const write = (output: string) => rpc.batchCreateLogs({ logs: [{ level: Log_Level.INFO, output }] });
  return { session, rpc, write };
}
const agentOf = async (id: string) => (await server.api<WorkspaceAgent>('GET', `/workspaceagents/${id}`)).body;
const logOf = async (id: string) =>
  (await server.api<WorkspaceAgentLog[]>('GET', `/workspaceagents/${id}/logs`)).body.map(({ output }) => output);
const isUnimplemented = (err: unknown) => err instanceof DrpcError && err.code === 12;

test('serves agents to API 2.11 and shows the version of each', async () => {
  const { agents } = await makeAgents(server, template, 'versions');
  const { id, token } = agents[0]!;
  for (const version of ['2.7', '2.8', '2.9', '2.10', '2.11']) {
    const { session, rpc } = await connect(token, { version, role: 'agent' });
    await rpc.getManifest({});
    assert.deepEqual(await rpc.reportBoundaryLogs({ logs: [{ allowed: true }] }).then(() => 'answered'), 'answered');
    // a call that the server does not serve ends alone, not with the connection
    await assert.rejects(rpc.pushContextState({}), isUnimplemented);
    await rpc.getManifest({});
    assert.equal((await agentOf(id)).api_version, version);
    assert.equal((await agentOf(id)).status, 'connected');
    await session.close();
  }
  for (const version of ['2.12', '3.0', '1.8', '2.11.0'])
    assert.equal((await refusal(dialAgent(server, token, { version, role: 'agent' }))).status, 400, version);
});

test("stores the status that an agent's call sets for an app", async () => {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'app-status', template_id: template.id },
  });
  const own = await takeJob(server);
  const token = crypto.randomUUID();
  const agents = [
    {
      id: crypto.randomUUID(),
      name: 'main',
      auth: { case: 'token' as const, value: token },
      apps: [{ slug: 'helper', url: 'http://localhost:1' }],
    },
  ];
  const type = { case: 'workspaceBuild' as const, value: { resources: [{ name: 'machine', type: 'vm', agents }] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  const { session, rpc } = await connect(token, { version: '2.8', role: 'agent' });
  const state = UpdateAppStatusRequest_AppStatusState.COMPLETE;
  await rpc.updateAppStatus({ slug: 'helper', state, message: 'done', uri: 'https://example.com/1' });
  await assert.rejects(rpc.updateAppStatus({ slug: 'none', state, message: 'x' }), /no app "none"/);
  await session.close();
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${made.body.latest_build.id}`);
  const [status] = body.resources[0]!.agents![0]!.apps[0]!.statuses!;
  assert.deepEqual([status!.state, status!.message, status!.uri], ['complete', 'done', 'https://example.com/1']);
});

test('lets a log streamer write, which neither is the agent nor ends its connection', async () => {
  const { agents } = await makeAgents(server, template, 'streamer');
  const { id, token } = agents[0]!;
  const streamer = await connect(token, { version: '2.8', role: 'logstream-kube' });
  await streamer.write('pulling the image');
  assert.deepEqual(await logOf(id), ['pulling the image']);
  assert.equal((await agentOf(id)).status, 'connecting');
  await assert.rejects(streamer.rpc.getManifest({}), isUnimplemented);

  const agent = await connect(token, { version: '2.10', role: 'agent', ours: true });
  await agent.rpc.getManifest({});
  await eventually('the agent is connected', async () => (await agentOf(id)).status === 'connected');
  // the agent's host key is known now, and the streamer has none
  const later = await connect(token, { version: '2.8', role: 'logstream-kube' });
  for (const { write } of [streamer, later]) await write('the pod restarts');
  await agent.rpc.getManifest({});
  await later.session.close();
  assert.equal((await agentOf(id)).status, 'connected');
  await streamer.session.close();
  await agent.session.close();
});

test('takes a connection of API 2.0 for the agent from its first call that is not about logs', async () => {
  const { agents } = await makeAgents(server, template, 'unknown-role');
  const { id, token } = agents[0]!;
  const streamer = await connect(token, { version: '2.0' });
  await streamer.write('scheduled');
  assert.equal((await agentOf(id)).status, 'connecting');
  const agent = await connect(token, { version: '2.0' });
  await agent.rpc.getManifest({});
  await eventually('the agent is connected', async () => (await agentOf(id)).status === 'connected');
  await streamer.write('started');
  assert.deepEqual(await logOf(id), ['scheduled', 'started']);
  await streamer.session.close();
  assert.equal((await agentOf(id)).status, 'connected');
  await agent.session.close();
  await eventually('it is gone', async () => (await agentOf(id)).status === 'disconnected');
});

test('ends the connections of log streamers that are one too many, and of an agent that a build replaced', async () => {
  const { workspace, agents } = await makeAgents(server, template, 'streamers');
  const { token } = agents[0]!;
  const options = { version: '2.8', role: 'logstream-kube' };
  const streamers = [];
  for (let n = 0; n < 5; n++) streamers.push(await connect(token, options));
  await streamers[0]!.session.closed;
  await streamers[1]!.write('still here');
  const stop = await server.api('POST', `/workspaces/${workspace.id}/builds`, { body: { transition: 'stop' } });
  assert.equal(stop.status, 201);
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: {} };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  await Promise.all(streamers.map(({ session }) => session.closed));
  assert.equal((await refusal(dialAgent(server, token, { ours: false, ...options }))).status, 401);
});

test('merges the variables that a daemon of API 1.16 or later leaves to the server', async () => {
  const build = async (extraEnvs: { name: string; value: string; mergeStrategy: string }[]) => {
    const own = await takeJob(server);
    const agents = [{ id: crypto.randomUUID(), name: 'main', env: { OWN: 'agent' }, extraEnvs }];
    const type = { case: 'workspaceBuild' as const, value: { resources: [{ name: 'machine', type: 'vm', agents }] } };
    await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  };
  const make = (name: string) =>
    server.api<Workspace>('POST', '/users/me/workspaces', { body: { name, template_id: template.id } });
  const env = (name: string, value: string, mergeStrategy = '') => ({ name, value, mergeStrategy });
  const made = await make('merged');
  await build([
    env('PATH', '/a'),
    env('PATH', '/b', 'append'),
    env('PATH', '/c', 'prepend'),
    env('EMPTY', ''),
    env('EMPTY', '/d', 'append'),
    env('LAST', '1', 'error'),
    env('OWN', 'resource'),
    env('TWICE', '1'),
    env('TWICE', '2', 'replace'),
  ]);
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${made.body.latest_build.id}`);
  assert.deepEqual(body.resources[0]!.agents![0]!.environment_variables, {
    PATH: '/c:/a:/b',
    EMPTY: '/d',
    LAST: '1',
    OWN: 'agent',
    TWICE: '2',
  });
  const refused = await make('refused');
  await build([env('A', '1'), env('A', '2', 'error')]);
  const failed = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${refused.body.latest_build.id}`);
  assert.match(failed.body.job.error ?? '', /Two coder_env set "A"/);
});

test('takes the modules of an import that names them once for both transitions', async () => {
  const version = await pendingVersion(server);
  const startModules = [{ key: 'x', source: './x', version: '1.0.0' }];
  await finishImport(server, await takeJob(server), { startModules });
  const { sql } = server.services;
  const rows = await sql<{ transition: string }[]>`SELECT transition FROM workspace_modules m
    WHERE m.job_id = ${version.job.id} ORDER BY transition`;
  assert.deepEqual(
    rows.map(({ transition }) => transition),
    ['start', 'stop'],
  );
});

test('reports why a daemon could not upload module files, and answers a download with code 12', async () => {
  const { session } = await joinDaemon(server, 'uploader', { psk: PSK });
  const daemon = createDrpcClient(ProvisionerDaemon, () => session.openStream());
  const acquire = daemon.acquireJobWithCancel();
  const version: TemplateVersion = await pendingVersion(server);
  assert.equal((await acquire.receive())!.jobId, version.job.id);
  const upload = daemon.uploadFile();
  await upload.send({ type: { case: 'error', value: { error: 'disk full' } } });
  await assert.rejects(upload.receive(), /could not read the module files: disk full/);
  const download = daemon.downloadFile({ fileId: crypto.randomUUID() });
  await assert.rejects(download.receive(), isUnimplemented);
  await session.close();
});
