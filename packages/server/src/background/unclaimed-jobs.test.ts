import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TemplateVersion } from '@ropewalk/contract';
import { eventually, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { insertDaemon, tagged } from '../app/job/testing/daemons.ts';
import { forgetDaemonGroups } from '../app/job/waiting.ts';
import { endUnclaimedJobs } from './unclaimed-jobs.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('a job that no daemon could take fails with the reason after the limit; one in a queue goes on waiting', async () => {
  const { services } = server;
  const { sql } = services;
  const busy = await insertDaemon(server, 'busy', tagged({ zone: 'a' }));
  const working = await pendingVersion(server, { tags: { zone: 'a' } });
  await sql`UPDATE provisioner_jobs SET started_at = now(), worker_id = ${busy.id} WHERE id = ${working.job.id}`;
  const queued = await pendingVersion(server, { tags: { zone: 'a' } });
  const lost = await pendingVersion(server, { tags: { zone: 'b' } });
  forgetDaemonGroups(services);
  assert.equal(await endUnclaimedJobs(services), 0);
  await sql`UPDATE provisioner_jobs SET updated_at = now() - interval '31 minutes' WHERE started_at IS NULL`;
  const fresh = await pendingVersion(server, { tags: { zone: 'b' } });
  assert.equal(await endUnclaimedJobs(services), 1);
  const jobOf = async (version: TemplateVersion) =>
    (await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`)).body.job;
  const failed = await jobOf(lost);
  assert.equal(failed.status, 'failed');
  assert.match(failed.error!, /for 30 minutes\. No provisioner daemon has its tags \(zone=b\).*nearest is busy/);
  for (const version of [queued, fresh]) assert.equal((await jobOf(version)).status, 'pending');
});

test('background tasks that run take no connection of the pool that requests use', async () => {
  const { sql } = server.services;
  const busy = await sql.begin(async (tx) => {
    // the tasks that look at workspaces wait
    await tx`LOCK TABLE workspaces IN ACCESS EXCLUSIVE MODE`;
    return eventually('a task holds its lock', async () => {
      const rows = await tx<{ name: string }[]>`SELECT a.application_name AS name FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.pid IN
          (SELECT l.pid FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted)`;
      return rows.length > 0 && rows;
    });
  });
  assert.deepEqual([...new Set(busy.map(({ name }) => name))], ['coderd-locks']);
});
