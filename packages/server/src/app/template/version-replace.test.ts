import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TemplateVersion } from '@ropewalk/contract';
import {
  createTestTemplate,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { tagged } from '../job/testing/daemons.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('replaces a version whose import waits by one with other tags, and keeps everything else', async () => {
  const { sql } = server.services;
  const template = await createTestTemplate(server, 'replaced');
  const given = {
    template_id: template.id,
    name: 'v2',
    message: 'Faster disks',
    tags: { disk: 'ssd' },
    user_variable_values: [{ name: 'secret', value: 'not shown by any route' }],
  };
  const waiting = await pendingVersion(server, given);
  const replace = (id: string, more: object = {}, token?: string) =>
    server.api<TemplateVersion>('POST', '/organizations/default/templateversions', {
      body: {
        provisioner: 'terraform',
        storage_method: 'file',
        replaces: id,
        tags: { disk: 'ssd', zone: 'us' },
        ...more,
      },
      ...(token === undefined ? {} : { token }),
    });
  const member = await insertPerson(server, 'replacer');
  assert.equal((await replace(waiting.id, {}, member.token)).status, 403);
  assert.equal((await replace(waiting.id, { file_id: waiting.job.file_id })).status, 400);

  // its variables may be secrets of this template
  const other = await createTestTemplate(server, 'another');
  const { status, body: next } = await replace(waiting.id, { template_id: other.id });
  assert.equal(status, 201, JSON.stringify(next));
  assert.deepEqual(
    [next.name, next.message, next.template_id, next.job.file_id, next.job.tags],
    ['v2', 'Faster disks', template.id, waiting.job.file_id, tagged({ disk: 'ssd', zone: 'us' })],
  );
  const [job] = await sql<{ input: { user_variable_values: object[] } }[]>`
    SELECT input FROM provisioner_jobs WHERE id = ${next.job.id}`;
  assert.deepEqual(job!.input.user_variable_values, given.user_variable_values);
  const { body: before } = await server.api<TemplateVersion>('GET', `/templateversions/${waiting.id}`);
  assert.deepEqual(
    [before.job.status, before.archived, before.name],
    ['canceled', true, `unused-${waiting.id.slice(0, 8)}`],
  );

  const again = await replace(waiting.id);
  assert.equal(again.status, 412);
  assert.match(JSON.stringify(again.body), /its import is canceled/);
  await takeJob(server, tagged({ disk: 'ssd', zone: 'us' }));
  assert.equal((await replace(next.id)).status, 412, 'a daemon has its import');

  // a version that has no template yet
  const first = await pendingVersion(server, { name: 'first', tags: { disk: 'ssd' } });
  const { body: second } = await replace(first.id);
  assert.deepEqual([second.name, second.template_id ?? null], ['first', null]);
  await server.api('PATCH', `/templateversions/${second.id}/cancel`);
});
