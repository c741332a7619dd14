import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ListInboxNotificationsResponse, Workspace } from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  failTaken,
  insertPerson,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { reportFailedBuilds } from './failed-builds.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('reports the failed builds of a week to template admins, once', async () => {
  const { services } = server;
  const keeper = await insertPerson(server, 'keeper', ['template-admin']);
  await insertPerson(server, 'other');
  for (const [name, builds] of [
    ['flaky', 2],
    ['solid', 0],
    ['broken', 3],
  ] as const) {
    const template = await createTestTemplate(server, name);
    if (builds === 0) continue;
    const body = { name, template_id: template.id };
    const { body: made } = await server.api<Workspace>('POST', '/users/me/workspaces', { body });
    await failTaken(server, await takeJob(server), 'no');
    for (let build = 1; build < builds; build++) {
      await server.api('POST', `/workspaces/${made.id}/builds`, { body: { transition: 'start' } });
      await failTaken(server, await takeJob(server), 'no');
    }
  }
  assert.equal(await reportFailedBuilds(services), false, 'the first week begins');
  const later = (days: number) => ({
    ...services,
    clock: { ...services.clock, now: () => new Date(Date.now() + days * 86_400_000) },
  });
  await services.sql`UPDATE site_config SET value = ${new Date(Date.now() - 3_600_000).toISOString()}
    WHERE key = 'failed_builds_report'`;
  assert.equal(await reportFailedBuilds(later(6)), false);
  const both = await Promise.all([reportFailedBuilds(later(8)), reportFailedBuilds(later(8))]);
  assert.deepEqual(both.sort(), [false, true]);
  const report = await eventually('the report', async () => {
    const { body } = await server.api<ListInboxNotificationsResponse>('GET', '/notifications/inbox', {
      token: keeper.token,
    });
    return body.notifications.find(({ title }) => title === 'Failed workspace builds of the last week');
  });
  assert.match(report.content, /failed \*\*5\*\* times/);
  assert.match(report.content, /broken \\\(3\\\), flaky \\\(2\\\)/);
  const [found] = await services.sql<{ count: number }[]>`SELECT count(DISTINCT user_id) AS count
    FROM notification_messages WHERE event LIKE 'failed builds until%'`;
  assert.equal(found!.count, 1);
  assert.equal(await reportFailedBuilds(later(9)), false);
});
