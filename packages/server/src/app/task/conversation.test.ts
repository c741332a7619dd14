import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Response, Task, TaskLogsResponse, WorkspaceBuildParameter } from '@ropewalk/contract';
import { eventually, insertPerson, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { startTestApp, type TestApp } from '../../http/apps/testing/app.ts';
import { completeJob } from '../job/complete.ts';
import { acquiredJobMessage } from '../job/message.ts';

let server: TestServer;
let chat: TestApp;
let workspace: TestWorkspace;

const FIRST = { id: 0, content: 'Hello', role: 'agent', time: '2026-01-02T03:04:05.678Z' };
/** What the app of the task answers, by method and path. */
const answers: Record<string, { status?: number; text: string }> = {};
/** The bodies that it received. */
const received: unknown[] = [];
const say = (of: string, body: unknown, status = 200) => {
  answers[of] = { status, text: typeof body === 'string' ? body : JSON.stringify(body) };
};

before(async () => {
  server = await startTestServer();
  chat = await startTestApp((request, response) => {
    const answer = answers[`${request.method} ${request.url}`];
    if (!answer) return false;
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      if (parts.length > 0) received.push(JSON.parse(Buffer.concat(parts).toString()));
      response.writeHead(answer.status ?? 200, { 'content-type': 'application/json' }).end(answer.text);
    });
    return true;
  });
  const url = `http://localhost:${chat.port}/base/`;
  workspace = await startTestWorkspace(server, 'job', {
    task: 'Find the leak',
    agent: { apps: [{ id: crypto.randomUUID(), slug: 'chat', url }] as never },
  });
});
after(async () => {
  await workspace?.stop();
  await chat?.close();
  await server?.stop();
});

const path = (end = '') => `/tasks/admin/job${end}`;
const logs = (token?: string) => server.api<TaskLogsResponse & Response>('GET', path('/logs'), token ? { token } : {});
const send = (input: string, token?: string) =>
  server.api<Response>('POST', path('/send'), { body: { input }, ...(token ? { token } : {}) });
const change = (input: string, token?: string) =>
  server.api<Response>('PATCH', path('/input'), { body: { input }, ...(token ? { token } : {}) });
const snapshot = (messages: unknown, { task = workspace.workspace.id, format = 'agentapi' } = {}) =>
  server.api<Response>('POST', `/workspaceagents/me/tasks/${task}/log-snapshot?format=${format}`, {
    token: workspace.token,
    body: { messages },
  });
const task = async () => (await server.api<Task>('GET', path())).body;

test('shows the conversation of a running task, and sends messages to its coding agent', async () => {
  await eventually('the task is active', async () => (await task()).status === 'active');
  say('GET /base/messages', { messages: [FIRST, { ...FIRST, id: 1, role: 'user', content: 'Hi' }] });
  const read = await logs();
  assert.equal(read.status, 200, JSON.stringify(read.body));
  assert.deepEqual(read.body, {
    logs: [
      { id: 0, type: 'output', content: 'Hello', time: FIRST.time },
      { id: 1, type: 'input', content: 'Hi', time: FIRST.time },
    ],
  });
  say('GET /base/status', { status: 'stable', agent_type: 'claude' });
  say('POST /base/message', { ok: true });
  assert.equal((await send('Now mend it')).status, 204);
  assert.deepEqual(received, [{ content: 'Now mend it', type: 'user' }]);

  say('GET /base/status', { status: 'running' });
  const busy = await send('Once more');
  assert.deepEqual([busy.status, busy.body.detail?.includes('"running"')], [409, true]);
  assert.equal((await send('')).status, 400);
  assert.equal((await change('Another')).status, 409);
  assert.equal(received.length, 1);
});

test('rejects answers of other programs than coding agents, and too large ones', async () => {
  for (const [answer, status] of [
    ['<html>', 200],
    [{ messages: 'none' }, 200],
    [{ messages: [{ ...FIRST, role: 'system' }] }, 200],
    [{ messages: [{ ...FIRST, time: 'never' }] }, 200],
    ['null', 200],
    [{ messages: [] }, 500],
    [{ messages: [{ ...FIRST, content: 'x'.repeat(3 * 1024 * 1024) }] }, 200],
  ] as const) {
    say('GET /base/messages', answer, status);
    const read = await logs();
    assert.equal(read.status, 503, JSON.stringify(answer).slice(0, 100));
    assert.equal(read.body.message, 'The app of this task did not answer as expected.');
  }
});

