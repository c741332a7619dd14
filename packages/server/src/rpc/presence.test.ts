import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ProvisionerDaemon, TemplateVersion } from '@ropewalk/contract';
import { eventually, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { verifiedDaemon } from '../authz/proofs.ts';
import { touchDaemons } from '../db/queries/daemons.ts';
import { joinDaemon } from './testing/daemons.ts';

const PSK = 'a pre-shared key';
let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK } });
});
after(() => server.stop());

const join = async () => (await joinDaemon(server, 'visitor', { psk: PSK, tags: ['zone=a'] })).session;

const status = async () =>
  (await server.api<ProvisionerDaemon[]>('GET', '/organizations/default/provisionerdaemons')).body.find(
    ({ name }) => name === 'visitor',
  )?.status;

const connectionId = async () =>
  (
    await server.services.sql<{ id: string }[]>`
    SELECT connection_id AS id FROM provisioner_daemons WHERE name = 'visitor' AND disconnected_at IS NULL`
  )[0]?.id;

test('shows a disconnected daemon as offline immediately, and expects no job to start on it', async () => {
  const version = await pendingVersion(server, { tags: { zone: 'a' } });
  const reason = async () =>
    (await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`)).body.job.pending_reason?.reason;
  const soon = (what: string, look: () => Promise<boolean>) => eventually(what, look, 5_000);

  const first = await join();
  await soon('it is there', async () => (await status()) === 'idle' && (await reason()) === 'starting');
  // the same daemon comes back before its old connection has ended
  const second = await join();
  await first.close();
  await soon('the first has ended', async () => first.isClosed && (await status()) === 'idle');
  // the old process of a daemon comes back last, delivers its job, and leaves before the new one
  const before = await connectionId();
  const old = await join();
  await soon('the old one is its newest connection', async () => ![undefined, before].includes(await connectionId()));
  const newest = await connectionId();
  await old.close();
  await soon('another one is', async () => old.isClosed && (await connectionId()) !== newest);
  assert.equal(await status(), 'idle');
  assert.equal(await reason(), 'starting');
  await second.close();
  await soon(
    'it is offline',
    async () => (await status()) === 'offline' && (await reason()) === 'provisioners_offline',
  );
  const third = await join();
  await soon('it is back', async () => (await status()) === 'idle' && (await reason()) === 'starting');
  await third.close();
  assert.ok(third.isClosed);
});

test('shows a daemon with a live connection as online, whatever its row says', async () => {
  const { sql } = server.services;
  const session = await join();
  await eventually('it is there', async () => (await status()) === 'idle', 5_000);
  const [row] = await sql<
    { daemonId: string; connectionId: string }[]
  >`SELECT id AS "daemonId", connection_id AS "connectionId"
    FROM provisioner_daemons WHERE name = 'visitor'`;
  // as if another server had stored the end of a newer connection
  const wrong = (ago: string) => sql`UPDATE provisioner_daemons
    SET connection_id = gen_random_uuid(), disconnected_at = now() - ${ago}::interval WHERE name = 'visitor'`;
  // a little later than now, because this test may pause
  await wrong('-1 minute');
  await touchDaemons(sql, [verifiedDaemon(row!)]);
  assert.equal(await status(), 'offline', 'what goes just now stays gone');
  await wrong('3 s');
  await touchDaemons(sql, [verifiedDaemon(row!)]);
  assert.equal(await status(), 'idle');
  await session.close();
  await eventually('it is offline', async () => (await status()) === 'offline', 5_000);
});
