import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TemplateVersion, TemplateVersionParameter } from '@ropewalk/contract';
import { finishImport, pendingVersion, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { MAX_PARAMETERS } from './bounds.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

async function imported(count: number): Promise<TemplateVersion> {
  const version = await pendingVersion(server);
  const richParameters = Array.from({ length: count }, (_, n) => ({
    name: `p${n}`,
    type: 'string',
    defaultValue: 'x',
    order: n,
  }));
  await finishImport(server, await takeJob(server), { richParameters });
  return (await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`)).body;
}

test('stores as many parameters as a version may have, in their order', async () => {
  const { id, job } = await imported(MAX_PARAMETERS);
  assert.equal(job.status, 'succeeded', job.error ?? '');
  const { body } = await server.api<TemplateVersionParameter[]>('GET', `/templateversions/${id}/rich-parameters`);
  assert.deepEqual(
    body.map(({ name }) => name),
    Array.from({ length: MAX_PARAMETERS }, (_, n) => `p${n}`),
  );
});

test('rejects an import with more parameters, with the number, and stores none', async () => {
  const { id, job } = await imported(MAX_PARAMETERS + 1);
  assert.equal(job.status, 'failed');
  assert.match(job.error ?? '', /rich_parameters.*1,?001.*1,?000|rich_parameters.*1,?000/);
  const { count } = await server.services
    .sql`SELECT 1 FROM template_version_parameters WHERE template_version_id = ${id}`;
  assert.equal(count, 0);
});
