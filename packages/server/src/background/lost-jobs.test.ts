import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TemplateVersion } from '@platform/contract';
import { pendingVersion, startTestServer, type TestServer, takeJob } from '@platform/testkit';
import { startLostJobsSweep } from './lost-jobs.ts';

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
  const sweeper = await startLostJobsSweep(server.services);
  try {
    await sql`UPDATE provisioner_jobs SET canceled_at = now() - interval '1 minute' WHERE id = ${jobId}`;
    await sweeper.sweep();
    assert.equal(await status(), 'canceling');
    await sql`UPDATE provisioner_jobs SET canceled_at = now() - interval '3 minutes' WHERE id = ${jobId}`;
    await sweeper.sweep();
    assert.equal(await status(), 'canceled');
  } finally {
    sweeper.close();
  }
});
