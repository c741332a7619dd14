import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TemplateVersion } from '@platform/contract';
import { pendingVersion, startTestServer, type TestServer, takeJob } from '@platform/testkit';
import { lostJobsTask } from './lost-jobs.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_FORCE_CANCEL_INTERVAL: '2m' } });
});
after(() => server.stop());

test('a canceled job that does not end is canceled by force after the interval', async () => {
  const { sql } = server.services;
  const version = await pendingVersion(server);
  const { jobId } = await takeJob(server);
  assert.equal(jobId, version.job.id);
  assert.equal((await server.api('PATCH', `/templateversions/${version.id}/cancel`)).status, 200);
  const status = async () =>
    (await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`)).body.job.status;
  const task = lostJobsTask(server.services);
  const sweep = () => task.run(AbortSignal.timeout(10_000));
  await sql`UPDATE provisioner_jobs SET canceled_at = now() - interval '1 minute' WHERE id = ${jobId}`;
  await sweep();
  assert.equal(await status(), 'canceling');
  await sql`UPDATE provisioner_jobs SET canceled_at = now() - interval '3 minutes' WHERE id = ${jobId}`;
  await sweep();
  assert.equal(await status(), 'canceled');
});

test('an error that persists keeps no lost job alive', async () => {
  const { services } = server;
  const { sql } = services;
  const first = await pendingVersion(server);
  const taken = await takeJob(server);
  const task = lostJobsTask(services);
  await task.run(AbortSignal.timeout(10_000));
  // the database answers, and rejects one statement of each run
  await sql`ALTER TABLE provisioner_jobs RENAME COLUMN background TO hidden`;
  try {
    await assert.rejects(task.run(AbortSignal.timeout(10_000)), /background/);
    await sql`UPDATE provisioner_jobs SET lease_expires_at = now() - interval '1 second' WHERE id = ${taken.jobId}`;
    await assert.rejects(task.run(AbortSignal.timeout(10_000)), /background/);
  } finally {
    await sql`ALTER TABLE provisioner_jobs RENAME COLUMN hidden TO background`;
  }
  const [job] = await sql<
    { worker_id: string | null }[]
  >`SELECT worker_id FROM provisioner_jobs WHERE id = ${taken.jobId}`;
  assert.equal(job!.worker_id, null, 'the lost job is back in the queue');
  assert.equal(first.job.id, taken.jobId);
});
