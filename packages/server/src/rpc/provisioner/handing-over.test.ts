import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pendingVersion, startTestServer, type TestServer, uploadSource } from '@ropewalk/testkit';
import { type LostAnswers, loseAnswers } from '@ropewalk/testkit/lost-answers';
import { eventually } from '@ropewalk/testkit/wait';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { JobControl } from '@ropewalk/wire/proto/platform_provisioner';
import type { Sql } from '../../db/connect.ts';
import { joinDaemon } from '../testing/daemons.ts';

const PSK = 'test key';
let server: TestServer;
let sql: Sql;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK } });
  ({ sql } = server.services);
});
after(() => server.stop());

const join = (name: string) => joinDaemon(server, name, { psk: PSK });

/** The server's database, which goes away during the statement that a message to a daemon needs. */
function breakMessages(isLost: (nth: number) => boolean): LostAnswers {
  const broken = loseAnswers(sql, 'SELECT username FROM users', isLost);
  server.services.sql = broken.sql;
  return broken;
}

test('hands over a job although the database goes away between its acquisition and its message', async () => {
  const { session, daemon } = await join('patient');
  const broken = breakMessages((nth) => nth <= 2);
  try {
    const call = daemon.acquireJobWithCancel();
    const version = await pendingVersion(server);
    assert.equal((await call.receive())?.jobId, version.job.id);
    assert.equal(broken.lost(), 2);
    await daemon.failJob({ jobId: version.job.id, error: 'enough' });
  } finally {
    server.services.sql = sql;
    await session.close();
  }
});

test('puts a job back whose daemon leaves while the database is away', async () => {
  const { session, daemon } = await join('leaver');
  const broken = breakMessages(() => true);
  try {
    void daemon
      .acquireJobWithCancel()
      .receive()
      .catch(() => {});
    const version = await pendingVersion(server);
    await eventually('the job waits for the database', () => broken.lost() > 1);
    await session.close();
    await eventually('it is pending', async () => {
      const [job] = await sql<{ started_at: Date | null }[]>`
        SELECT started_at FROM provisioner_jobs WHERE id = ${version.job.id}`;
      return job!.started_at === null;
    });
    server.services.sql = sql;
    const second = await join('second');
    assert.equal((await second.daemon.acquireJobWithCancel().receive())?.jobId, version.job.id);
    await second.daemon.failJob({ jobId: version.job.id, error: 'enough' });
    await second.session.close();
  } finally {
    server.services.sql = sql;
  }
});

/** What a server that was killed left: it took the job for a daemon of ours and had not sent it yet. */
async function takenFor(daemonName: string, jobId: string, isReported = false): Promise<void> {
  const taken = await sql`UPDATE provisioner_jobs SET started_at = now(), acquire_epoch = acquire_epoch + 1,
      lease_expires_at = now() + interval '90 seconds', unconfirmed = ${!isReported},
      worker_id = (SELECT id FROM provisioner_daemons WHERE name = ${daemonName})
    WHERE id = ${jobId} RETURNING 1`;
  assert.equal(taken.length, 1);
}

test('a daemon of ours that comes back and asks for a job gives back the one that never reached it', {
  timeout: 30_000,
}, async () => {
  const first = await joinDaemon(server, 'returner', { psk: PSK, ours: true });
  await eventually('the daemon is known', async () => {
    const rows = await sql`SELECT FROM provisioner_daemons WHERE name = 'returner'`;
    return rows.length === 1;
  });
  await first.session.close();
  const lost = await pendingVersion(server);
  await takenFor('returner', lost.job.id);
  const reported = await pendingVersion(server);
  await takenFor('returner', reported.job.id, true);
  const other = await joinDaemon(server, 'another', { psk: PSK, ours: true });
  const control = createDrpcClient(JobControl, () => other.session.openStream());
  const waiting = control.acquire().receive();
  const again = await joinDaemon(server, 'returner', { psk: PSK, ours: true });
  const asking = createDrpcClient(JobControl, () => again.session.openStream()).acquire();
  const got = await Promise.race([waiting, asking.receive()]);
  assert.deepEqual([got?.job?.jobId, got?.epoch], [lost.job.id, 2n]);
  const [kept] = await sql<{ started: boolean; epoch: number }[]>`SELECT started_at IS NOT NULL AS started,
    acquire_epoch AS epoch FROM provisioner_jobs WHERE id = ${reported.job.id}`;
  assert.deepEqual({ ...kept }, { started: true, epoch: 1 }, 'the daemon has begun that one');
  await Promise.all([other.session.close(), again.session.close()]);
  await Promise.allSettled([waiting, asking.receive()]);
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
});

test('fails a job immediately whose message is too big for its daemon', async () => {
  const { session, daemon } = await join('small');
  try {
    const version = await pendingVersion(server, { file_id: await uploadSource(server, `# ${'x'.repeat(5 << 20)}`) });
    await assert.rejects(async () => (await daemon.acquireJobWithCancel().receive()) ?? {}, /payload was too big/);
    const { body } = await server.api<{ job: { status: string; error: string } }>(
      'GET',
      `/templateversions/${version.id}`,
    );
    assert.equal(body.job.status, 'failed');
    assert.match(body.job.error, /^The job could not be handed to a daemon: payload was too big/);
  } finally {
    await session.close();
  }
});

test('fails a job whose data the database cannot read, instead of handing it over for ever', async () => {
  const version = await pendingVersion(server);
  await sql.unsafe(`CREATE FUNCTION damaged() RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN
      RAISE EXCEPTION 'missing chunk number 0 for toast value' USING ERRCODE = 'XX000';
    END $$;
    ALTER TABLE files RENAME TO readable_files;
    CREATE VIEW files AS SELECT id, hash, mimetype, created_by, created_at, required_version, damaged() AS data
      FROM readable_files`);
  const { session, daemon } = await join('reader');
  try {
    await assert.rejects(async () => (await daemon.acquireJobWithCancel().receive()) ?? {});
    const { body } = await server.api<{ job: { status: string; error: string } }>(
      'GET',
      `/templateversions/${version.id}`,
    );
    assert.equal(body.job.status, 'failed');
    assert.match(body.job.error, /^The job could not be handed to a daemon: /);
    assert.doesNotMatch(body.job.error, /toast/);
  } finally {
    await session.close();
    await sql.unsafe('DROP VIEW files; ALTER TABLE readable_files RENAME TO files; DROP FUNCTION damaged');
    await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
  }
});
