import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pendingVersion, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { putBackJob } from './post.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('a job that was canceled before its daemon received it ends, and its watchers are notified', async () => {
  const { services } = server;
  const version = await pendingVersion(server);
  const own = await takeJob(server);
  assert.equal((await server.api('PATCH', `/templateversions/${version.id}/cancel`)).status, 200);
  let ended = false;
  const off = services.events.on('job_changed', (event) => {
    if (event.job_id === own.jobId && event.end) ended = true;
  });
  try {
    const job = await putBackJob(services, own);
    assert.ok(job?.completed_at);
    await eventually('the end was announced', () => ended);
  } finally {
    off();
  }
});
