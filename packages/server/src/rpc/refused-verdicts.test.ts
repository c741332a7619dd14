import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { joinDaemon } from './testing/daemons.ts';

const PSK = 'nul test key';
let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK } });
});
after(() => server.stop());

async function joinAs(name: string) {
  const { session, daemon } = await joinDaemon(server, name, { psk: PSK });
  const acquire = daemon.acquireJobWithCancel();
  const version = await pendingVersion(server);
  const { jobId } = (await acquire.receive())!;
  return { session, daemon, jobId, version };
}

test("a job's result waits while the database's disk is full, and a request gets a 503", async () => {
  const { sql } = server.services;
  const { session, daemon, jobId, version } = await joinAs('full');
  // an error of PostgreSQL itself. The sequence counts attempts, because no rollback resets it
  await sql.unsafe(`CREATE SEQUENCE attempts;
    CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM nextval('attempts');
      RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
    END $$;
    CREATE TRIGGER no_room BEFORE UPDATE ON provisioner_jobs FOR EACH ROW EXECUTE FUNCTION no_room()`);
  const done = daemon.completeJob({ jobId, type: { case: 'templateImport', value: {} } });
  done.catch(() => {});
  await eventually('it was tried twice', async () => {
    const [row] = await sql<{ last_value: number }[]>`SELECT last_value FROM attempts`;
    return Number(row!.last_value) >= 2;
  });
  const { status, body } = await server.api<{ message: string }>('PATCH', `/templateversions/${version.id}/cancel`);
  assert.equal(status, 503);
  assert.match(body.message, /disk of the server's database is full/);
  await sql`DROP TRIGGER no_room ON provisioner_jobs`;
  await done;
  await session.close();
});

test('rejects a result that contains NUL, and says what to do', async () => {
  const { session, daemon, jobId } = await joinAs('nul');
  const plan = Buffer.from('{"planned_values":{"outputs":{"a":{"value":"\\u0000"}}}}');
  await assert.rejects(
    daemon.completeJob({ jobId, type: { case: 'templateImport', value: { plan } } }),
    /contains a NUL character .* cannot be stored\. Remove it/,
  );
  await session.close();
});
