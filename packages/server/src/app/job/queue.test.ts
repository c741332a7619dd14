import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pendingVersion, startTestServer, type TestServer } from '@platform/testkit';
import { createJobQueue } from './queue.ts';
import { UNTAGGED } from './tags.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const worker = (id: string) => ({ id, organizationId: '', provisioners: ['terraform'], tags: { ...UNTAGGED } });

test('a waiting worker gets a job within moments of its posting; one that left gets none, and none is lost', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const queue = createJobQueue(server.services);
  const next = (id: string, signal: AbortSignal) =>
    queue.next({ ...worker(id), organizationId: organization!.id }, signal);
  try {
    const leaving = new AbortController();
    const left = next(crypto.randomUUID(), leaving.signal);
    leaving.abort(new Error('gone'));
    await assert.rejects(left, /gone/);
    const version = await pendingVersion(server);
    const started = performance.now();
    const job = await next(crypto.randomUUID(), AbortSignal.timeout(5_000));
    assert.equal(job.id, version.job.id);
    assert.ok(performance.now() - started < 1_000);
    // taken while its waiter leaves: it goes back and the next one has it
    await sql`UPDATE provisioner_jobs SET started_at = NULL, worker_id = NULL WHERE id = ${job.id}`;
    const slow = new AbortController();
    const racing = next(crypto.randomUUID(), slow.signal);
    slow.abort(new Error('gone'));
    await assert.rejects(racing, /gone/);
    const again = await next(crypto.randomUUID(), AbortSignal.timeout(5_000));
    assert.equal(again.id, job.id);
    assert.equal(queue.waiting(organization!.id, UNTAGGED), 0);
  } finally {
    queue.close();
  }
});
