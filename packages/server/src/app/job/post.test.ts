import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pendingVersion, startTestServer, type TestServer, takeJob } from '@platform/testkit';
import { eventually } from '@platform/testkit/wait';
import { jobById } from '../../db/queries/jobs.ts';
import { putBackJob } from './post.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('a job that was canceled before its daemon got it ends, and whoever watches it receives that', async () => {
  const { services } = server;
  const version = await pendingVersion(server);
  const { jobId } = await takeJob(server);
  assert.equal((await server.api('PATCH', `/templateversions/${version.id}/cancel`)).status, 200);
  let ended = false;
  const off = services.events.on('job_changed', (event) => {
    if (event.job_id === jobId && event.end) ended = true;
  });
  try {
    const { worker_id, acquire_epoch } = (await jobById(services.sql, jobId))!;
    const job = await putBackJob(services, { jobId, workerId: worker_id!, epoch: acquire_epoch });
    assert.ok(job?.completed_at);
    await eventually('the end was announced', () => ended);
  } finally {
    off();
  }
});
