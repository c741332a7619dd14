import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Workspace } from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  failTaken,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { systemContext } from '../context/context.ts';
import { follow, type Sink, type Source } from '../follow/follow.ts';
import { workspaceSource } from './watch.ts';

let server: TestServer;
let templateId: string;
before(async () => {
  server = await startTestServer();
  templateId = (await createTestTemplate(server, 'watched')).id;
});
after(() => server.stop());

/** A stream looks once a second, unless its source is expensive. */
const LONGER_MS = 1_500;

/** Creates a workspace and follows it. */
async function createWatched(name: string, changes: Partial<Source> = {}) {
  const { status, body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: templateId },
  });
  assert.equal(status, 201, JSON.stringify(body));
  const ctx = systemContext(server.services, 'test');
  const gone = new AbortController();
  const seen: Workspace[] = [];
  const sink: Sink = {
    send(message) {
      seen.push(JSON.parse(message) as Workspace);
      return undefined;
    },
    gone: gone.signal,
    end: (outcome) => assert.fail(`the stream ended: ${outcome}`),
  };
  const following = follow(ctx, { ...workspaceSource(ctx, body.id), ...changes }, sink);
  const change = (what: string, good: (workspace: Workspace) => boolean) =>
    eventually(what, async () => seen.some(good));
  await change('the workspace is read', (workspace) => workspace.name === name);
  const leave = async () => {
    gone.abort();
    await following;
  };
  return { id: body.id, seen, change, leave };
}

test('reads a workspace only after an event about it', async () => {
  const { services } = server;
  const { id, seen, change, leave } = await createWatched('quiet');
  await services.sql`UPDATE workspaces SET name = 'renamed' WHERE id = ${id}`;
  services.events.publishSoon('workspace_changed', { workspace_id: crypto.randomUUID() });
  await delay(LONGER_MS);
  assert.ok(
    seen.every(({ name }) => name === 'quiet'),
    'nothing is read without an event about it',
  );
  services.events.publishSoon('workspace_changed', { workspace_id: id });
  await change('the change is read', ({ name }) => name === 'renamed');
  await leave();
  await failTaken(server, await takeJob(server), 'not wanted');
});

test('shows that a daemon takes the job of the build, that it is canceled, and that it ends', async () => {
  const { id, change, leave } = await createWatched('built');
  const { body } = await server.api<Workspace>('GET', `/workspaces/${id}`);
  const daemon = await takeJob(server);
  // as the queue does after it has given a job to a daemon
  await server.services.events.publish(server.services.sql, 'job_changed', { job_id: daemon.jobId });
  await change('the build runs', ({ latest_build: build }) => build.status === 'starting');
  await server.api('PATCH', `/workspacebuilds/${body.latest_build.id}/cancel`);
  await change('the build is being canceled', ({ latest_build: build }) => build.status === 'canceling');
  await failTaken(server, daemon, 'canceled');
  await change('the build has ended', ({ latest_build: build }) => build.status === 'canceled');
  await leave();
});

test('shows a new name of the template', async () => {
  const { change, leave } = await createWatched('of-template');
  const { status } = await server.api('PATCH', `/templates/${templateId}`, { body: { display_name: 'Other name' } });
  assert.equal(status, 200);
  await change('the name is read', ({ template_display_name: name }) => name === 'Other name');
  await leave();
  await failTaken(server, await takeJob(server), 'not wanted');
});

test('reads a workspace now and then, because some values change without an event', async () => {
  const { id, change, leave } = await createWatched('aging', { lookAgainMs: 20 });
  await server.services.sql`UPDATE workspaces SET name = 'aged' WHERE id = ${id}`;
  await change('the change is read', ({ name }) => name === 'aged');
  await leave();
});