test('only people who may use the apps of a workspace read and continue its conversation', async () => {
  const { token } = await insertPerson(server, 'tess');
  const admin = await insertPerson(server, 'ada', ['template-admin']);
  assert.deepEqual([(await logs(token)).status, (await send('x', token)).status], [404, 404]);
  assert.deepEqual([(await logs(admin.token)).status, (await send('x', admin.token)).status], [403, 403]);
  assert.deepEqual([(await change('x', token)).status, (await change('x', admin.token)).status], [404, 403]);
});

test('keeps the conversation that a workspace sends before it stops', async () => {
  const own = { id: 0, content: 'Done', role: 'agent', time: '2026-01-02T03:04:05.1234567+01:00' };
  assert.equal((await snapshot([own], { task: crypto.randomUUID() })).status, 404);
  assert.equal((await snapshot([own], { format: 'other' })).status, 400);
  assert.equal((await snapshot([{ ...own, role: 'system' }])).status, 400);
  const large = await snapshot([own, { ...own, id: 1, content: 'x'.repeat(64 * 1024) }]);
  assert.deepEqual([large.status, large.body.validations?.[0]?.field], [400, 'messages']);
  assert.equal((await snapshot([])).status, 204);
  assert.equal((await snapshot([{ ...own, extra: 1 }])).status, 204);

  await stopped();
  const read = await logs();
  assert.deepEqual([read.status, read.body.snapshot], [200, true]);
  assert.ok(Math.abs(Date.parse(read.body.snapshot_at!) - Date.now()) < 60_000);
  assert.deepEqual(
    read.body.logs.map(({ content, type }) => [content, type]),
    [['Done', 'output']],
  );
  const paused = await send('x');
  assert.deepEqual([paused.status, paused.body.detail], [409, 'Resume the task first.']);
});

test('a stopped task starts with a changed prompt, also where a client sends the earlier one', async () => {
  assert.equal((await change(' ')).status, 400);
  for (const prompt of ['Find the bug', 'Find both']) assert.equal((await change(prompt)).status, 204);
  assert.equal((await task()).initial_prompt, 'Find both');
  const first = await server.api<WorkspaceBuildParameter[]>(
    'GET',
    `/workspacebuilds/${workspace.workspace.latest_build.id}/parameters`,
  );
  assert.deepEqual(
    first.body.map(({ value }) => value),
    ['Find the leak'],
  );
  // upstream's dashboard sends what it read before the change
  assert.equal(await startsWith({ rich_parameter_values: first.body }), 'Find both');
  await stopped();
  // without a change, a client may give another prompt
  assert.equal(await startsWith({ rich_parameter_values: [{ name: 'AI Prompt', value: 'Find none' }] }), 'Find none');
});

test('deletes the conversation with its task', async () => {
  assert.equal((await server.api('DELETE', path())).status, 202);
  const own = await takeJob(server);
  await complete(own, []);
  assert.equal((await server.services.sql`SELECT FROM task_snapshots`).length, 0);
});

type Taken = Awaited<ReturnType<typeof takeJob>>;

async function complete(own: Taken, aiTasks: { id: string }[]): Promise<void> {
  const type = { case: 'workspaceBuild' as const, value: { aiTasks } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

async function stopped(): Promise<void> {
  assert.equal((await server.api('POST', path('/pause'))).status, 202);
  await complete(await takeJob(server), [{ id: crypto.randomUUID() }]);
  assert.equal((await task()).status, 'paused');
}

/** Starts the workspace and returns the prompt that the daemon receives. */
async function startsWith(input: object): Promise<string | undefined> {
  const made = await server.api('POST', `/workspaces/${workspace.workspace.id}/builds`, {
    body: { transition: 'start', ...input },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const own = await takeJob(server);
  const { type } = await acquiredJobMessage(server.services, own.job);
  assert.ok(type.case === 'workspaceBuild');
  await complete(own, [{ id: crypto.randomUUID() }]);
  return type.value.metadata?.taskPrompt;
}
