import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ProvisionerDaemon, ProvisionerJob } from '@ropewalk/contract';
import {
  createTestTemplate,
  failTaken,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
} from '@ropewalk/testkit';
import { verifiedDaemon } from '../../authz/proofs.ts';
import { BUILT_IN_KEY_ID, PSK_KEY_ID } from '../../db/queries/daemons.ts';
import { acquireJob } from '../../db/queries/job-queue.ts';
import { insertDaemon } from '../job/testing/daemons.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const UNTAGGED = { scope: 'organization', owner: '' };

const daemon = (name: string, keyId: string, tags: Record<string, string>) =>
  insertDaemon(server, name, tags, { key_id: keyId, version: 'v1.0.0' });

const daemons = async (query = '') =>
  (await server.api<ProvisionerDaemon[]>('GET', `/organizations/default/provisionerdaemons${query}`)).body;
const jobs = async (query = '') =>
  (await server.api<ProvisionerJob[]>('GET', `/organizations/default/provisionerjobs${query}`)).body;
const names = (list: { name: string }[]) => list.map(({ name }) => name).sort();

test('shows what each daemon does, and which jobs wait in which place', async () => {
  const { sql } = server.services;
  const template = await createTestTemplate(server, 'worked');
  const plain = await daemon('plain', BUILT_IN_KEY_ID, UNTAGGED);
  const gpu = await daemon('gpu', PSK_KEY_ID, { ...UNTAGGED, gpu: 'yes' });
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '1 hour' WHERE id = ${gpu.id}`;
  const [one, two, tagged] = [
    await pendingVersion(server, { template_id: template.id }),
    await pendingVersion(server),
    await pendingVersion(server, { tags: { gpu: 'yes' } }),
  ];
  const take = () =>
    acquireJob(sql, {
      worker: verifiedDaemon({
        id: plain.id,
        organizationId: plain.organization_id,
        provisioners: ['terraform'],
        tags: UNTAGGED,
      }),
      leaseMs: 60_000,
    });
  const first = (await take())!;
  assert.equal(first.id, one.job.id);

  const listed = await daemons();
  assert.deepEqual(names(listed), ['gpu', 'plain']);
  const busy = listed.find(({ name }) => name === 'plain')!;
  assert.deepEqual([busy.status, busy.key_name], ['busy', 'built-in']);
  assert.equal(busy.current_job!.id, one.job.id);
  assert.equal(busy.current_job!.template_name, 'worked');
  assert.equal(busy.previous_job, null);
  assert.deepEqual(names(await daemons('?status=offline')), ['gpu']);
  // upstream's newer dashboard always says whether it shows them
  const off = 'ids=&tags=&limit=100&offline';
  assert.deepEqual(names(await daemons(`?${off}=false`)), ['plain']);
  assert.deepEqual(names(await daemons(`?${off}=false&status=offline`)), ['gpu']);
  assert.deepEqual(names(await daemons(`?${off}=true`)), ['gpu', 'plain']);
  assert.deepEqual(names(await daemons(`?${off}=true&status=busy`)), ['gpu', 'plain']);
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '2 hours' WHERE id = ${gpu.id}`;
  assert.deepEqual(names(await daemons('?max_age=1h0m0s')), ['plain']);
  assert.deepEqual(names(await daemons('?max_age=3h')), ['gpu', 'plain']);
  assert.deepEqual(names(await daemons(`?ids=${plain.id}`)), ['plain']);
  assert.deepEqual(names(await daemons(`?tags=${encodeURIComponent('{"gpu":"yes"}')}`)), ['gpu']);
  assert.equal((await daemons('?limit=1')).length, 1);

  const waiting = await jobs('?status=pending');
  assert.deepEqual(
    waiting.map(({ id, queue_position, queue_size }) => [id, queue_position, queue_size]),
    [
      // the first round of its kind, which comes before the second round of the other
      [tagged.job.id, 1, 2],
      [two.job.id, 2, 2],
    ],
  );
  assert.deepEqual(
    waiting.map(({ available_workers }) => available_workers),
    [[gpu.id], [plain.id]],
  );
  const running = (await jobs('?status=running,canceling'))[0]!;
  assert.deepEqual([running.id, running.worker_name, running.queue_position], [one.job.id, 'plain', 0]);
  assert.equal(running.metadata.template_name, 'worked');
  assert.deepEqual(
    (await jobs(`?tags=${encodeURIComponent('{"gpu":"yes"}')}`)).map(({ id }) => id),
    [tagged.job.id],
  );
  const single = await server.api<ProvisionerJob>('GET', `/organizations/default/provisionerjobs/${two.job.id}`);
  assert.equal(single.body.queue_position, 2);
  assert.equal(single.body.input.template_version_id, two.id);

  await failTaken(
    server,
    verifiedDaemon({ jobId: first.id, workerId: plain.id, epoch: first.acquire_epoch }),
    'broken',
  );
  const idle = (await daemons(`?ids=${plain.id}`))[0]!;
  assert.deepEqual([idle.status, idle.current_job], ['idle', null]);
  assert.deepEqual([idle.previous_job!.id, idle.previous_job!.status], [one.job.id, 'failed']);
});

test('rejects wrong filters, and shows members no queue', async () => {
  const wrong = ['limit=-1', 'ids=x', 'status=sleepy', 'tags=x', 'tags=[]', 'tags={"a":1}', 'colour=red'];
  for (const list of ['provisionerdaemons', 'provisionerjobs']) {
    for (const query of wrong) {
      const { status } = await server.api('GET', `/organizations/default/${list}?${query}`);
      assert.equal(status, 400, `${list} ${query}`);
    }
  }
  assert.equal((await server.api('GET', '/organizations/default/provisionerjobs?initiator=me')).status, 400);
  for (const query of ['offline=perhaps', 'max_age=soon', 'max_age=-1s']) {
    const { status } = await server.api('GET', `/organizations/default/provisionerdaemons?${query}`);
    assert.equal(status, 400, query);
  }
  const member = await insertPerson(server, 'member');
  const author = await insertPerson(server, 'author', ['template-admin']);
  const status = async (path: string, token: string) =>
    (await server.api('GET', `/organizations/default/${path}`, { token })).status;
  assert.equal(await status('provisionerjobs', member.token), 404);
  assert.equal(await status('provisionerdaemons', member.token), 404);
  assert.equal(await status('provisionerjobs', author.token), 200);
  assert.equal(await status(`provisionerjobs/${crypto.randomUUID()}`, author.token), 404);
  assert.equal(await status('provisionerjobs/nonsense', author.token), 400);
});
