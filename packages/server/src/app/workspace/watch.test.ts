import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
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
import { workspaceSource } from './watch.ts';

let server: TestServer;
let templateId: string;
before(async () => {
  server = await startTestServer();
  templateId = (await createTestTemplate(server, 'watched')).id;
});
after(() => server.stop());

async function createWatched(name: string) {
  const { status, body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: templateId },
  });
  assert.equal(status, 201, JSON.stringify(body));
  const source = workspaceSource(systemContext(server.services, 'test'), body.id);
  let woken = 0;
  const leave = source.subscribe(() => {
    woken += 1;
  });
  const look = async (): Promise<Workspace | undefined> => {
    const { messages } = await source.next();
    return messages[0] === undefined ? undefined : (JSON.parse(messages[0]) as Workspace);
  };
  /** Waits for an event, and reads what it announced. */
  const change = async (what: string, good: (workspace: Workspace) => boolean) =>
    eventually(what, async () => {
      if (woken === 0) return false;
      woken = 0;
      const seen = await look();
      return seen !== undefined && good(seen);
    });
  assert.equal((await look())?.name, name);
  woken = 0;
  return { id: body.id, look, change, leave, woken: () => woken };
}

test('reads a workspace only after an event about it', async () => {
  const { services } = server;
  const { id, look, change, leave, woken } = await createWatched('quiet');
  await services.sql`UPDATE workspaces SET name = 'renamed' WHERE id = ${id}`;
  // as a stream looks once a second
  assert.equal(await look(), undefined);
  services.events.publishSoon('workspace_changed', { workspace_id: crypto.randomUUID() });
  services.events.publishSoon('workspace_changed', { workspace_id: id });
  await change('the change is read', ({ name }) => name === 'renamed');
  assert.equal(woken(), 0);
  leave();
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
  leave();
});

test('shows a new name of the template', async () => {
  const { change, leave } = await createWatched('of-template');
  const { status } = await server.api('PATCH', `/templates/${templateId}`, { body: { display_name: 'Other name' } });
  assert.equal(status, 200);
  await change('the name is read', ({ template_display_name: name }) => name === 'Other name');
  leave();
  await failTaken(server, await takeJob(server), 'not wanted');
});

test('reads a workspace now and then, because some values change without an event', async () => {
  const { services } = server;
  const { id, leave } = await createWatched('aging');
  leave();
  const source = workspaceSource(systemContext(services, 'test'), id, { lookAnywayMs: 0 });
  await source.next();
  await services.sql`UPDATE workspaces SET name = 'aged' WHERE id = ${id}`;
  const { messages } = await source.next();
  assert.equal((JSON.parse(messages[0]!) as Workspace).name, 'aged');
});
