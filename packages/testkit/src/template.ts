import assert from 'node:assert/strict';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { Template, TemplateVersion } from '@ropewalk/contract';
import { writeTar } from '@ropewalk/server/app/evaluate/archive';
import { completeJob, failJob } from '@ropewalk/server/app/job/complete';
import { verifiedDaemon } from '@ropewalk/server/authz/proofs';
import type { Owned, Ownership } from '@ropewalk/server/db/owned';
import { ownershipOf } from '@ropewalk/server/db/queries/job-ownership';
import { acquireJob } from '@ropewalk/server/db/queries/job-queue';
import type { JobRow } from '@ropewalk/server/db/rows';
import {
  type CompletedJob_TemplateImportSchema,
  CompletedJobSchema,
  FailedJobSchema,
} from '@ropewalk/wire/proto/provisionerd';
import type { TestServer } from './server.ts';

/** Creates a tar of these files. */
export async function tarOf(files: Record<string, string>): Promise<Buffer> {
  return writeTar(Object.entries(files).map(([path, text]) => ({ path, data: Buffer.from(text), mode: 0o644 })));
}

/** Uploads an archive of one main.tf and returns the file's id. */
export async function uploadSource(server: TestServer, text = '# nothing', token?: string): Promise<string> {
  const { status, body } = await server.api<{ hash: string }>('POST', '/files', {
    ...(token ? { token } : {}),
    raw: { type: 'application/x-tar', data: await tarOf({ 'main.tf': text }) },
  });
  assert.ok(status === 201 || status === 200, JSON.stringify(body));
  return body.hash;
}

/** Creates a version whose import waits for a daemon. */
export async function pendingVersion(
  server: TestServer,
  input: Record<string, unknown> = {},
): Promise<TemplateVersion> {
  const { status, body } = await server.api<TemplateVersion>('POST', '/organizations/default/templateversions', {
    body: { file_id: await uploadSource(server), storage_method: 'file', provisioner: 'terraform', ...input },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}

/** A job and its ownership, as the daemon that took it holds them. */
export type TakenJob = Ownership & { job: Owned<JobRow> };

/**
 * Takes the oldest waiting job with these tags for a new daemon. `confirms`: the daemon must confirm that it received the
 * job, as this project's daemons do. Fails if no job waits.
 */
export async function takeJob(
  { services: { sql } }: TestServer,
  tags?: Record<string, string>,
  { confirms = false, provisioners = ['terraform'] } = {},
): Promise<TakenJob> {
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const worker = verifiedDaemon({
    id: crypto.randomUUID(),
    organizationId: organization!.id,
    provisioners,
    tags: tags ?? { scope: 'organization', owner: '' },
    confirms,
  });
  const job = await acquireJob(sql, {
    worker,
    leaseMs: 60_000,
  });
  assert.ok(job, 'no job waits');
  return { ...ownershipOf(worker, job.id, job.acquire_epoch), job };
}

/** Completes an import with these results, as a daemon does. */
export async function finishImport(
  server: TestServer,
  own: Ownership,
  found: MessageInitShape<typeof CompletedJob_TemplateImportSchema> = {},
): Promise<void> {
  const done = create(CompletedJobSchema, { jobId: own.jobId, type: { case: 'templateImport', value: found } });
  await completeJob(server.services, own, done);
}

/** Fails a job, as a daemon does. */
export async function failTaken(server: TestServer, own: Ownership, error: string): Promise<void> {
  await failJob(server.services, own, create(FailedJobSchema, { jobId: own.jobId, error }));
}

/** Creates a version and completes its import. No other job may wait. */
export async function importedVersion(
  server: TestServer,
  input: Record<string, unknown> = {},
  found: MessageInitShape<typeof CompletedJob_TemplateImportSchema> = {},
): Promise<TemplateVersion> {
  const version = await pendingVersion(server, input);
  await finishImport(server, await takeJob(server), found);
  return version;
}

/**
 * Creates a template in the default organization. `found` is what its import finds, and `source` is the text of main.tf.
 * No other job may wait.
 */
export async function createTestTemplate(
  server: TestServer,
  name: string,
  found: MessageInitShape<typeof CompletedJob_TemplateImportSchema> = {},
  source?: string,
): Promise<Template> {
  const version = await importedVersion(server, { file_id: await uploadSource(server, source) }, found);
  const { status, body } = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name, template_version_id: version.id },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}
