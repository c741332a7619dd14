import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Template, WorkspacesResponse } from '@ropewalk/contract';
import {
  createPerson,
  createTestTemplate,
  finishImport,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, CreateSubAgentRequest_App_SharingLevel } from '@ropewalk/wire/proto/agent';
import { UpdateJobRequestSchema } from '@ropewalk/wire/proto/provisionerd';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { createAgentReports } from '../app/agent/reports.ts';
import { createLogKeeper } from '../app/job/log-keeper.ts';
import { updateJob } from '../app/job/update.ts';
import { connectedAgent } from '../authz/proofs.ts';
import { dialAgent, type MadeAgent, makeAgents } from '../rpc/testing/agents.ts';

// Everybody who sees a person's workspaces and templates reads the texts that the person stored.

const LONG = 'x'.repeat(2_000_000);

let server: TestServer;
let template: Template;
let member: { id: string; token: string };
let agent: MadeAgent;
let workspaceId: string;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'base');
  member = await createPerson(server, 'member');
  const made = await makeAgents(server, template, 'dev', { token: member.token });
  agent = made.agents[0]!;
  workspaceId = made.workspace.id;
});
after(() => server.stop());

async function listIsSmall(): Promise<void> {
  const { status, body } = await server.api<WorkspacesResponse>('GET', '/workspaces');
  assert.equal(status, 200);
  assert.equal(body.workspaces.length, body.count);
  assert.ok(JSON.stringify(body).length < 200_000, 'the list is small');
}

test('rejects texts of megabytes, wherever the server would store them', async () => {
  const byAgent = { token: agent.token };
  const calls: [string, string, object, object?][] = [
    ['POST', '/workspaceagents/me/log-source', { display_name: LONG, icon: '' }, byAgent],
    ['POST', '/workspaceagents/me/log-source', { display_name: '', icon: LONG }, byAgent],
    ['PATCH', '/workspaceagents/me/app-status', { app_slug: 'x', state: 'working', message: '', uri: LONG }, byAgent],
    ['PATCH', `/templates/${template.id}`, { icon: LONG }],
    ['PATCH', `/templates/${template.id}`, { deprecation_message: LONG }],
    ['PUT', '/users/me/appearance', { theme_preference: LONG, terminal_font: 'fira-code' }, { token: member.token }],
    ['PUT', '/users/me/profile', { username: 'member', name: LONG }, { token: member.token }],
    ['PUT', `/workspaces/${workspaceId}/autostart`, { schedule: LONG }, { token: member.token }],
  ];
  for (const [method, path, body, call] of calls) {
    const { status } = await server.api(method, path, { body, ...call });
    assert.equal(status, 400, `${method} ${path} ${Object.keys(body).join()}`);
  }
  await listIsSmall();
});

test('bounds the number of log sources of an agent', async () => {
  const add = () =>
    server.api('POST', '/workspaceagents/me/log-source', {
      token: agent.token,
      body: { display_name: 'one', icon: '' },
    });
  let status = 201;
  let made = 0;
  for (; status === 201 && made < 500; made += 1) ({ status } = await add());
  assert.equal(status, 409);
  assert.ok(made < 250, String(made));
});

test('rejects long texts in an agent’s reports over its connection', async () => {
  const session = new YamuxSession(byteStream(await dialAgent(server, agent.token)), { role: 'client' });
  const rpc = createDrpcClient(Agent, () => session.openStream());
  try {
    const long = LONG.slice(0, 1_000_000);
    await assert.rejects(rpc.updateStartup({ startup: { version: 'v1', expandedDirectory: long } }), /at most 4096/);
    await assert.rejects(rpc.createSubAgent({ name: 'sub', directory: long }), /at most 4096/);
    const app = { slug: 'a', displayName: 'x'.repeat(4_000), share: CreateSubAgentRequest_App_SharingLevel.OWNER };
    await assert.rejects(
      rpc.createSubAgent({ name: 'sub', apps: Array.from({ length: 100 }, () => app) }),
      /at most 65536 characters/,
    );
    const { agent: made } = await rpc.createSubAgent({ name: 'sub', directory: '/home/dev', apps: [app] });
    assert.ok(made);
  } finally {
    await session.close();
  }
  await listIsSmall();
});

