import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pendingVersion, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { verifiedDaemon } from '../../authz/proofs.ts';
import { ownershipOf } from '../../db/queries/job-ownership.ts';
import { putBackForEngine, putBackJob } from './post.ts';
import { becomes, insertDaemon, reported, tagged, takeWith } from './testing/daemons.ts';
import { forgetDaemonGroups } from './waiting.ts';

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

test('an import whose fetched module requires another version goes back to the queue for it, at most three times', async () => {
  const { services } = server;
  const tags = tagged({ stricter: 'yes' });
  const older = await insertDaemon(server, 'stricter-older', tags, reported('terraform 1.9.8'));
  const newer = await insertDaemon(server, 'stricter-newer', tags, reported('terraform 1.12.2'));
  forgetDaemonGroups(services);
  const ownedBy = (row: { id: string }, epoch: number) =>
    ownershipOf(verifiedDaemon({ id: row.id }), version.job.id, epoch);
  const version = await pendingVersion(server, { tags: { stricter: 'yes' } });
  assert.equal((await takeWith(server, older, 'terraform 1.9.8'))?.acquire_epoch, 1);
  const own = ownedBy(older, 1);
  await assert.rejects(putBackForEngine(services, own, '>= 1,'.repeat(1_000)), /more than 4096 characters/);
  assert.equal(await putBackForEngine(services, own, '>= 2, < 1'), false, 'no version satisfies it');
  assert.equal(await putBackForEngine(services, ownedBy(newer, 1), '>= 1.10'), false, 'the job of another daemon');
  assert.equal(await putBackForEngine(services, own, '>= 1.13'), true);
  assert.equal(await putBackForEngine(services, own, '>= 1.13'), false, 'it has no owner now');
  const reason = (await becomes(server, version, 'no_matching_provisioners'))!;
  assert.match(reason.message, /The template requires Terraform >= 1\.13\. .* stricter-newer has terraform 1\.12\.2/);
  assert.equal(await takeWith(server, older, 'terraform 1.9.8'), undefined);
  assert.equal(await takeWith(server, newer, 'terraform 1.12.2'), undefined);
  assert.equal((await takeWith(server, newer, 'terraform 1.13.1'))?.acquire_epoch, 2);
  assert.equal(await putBackForEngine(services, ownedBy(newer, 2), '>= 1.14'), true);
  assert.equal((await takeWith(server, newer, 'terraform 1.14.0'))?.acquire_epoch, 3);
  assert.equal(await putBackForEngine(services, ownedBy(newer, 3), '>= 1.15'), false, 'the third time');
  const { body: logs } = await server.api<{ output: string }[]>('GET', `/templateversions/${version.id}/logs`);
  assert.deepEqual(
    logs.map(({ output }) => output),
    ['>= 1.13', '>= 1.14'].map(
      (wanted) => `The job goes back to the queue, for a provisioner daemon with Terraform ${wanted}.`,
    ),
  );
});
