import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { finishImport, pendingVersion, startTestServer, type TestServer, takeJob, tarOf } from '@ropewalk/testkit';
import type { CompletedJob_TemplateImportSchema } from '@ropewalk/wire/proto/provisionerd';
import { storeModuleArchive } from './module-files.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

type Found = MessageInitShape<typeof CompletedJob_TemplateImportSchema>;

/** Imports a version with this result and returns what the server stored. */
async function imported(found: Found) {
  const { sql } = server.services;
  const version = await pendingVersion(server);
  await finishImport(server, await takeJob(server), found);
  const { body } = await server.api<{ job: { status: string; error?: string } }>(
    'GET',
    `/templateversions/${version.id}`,
  );
  const [kept] = await sql<{ data: Buffer | null; created_by: string | null }[]>`
    SELECT f.data, f.created_by FROM template_version_terraform_values v LEFT JOIN files f ON f.id = v.module_files_id
    WHERE v.template_version_id = ${version.id}`;
  const logs = await server.api<{ output: string }[]>('GET', `/templateversions/${version.id}/logs`);
  return { job: body.job, kept, log: logs.body.map(({ output }) => output).join('\n') };
}

const startModules = [{ key: 'x', source: '/srv/modules/x', version: '' }];
const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest();
const archive = (text: string) => tarOf({ '.terraform/modules/x/main.tf': text });

test('keeps inline module files without a hash, as upstream daemons send them', async () => {
  const moduleFiles = await archive('# inline');
  const { job, kept } = await imported({ moduleFiles, startModules, plan: Buffer.from('{}') });
  assert.deepEqual([job.status, job.error], ['succeeded', undefined]);
  assert.deepEqual(kept?.data, moduleFiles);
});

test('keeps inline module files with their hash, once for two versions', async () => {
  const moduleFiles = await archive('# hashed');
  for (let turn = 0; turn < 2; turn++) {
    const { job, kept } = await imported({ moduleFiles, moduleFilesHash: sha256(moduleFiles), startModules });
    assert.deepEqual([job.status, job.error], ['succeeded', undefined]);
    assert.deepEqual(kept?.data, moduleFiles);
  }
  const hash = sha256(moduleFiles).toString('hex');
  const [files] = await server.services.sql<{ count: number }[]>`SELECT count(*) FROM files WHERE hash = ${hash}`;
  assert.equal(files?.count, 1);
});

test('finds module files that were uploaded before the result', async () => {
  const data = await archive('# ahead');
  await storeModuleArchive(server.services.sql, data, sha256(data).toString('hex'));
  const { job, kept, log } = await imported({ moduleFilesHash: sha256(data), startModules });
  assert.deepEqual([job.status, job.error], ['succeeded', undefined]);
  assert.deepEqual(kept?.data, data);
  assert.equal(log, '');
});

test('does not use a person’s upload as module files', async () => {
  const data = await archive('# a template');
  const { status } = await server.api('POST', '/files', { raw: { type: 'application/x-tar', data } });
  assert.equal(status, 201);
  const { kept } = await imported({ moduleFilesHash: sha256(data), startModules });
  assert.equal(kept?.data, null);
});

test('imports a template without its module files, with a warning', async () => {
  for (const found of [{ moduleFilesHash: sha256(Buffer.from('nowhere')) }, { startModules }]) {
    const { job, log } = await imported(found);
    assert.deepEqual([job.status, job.error], ['succeeded', undefined]);
    assert.match(log, /did not receive the files of the fetched modules/);
  }
  const { log } = await imported({ startModules: [{ key: 'x', source: './inner', version: '' }] });
  assert.equal(log, '');
});

test('fails an import whose module files do not have the announced hash', async () => {
  const { job } = await imported({ moduleFiles: await archive('# a'), moduleFilesHash: sha256(Buffer.from('b')) });
  assert.equal(job.status, 'failed');
  assert.match(
    job.error ?? '',
    /^The module files have the hash [0-9a-f]{64}, but the daemon announced [0-9a-f]{64}\./,
  );
});

test('fails an import whose plan is not JSON', async () => {
  const { job } = await imported({ plan: Buffer.from('{') });
  assert.match(job.error ?? '', /^The daemon sent a plan that is not JSON: /);
});
