import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { finishImport, pendingVersion, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { FrozenVersionSchema } from '@ropewalk/wire/proto/platform_provisioner';
import { systemTask } from '../../authz/proofs.ts';
import { deleteUnreferencedFiles } from '../../db/queries/files.ts';
import { frozenIdOf } from '../../db/queries/frozen-versions.ts';
import { systemContext } from '../context/context.ts';
import { frozenFile, frozenOf, keepFrozen } from './frozen.ts';
import { storeModuleArchive } from './module-files.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const CHECKSUM = `h1:${Buffer.alloc(32, 1).toString('base64')}`;
const archive = Buffer.from('an archive');
const hash = createHash('sha256').update(archive).digest();

const frozen = (fileHash: Uint8Array = new Uint8Array(), more: MessageInitShape<typeof FrozenVersionSchema> = {}) =>
  create(FrozenVersionSchema, {
    id: 'a'.repeat(64),
    platform: 'linux_amd64',
    engine: 'terraform',
    attached: true,
    lockFile: Buffer.from('# lock'),
    packages: [{ address: 'host/acme/thing', version: '1.0.0', checksum: CHECKSUM, fileHash }],
    ...more,
  });

async function bytesOf(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(piece);
  return Buffer.concat(parts);
}

test('keeps what an import has fixed, asks for a package once, and gives it to the owner of a job', async () => {
  const { services } = server;
  const { sql } = services;
  const version = await pendingVersion(server);
  const job = await takeJob(server);
  assert.deepEqual(await keepFrozen(services, job, frozen()), [CHECKSUM]);
  await storeModuleArchive(sql, archive, hash.toString('hex'));
  assert.deepEqual(await keepFrozen(services, job, frozen(hash)), []);
  assert.deepEqual(await bytesOf(frozenFile(services, job, hash.toString('hex'))), archive);
  await assert.rejects(bytesOf(frozenFile(services, job, 'b'.repeat(64))), /no file with the SHA-256 bbbb/);
  const other = { ...job, epoch: job.epoch + 1 };
  await assert.rejects(keepFrozen(services, other, frozen(hash)), /you don't own this job/);
  await assert.rejects(frozenOf(services, other), /you don't own this job/);
  await finishImport(server, job);
  await assert.rejects(keepFrozen(services, job, frozen(hash)), /job already completed/);

  // another version with the same package
  await pendingVersion(server);
  const next = await takeJob(server);
  assert.deepEqual(await keepFrozen(services, next, frozen()), []);
  assert.deepEqual((await frozenOf(services, next)).packages?.[0]?.fileHash, hash);
  await assert.rejects(keepFrozen(services, next, frozen(hash, { id: 'x' })), /must be a SHA-256 in hex/);
  const wrong = { packages: [{ address: 'a/b/c', version: '1', checksum: 'zh:1' }] };
  await assert.rejects(keepFrozen(services, next, frozen(hash, wrong)), /a\/b\/c has no checksum of the form/);
  for (const names of [
    { address: '../../../b/c', version: '1.0.0' },
    { address: 'host/acme/..', version: '1.0.0' },
    { address: 'host/acme', version: '1.0.0' },
    { address: 'host/acme/thing', version: '../../../../1' },
    { address: 'host/acme/thing', version: '' },
  ]) {
    const odd = { packages: [{ ...names, checksum: CHECKSUM }] };
    await assert.rejects(keepFrozen(services, next, frozen(hash, odd)), /does not have the names of a provider/);
  }
  await assert.rejects(keepFrozen(services, next, frozen(hash, { platform: '../..' })), /names of a provider/);
  await finishImport(server, next);

  const dryRun = await server.api('POST', `/templateversions/${version.id}/dry-run`, { body: {} });
  assert.equal(dryRun.status, 201);
  const plan = await takeJob(server);
  assert.equal(await frozenIdOf(sql, plan.job), 'a'.repeat(64));
  await assert.rejects(keepFrozen(services, plan, frozen(hash)), /Only an import job can store providers/);

  await sql`UPDATE files SET created_at = now() - interval '1 year'`;
  const task = systemTask(systemContext(services, 'purge'));
  await deleteUnreferencedFiles(sql, task, { hours: 1, most: 100 });
  assert.deepEqual(await bytesOf(frozenFile(services, plan, hash.toString('hex'))), archive);
});

test('keeps a large package in several files, and gives them in their order', async () => {
  const { services } = server;
  const { sql } = services;
  const parts = ['first', 'second', 'third'].map((text) => Buffer.from(text));
  const hashes = parts.map((part) => createHash('sha256').update(part).digest());
  const checksum = `h1:${Buffer.alloc(32, 2).toString('base64')}`;
  const [fileHash, ...moreHashes] = hashes;
  const inParts = (more: Buffer[] = moreHashes) =>
    frozen(undefined, {
      packages: [{ address: 'host/acme/large', version: '1.0.0', checksum, fileHash: fileHash!, moreHashes: more }],
    });
  await pendingVersion(server);
  const job = await takeJob(server);
  for (const [i, part] of parts.entries()) {
    assert.deepEqual(await keepFrozen(services, job, inParts()), [checksum], `${i} parts are uploaded`);
    await storeModuleArchive(sql, part, hashes[i]!.toString('hex'));
  }
  assert.deepEqual(await keepFrozen(services, job, inParts()), []);
  await assert.rejects(
    keepFrozen(services, job, inParts(Array<Buffer>(1_000).fill(hashes[1]!))),
    /has more than 1000 parts/,
  );
  await finishImport(server, job);

  // another version with the same package, whose daemon uploads nothing
  await pendingVersion(server);
  const next = await takeJob(server);
  const known = frozen(undefined, { packages: [{ address: 'host/acme/large', version: '1.0.0', checksum }] });
  assert.deepEqual(await keepFrozen(services, next, known), []);
  await sql`UPDATE files SET created_at = now() - interval '1 year'`;
  const task = systemTask(systemContext(services, 'purge'));
  await deleteUnreferencedFiles(sql, task, { hours: 1, most: 100 });
  const [stored] = (await frozenOf(services, next)).packages!;
  assert.deepEqual([stored!.fileHash, ...stored!.moreHashes], hashes);
  assert.equal(stored!.fileSize, 16n);
  for (const [i, hash] of hashes.entries())
    assert.deepEqual(await bytesOf(frozenFile(services, next, hash.toString('hex'))), parts[i]);
  await finishImport(server, next);
});
