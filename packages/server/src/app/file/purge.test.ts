import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  createTestTemplate,
  firstRuns,
  pendingVersion,
  startTestServer,
  type TestServer,
  uploadSource,
} from '@ropewalk/testkit';
import { fileById } from '../../db/queries/files.ts';
import { storeModuleArchive } from '../job/module-files.ts';
import { purgeFiles } from './purge.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
  await firstRuns(server, 'purge unused files');
});
after(() => server.stop());

/** Makes all files look as if they had been uploaded so long ago. */
const age = (hours: number) =>
  server.services.sql`UPDATE files SET created_at = now() - ${hours} * interval '1 hour'`.then(() => {});
const isThere = async (id: string) => (await fileById(server.services.sql, id)) !== undefined;

test('files that nothing uses are deleted a day after their last upload, in batches', async () => {
  const { sql } = server.services;
  const unused = await Promise.all(Array.from({ length: 45 }, (_, i) => uploadSource(server, `# unused ${i}`)));
  const modules = await storeModuleArchive(sql, Buffer.from('modules'), 'modules');
  const usedModules = await storeModuleArchive(sql, Buffer.from('used modules'), 'used modules');
  const template = await createTestTemplate(server, 'used');
  await sql`UPDATE template_version_terraform_values SET module_files_id = ${usedModules}
    WHERE template_version_id = ${template.active_version_id}`;
  const waiting = await uploadSource(server, '# waiting');
  await pendingVersion(server, { file_id: waiting });
  await age(23);
  assert.equal(await purgeFiles(server.services), 0);
  await age(25);
  const again = await uploadSource(server, '# unused 7');
  assert.equal(again, unused[7], 'the same content is the same file');
  assert.equal(await purgeFiles(server.services), 45, 'all but the one uploaded again, and the unused modules');
  for (const id of [again, usedModules, waiting]) assert.equal(await isThere(id), true);
  for (const id of [unused[0]!, modules]) assert.equal(await isThere(id), false);
  await age(25);
  assert.equal(await purgeFiles(server.services), 1);
  assert.equal(await isThere(again), false);
});

test('a file that a transaction begins to use meanwhile stays', async () => {
  const { sql } = server.services;
  const file = await uploadSource(server, '# just in time');
  await age(25);
  await sql.begin(async (tx) => {
    await tx`INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input)
      SELECT organization_id, initiator_id, type, ${file}, input FROM provisioner_jobs LIMIT 1`;
    assert.equal(await purgeFiles(server.services), 0);
  });
  assert.equal(await purgeFiles(server.services), 0);
  assert.equal(await isThere(file), true);
});
