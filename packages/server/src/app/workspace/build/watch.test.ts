import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Workspace, WorkspaceBuild, WorkspaceBuildUpdate } from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  failTaken,
  insertPerson,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';

const PATH = '/api/experimental/watch-all-workspacebuilds';

let server: TestServer;
let templateId: string;
before(async () => {
  server = await startTestServer();
  templateId = (await createTestTemplate(server, 'followed')).id;
});
after(() => server.stop());

async function create(name: string): Promise<Workspace> {
  const { status, body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: templateId },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}

/** Follows all builds as upstream's clients do. */
async function watch(token = server.adminToken) {
  const seen: WorkspaceBuildUpdate[] = [];
  const { connection } = await dialWebSocket(`${server.url}${PATH}`, { headers: { 'Coder-Session-Token': token } });
  connection.on('text', (text) => seen.push(JSON.parse(text) as WorkspaceBuildUpdate));
  const states = (name: string) =>
    seen
      .filter((update) => update.workspace_name === name)
      .map(({ transition, job_status }) => `${transition} ${job_status}`);
  const shows = (name: string, state: string, timeoutMs?: number) =>
    eventually(`${name}: ${state}`, async () => states(name).at(-1) === state, timeoutMs);
  return { seen, states, shows, close: () => connection.close() };
}

test('reports each state of each build once, in the order of the builds', async () => {
  const stream = await watch();
  const { id, latest_build: build } = await create('one');
  await stream.shows('one', 'start pending');
  assert.deepEqual(stream.seen[0], {
    workspace_id: id,
    workspace_name: 'one',
    build_id: build.id,
    transition: 'start',
    job_status: 'pending',
    build_number: 1,
  });
  const daemon = await takeJob(server);
  // as the queue does after it has given a job to a daemon
  await server.services.events.publish(server.services.sql, 'job_changed', { job_id: daemon.jobId });
  await stream.shows('one', 'start running');
  await failTaken(server, daemon, 'broken');
  await stream.shows('one', 'start failed');
  const again = await server.api<WorkspaceBuild>('POST', `/workspaces/${id}/builds`, { body: { transition: 'stop' } });
  assert.equal(again.status, 201, JSON.stringify(again.body));
  await stream.shows('one', 'stop pending');
  // an event without a change, and one of a job without a build
  for (const job_id of [build.job.id, crypto.randomUUID()])
    await server.services.events.publish(server.services.sql, 'job_changed', { job_id });
  assert.equal((await server.api('PATCH', `/workspacebuilds/${again.body.id}/cancel`)).status, 200);
  await stream.shows('one', 'stop canceled');
  assert.deepEqual(stream.states('one'), [
    'start pending',
    'start running',
    'start failed',
    'stop pending',
    'stop canceled',
  ]);
  stream.close();
});

test('begins with the builds that have not ended, and finds an end without its event', async () => {
  const { latest_build: build } = await create('two');
  const stream = await watch();
  await stream.shows('two', 'start pending');
  assert.deepEqual(stream.states('one'), [], 'builds that ended before are left out');
  await server.services
    .sql`UPDATE provisioner_jobs SET completed_at = now(), error = 'lost' WHERE id = ${build.job.id}`;
  // the connection for notifications was lost
  await server.services.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND query ILIKE 'listen%' AND pid <> pg_backend_pid()`;
  // sooner than the next look without a reason
  await stream.shows('two', 'start failed', 10_000);
  stream.close();
});

test('is for people who may read all workspaces', async () => {
  const member = await insertPerson(server, 'member');
  await assert.rejects(watch(member.token), (err) => err instanceof WebSocketDialError && err.status === 403);
  const boss = await insertPerson(server, 'boss', ['template-admin']);
  (await watch(boss.token)).close();
});
