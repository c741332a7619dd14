import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type {
  Response,
  Task,
  TaskBuildResponse,
  TasksListResponse,
  Workspace,
  WorkspacesResponse,
} from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  failTaken,
  insertPerson,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../job/complete.ts';

let server: TestServer;
/** The version of a template with tasks, and of one without. */
let version: string;
let plain: string;
before(async () => {
  server = await startTestServer({ env: { CODER_WORKSPACE_PREBUILDS_RECONCILIATION_INTERVAL: '200ms' } });
  version = (await createTestTemplate(server, 'agentic', { hasAiTasks: true })).active_version_id;
  plain = (await createTestTemplate(server, 'plain')).active_version_id;
});
after(() => server.stop());

const PROMPT = 'Find the leak, and mend it';
const make = async (body: object = {}, token?: string) => {
  const made = await server.api<Task>('POST', '/tasks/me', {
    body: { template_version_id: version, input: PROMPT, ...body },
    ...(token ? { token } : {}),
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
};
const read = async (task: Pick<Task, 'id'>) => (await server.api<Task>('GET', `/tasks/me/${task.id}`)).body;
const list = async (q: string, token?: string) => {
  const { body } = await server.api<TasksListResponse>(
    'GET',
    `/tasks?q=${encodeURIComponent(q)}`,
    token ? { token } : {},
  );
  assert.equal(body.count, body.tasks.length);
  return body.tasks.map(({ name }) => name);
};

/** Ends the pending build as a daemon does. A start makes an agent with the app of the task. Returns the agent's token. */
async function finish(starts: boolean): Promise<string> {
  const own = await takeJob(server);
  const token = crypto.randomUUID();
  const app = crypto.randomUUID();
  const agents = starts
    ? [
        {
          id: crypto.randomUUID(),
          name: 'main',
          auth: { case: 'token' as const, value: token },
          apps: [{ id: app, slug: 'chat', displayName: 'Chat', url: 'http://localhost:3284' }],
        },
      ]
    : [];
  const value = {
    resources: [{ name: 'machine', type: 'vm', agents }],
    aiTasks: [{ id: crypto.randomUUID(), ...(starts ? { appId: app } : {}) }],
  };
  const type = { case: 'workspaceBuild' as const, value };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  return token;
}

test('a task goes from its prompt to a report, a pause, a new start and its deletion', async () => {
  const { sql } = server.services;
  const made = await make({ name: 'leak' });
  assert.deepEqual(
    [made.name, made.display_name, made.initial_prompt, made.status, made.workspace_status, made.current_state],
    ['leak', PROMPT, PROMPT, 'pending', 'pending', null],
  );
  assert.deepEqual([made.id, made.workspace_name], [made.workspace_id, 'leak']);
  // a list shows it before its build has reported that it is a task
  assert.deepEqual(await list('owner:me'), ['leak']);
  const searched = await server.api<WorkspacesResponse>('GET', '/workspaces?q=has-ai-task:true');
  assert.equal(searched.body.count, 1);
  assert.deepEqual((await server.api<Task>('GET', '/tasks/admin/leak')).body, made);

  const token = await finish(true);
  const started = await read(made);
  assert.deepEqual([started.status, started.current_state?.message], ['initializing', 'Agent is connecting']);
  const agent = started.workspace_agent_id!;
  await sql`UPDATE workspace_agents SET lifecycle_state = 'ready' WHERE id = ${agent}`;
  for (const [health, status] of [
    ['initializing', 'initializing'],
    ['unhealthy', 'error'],
    ['healthy', 'active'],
  ] as const) {
    await sql`UPDATE workspace_apps SET health = ${health} WHERE id = ${started.workspace_app_id}`;
    assert.equal((await read(made)).status, status, health);
  }
  const report = { app_slug: 'chat', state: 'failure', message: 'No leak', uri: 'https://example.com/1' };
  assert.equal((await server.api('PATCH', '/workspaceagents/me/app-status', { token, body: report })).status, 200);
  const { timestamp, ...state } = (await read(made)).current_state!;
  assert.deepEqual(state, { state: 'failed', message: 'No leak', uri: 'https://example.com/1' });
  assert.ok(Date.parse(timestamp) > 0);
  assert.deepEqual([await list('status:active'), await list('status:paused')], [['leak'], []]);
  const workspace = await server.api<Workspace>('GET', `/workspaces/${made.id}`);
  assert.equal(workspace.body.task_id, made.id);

  assert.equal((await server.api('POST', '/tasks/me/leak/resume')).status, 409);
  const paused = await server.api<TaskBuildResponse>('POST', '/tasks/me/leak/pause');
  assert.deepEqual([paused.status, paused.body.workspace_build.transition], [202, 'stop']);
  await finish(false);
  assert.equal((await read(made)).status, 'paused');
  const resumed = await server.api<TaskBuildResponse>('POST', `/tasks/me/${made.id}/resume`);
  assert.deepEqual([resumed.status, resumed.body.workspace_build.transition], [202, 'start']);
  await failTaken(server, await takeJob(server), 'no machine left');
  assert.deepEqual([(await read(made)).status, await list('status:error')], ['error', ['leak']]);

  assert.equal((await server.api('DELETE', `/tasks/me/${made.id}`)).status, 202);
  await finish(false);
  assert.deepEqual(await list(''), []);
  assert.equal((await server.api('GET', '/tasks/me/leak')).status, 404);
  const deleted = await server.api<Task>('GET', `/tasks/me/${made.id}`);
  assert.deepEqual([deleted.status, deleted.body.workspace_status], [200, 'deleted']);
  for (const path of ['pause', 'resume']) {
    assert.equal((await server.api('POST', `/tasks/me/${made.id}/${path}`)).status, 410, path);
  }
});

test('names a task by its prompt, and rejects prompts and versions without tasks', async () => {
  const named = await make();
  assert.match(named.name, /^find-the-leak-and-mend-[0-9a-f]{6}$/);
  await finish(true);
  const long = await make({ input: `${'word '.repeat(30)}\nsecond line` });
  assert.match(long.display_name, /^(word ){11}word…$/);
  assert.match(long.name, /^(word-){4}word-[0-9a-f]{6}$/);
  await finish(true);
  assert.match((await make({ input: '直してください' })).name, /^task-[0-9a-f]{6}$/);
  await finish(true);
  for (const [body, field] of [
    [{ input: ' ' }, 'input'],
    [{ template_version_id: plain }, 'template_version_id'],
    [{ template_version_id: crypto.randomUUID() }, 'template_version_id'],
    [{ name: 'No good' }, 'name'],
    [{ display_name: 'x'.repeat(65) }, 'display_name'],
  ] as const) {
    const refused = await server.api<Response>('POST', '/tasks/me', {
      body: { template_version_id: version, input: PROMPT, ...body },
    });
    assert.deepEqual([refused.status, refused.body.validations?.[0]?.field], [400, field], JSON.stringify(body));
  }
});

test('shows the title of a task instead of the beginning of its prompt', async () => {
  const titles = async (task: Task) => {
    const { tasks } = (await server.api<TasksListResponse>('GET', '/tasks?q=owner:me')).body;
    const byName = (await server.api<Task>('GET', `/tasks/me/${task.name}`)).body;
    return [(await read(task)).display_name, byName.display_name, tasks.find(({ id }) => id === task.id)?.display_name];
  };
  const title = 'Mend the leak of the lists…';
  const titled = await make({ display_name: `  ${title} ` });
  assert.equal(titled.display_name, title);
  assert.deepEqual(await titles(titled), [title, title, title]);
  await finish(true);
  // the title stays when the prompt changes
  assert.equal((await server.api('POST', `/tasks/me/${titled.id}/pause`)).status, 202);
  await finish(false);
  const input = { input: 'Another prompt' };
  assert.equal((await server.api('PATCH', `/tasks/me/${titled.id}/input`, { body: input })).status, 204);
  assert.deepEqual(await titles(titled), [title, title, title]);
  const blank = await make({ display_name: '  ' });
  assert.deepEqual(await titles(blank), [PROMPT, PROMPT, PROMPT]);
  await finish(true);
  const longest = 'x'.repeat(64);
  assert.equal((await make({ display_name: longest })).display_name, longest);
  await finish(true);
});

test('a task that takes a prebuilt workspace has its title', async () => {
  const { sql } = server.services;
  const presets = [{ name: 'Small', parameters: [], prebuild: { instances: 1 } }];
  const pooled = await createTestTemplate(server, 'pooled', { hasAiTasks: true, presets });
  await eventually('a prebuilt workspace', async () => {
    const path = '/workspaces?q=owner:prebuilds+template:pooled';
    return (await server.api<WorkspacesResponse>('GET', path)).body.count === 1;
  });
  await finish(false);
  const paused = { reconciliation_paused: true };
  assert.equal((await server.api('PUT', '/prebuilds/settings', { body: paused })).status, 200);
  const [preset] = await sql<{ id: string }[]>`SELECT id FROM template_version_presets WHERE name = 'Small'`;
  const chosen = { template_version_id: pooled.active_version_id, template_version_preset_id: preset!.id };
  const made = await make({ ...chosen, name: 'claimed', display_name: 'Out of the pool' });
  assert.deepEqual([made.workspace_build_number, made.display_name], [2, 'Out of the pool']);
  await finish(true);
});

test('shows people only the tasks that they may read, and no other workspaces', async () => {
  const { token } = await insertPerson(server, 'tess');
  const other = await insertPerson(server, 'uwe');
  const task = await make({ name: 'mine' }, token);
  await finish(true);
  assert.deepEqual([await list('', token), await list('owner:tess', other.token)], [['mine'], []]);
  assert.deepEqual([await list('tess'), await list('owner:tess organization:default')], [['mine'], ['mine']]);
  assert.equal((await server.api('GET', `/tasks/tess/${task.id}`, { token: other.token })).status, 404);
  assert.equal((await server.api('DELETE', `/tasks/me/${task.id}`, { token: other.token })).status, 404);
  for (const q of ['status:lost', 'name:x', 'a b', 'tess owner:me']) {
    assert.equal((await server.api('GET', `/tasks?q=${encodeURIComponent(q)}`)).status, 400, q);
  }
  const body = { name: 'usual', template_version_id: plain };
  assert.equal((await server.api('POST', '/users/me/workspaces', { body })).status, 201);
  assert.equal((await server.api('GET', '/tasks/me/usual')).status, 404);
});