test('keeps a bounded number of deleted sub-agents', async () => {
  const session = new YamuxSession(byteStream(await dialAgent(server, agent.token)), { role: 'client' });
  const rpc = createDrpcClient(Agent, () => session.openStream());
  try {
    for (let i = 0; i < 60; i += 1) {
      const { agent: made } = await rpc.createSubAgent({ name: `short-${i}`, directory: '/' });
      await rpc.deleteSubAgent({ id: made!.id });
    }
  } finally {
    await session.close();
  }
  const [row] = await server.services.sql<{ count: number }[]>`SELECT count(*) AS count FROM workspace_agents
    WHERE parent_id = ${agent.id} AND deleted`;
  assert.equal(row!.count, 51);
});

test('keeps a bounded number of script runs and of protocols of an agent', async () => {
  const { sql } = server.services;
  const session = new YamuxSession(byteStream(await dialAgent(server, agent.token)), { role: 'client' });
  const rpc = createDrpcClient(Agent, () => session.openStream());
  try {
    const { scripts } = await rpc.getManifest({});
    const scriptId = scripts[0]!.id;
    const at = timestampFromDate(new Date());
    await Promise.all(
      Array.from({ length: 10 }, async (_, i) => {
        const timing = { scriptId, start: at, end: at, exitCode: i };
        for (let n = 0; n < 25; n += 1) await rpc.scriptCompleted({ timing });
      }),
    );
    await rpc.scriptCompleted({ timing: { scriptId, start: at, end: at, exitCode: 99 } });
    const runs = await sql<{ exit_code: number }[]>`SELECT t.exit_code FROM workspace_agent_script_timings t
      JOIN workspace_agent_scripts s ON s.id = t.script_id WHERE s.workspace_agent_id = ${agent.id}`;
    assert.equal(runs.length, 200);
    assert.ok(
      runs.some(({ exit_code: code }) => code === 99),
      'the last one is there',
    );
  } finally {
    await session.close();
  }
  const reports = createAgentReports(server.services);
  const none = { txBytes: 0, rxPackets: 0, txPackets: 0, vscode: 0, jetbrains: 0, reconnectingPty: 0, ssh: 0 };
  const protocols = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`${i}`.padEnd(4_000, 'x'), 1]));
  const report = { ...none, rxBytes: 5, connections: 0, latencyMs: 1, protocols };
  reports.stats(connectedAgent({ id: agent.id, workspace_id: workspaceId }), report);
  await reports.close();
  const [row] = await sql<{ size: number }[]>`SELECT length(connections_by_proto::text) AS size
    FROM workspace_agent_stats WHERE agent_id = ${agent.id}`;
  assert.ok(row!.size < 2_000, String(row!.size));
});

test('rejects durations beyond any date, and reads rows with such times', async () => {
  const { sql } = server.services;
  for (const field of ['time_til_dormant_autodelete_ms', 'activity_bump_ms', 'default_ttl_ms', 'failure_ttl_ms']) {
    const { status } = await server.api('PATCH', `/templates/${template.id}`, { body: { [field]: 9007199254740991 } });
    assert.equal(status, 400, field);
  }
  const year = await server.api('PATCH', `/templates/${template.id}`, {
    body: { time_til_dormant_autodelete_ms: 365 * 86_400_000 },
  });
  assert.equal(year.status, 200);
  // a row as an earlier version could write it
  await sql`UPDATE workspaces SET dormant_at = now(), deleting_at = '287453-01-01' WHERE id = ${workspaceId}`;
  await sql`UPDATE workspaces SET last_used_at = '-infinity' WHERE id = ${workspaceId}`;
  const { status, body } = await server.api<WorkspacesResponse>('GET', '/workspaces');
  assert.equal(status, 200);
  assert.equal(body.workspaces[0]?.deleting_at, '9999-12-31T23:59:59.000Z');
  assert.equal(body.workspaces[0]?.last_used_at, '0001-01-01T00:00:00.000Z');
});

test('keeps the beginning of a long README', async () => {
  const version = await pendingVersion(server);
  const own = await takeJob(server);
  const readme = Buffer.alloc(4 * 1024 * 1024, 'x');
  await updateJob(
    server.services,
    own,
    create(UpdateJobRequestSchema, { jobId: own.jobId, readme }),
    createLogKeeper(),
  );
  await finishImport(server, own);
  const { body } = await server.api<{ readme: string }>('GET', `/templateversions/${version.id}`);
  assert.equal(body.readme.length, 262_144);
});
