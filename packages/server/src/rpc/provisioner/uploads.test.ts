import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { eventually, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { READ_ONLY } from '../../db/connect.ts';
import { joinDaemon } from '../testing/daemons.ts';

// An upstream daemon sends module files once, and its job fails with the upload.

const MIB = 1024 * 1024;

/** A daemon of a member, which has a job. */
async function working(server: TestServer, name: string) {
  const joined = await joinDaemon(server, name, { token: server.adminToken, tags: ['scope=user'] });
  const acquire = joined.daemon.acquireJobWithCancel();
  await pendingVersion(server, { tags: { scope: 'user' } });
  assert.ok((await acquire.receive())?.jobId);
  return joined;
}

/** Uploads pieces of 1 MiB that begin with this text. Resolves with the server's answer. */
async function upload({ daemon }: Awaited<ReturnType<typeof working>>, text: string, pieces: number) {
  const data = Buffer.alloc(pieces * MIB);
  data.write(text);
  const dataHash = createHash('sha256').update(data).digest();
  const call = daemon.uploadFile();
  try {
    const announced = { dataHash, fileSize: BigInt(data.length), chunks: pieces };
    await call.send({ type: { case: 'dataUpload', value: announced } });
    for (let pieceIndex = 0; pieceIndex < pieces; pieceIndex++) {
      const piece = data.subarray(pieceIndex * MIB, (pieceIndex + 1) * MIB);
      await call.send({ type: { case: 'chunkPiece', value: { pieceIndex, data: piece } } });
    }
  } catch {
    // the answer has the reason
  }
  const answer = call.receive();
  answer.catch(() => {});
  return { hash: dataHash.toString('hex'), answer, leave: () => call.cancel() };
}

test('an upload waits while the database fails, and holds its budget meanwhile', async (t) => {
  const server = await startTestServer();
  t.after(() => server.stop());
  const { sql } = server.services;
  const [first, second] = [await working(server, 'first'), await working(server, 'second')];
  // no rollback resets the sequence
  await sql.unsafe(`CREATE SEQUENCE faults;
    CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM nextval('faults');
      RAISE EXCEPTION 'injected' USING ERRCODE = '${READ_ONLY}';
    END $$;
    CREATE TRIGGER fault BEFORE INSERT ON files FOR EACH ROW EXECUTE FUNCTION fault()`);
  const faults = async () =>
    Number((await sql<{ last_value: number }[]>`SELECT last_value FROM faults`)[0]!.last_value);

  const waiting = await upload(first, 'waits', 20);
  await eventually('the server has tried twice', async () => (await faults()) >= 2);
  // two such uploads exceed the budget of their person
  const refused = await upload(second, 'too much', 20);
  await assert.rejects(refused.answer, /exceed \d+ bytes together/);
  await sql`DROP TRIGGER fault ON files`;
  assert.ok(await waiting.answer);
  const stored = await sql`SELECT id FROM files WHERE hash = ${waiting.hash}`;
  assert.equal(stored.length, 1);

  // the budget is free again, and the same file may come again
  const again = await upload(second, 'waits', 20);
  assert.ok(await again.answer);
  assert.equal((await sql`SELECT id FROM files WHERE hash = ${waiting.hash}`).length, 1);
});

test('an upload whose caller has left holds up neither the next one nor its budget', async (t) => {
  const server = await startTestServer();
  t.after(() => server.stop());
  const { sql } = server.services;
  const daemon = await working(server, 'leaves');
  // a database that hangs, as in a failover
  const lock = await sql.reserve();
  await lock`BEGIN`;
  await lock`LOCK TABLE files IN ACCESS EXCLUSIVE MODE`;
  const left = await upload(daemon, 'left', 1);
  const isWaiting = async () => {
    const [row] = await sql<{ n: number }[]>`SELECT count(*)::int AS n FROM pg_locks WHERE NOT granted`;
    return row!.n > 0;
  };
  await eventually('the statement waits', isWaiting);
  left.leave();
  await assert.rejects(left.answer);
  await daemon.session.ping();
  const next = await upload(daemon, 'next', 1);
  await lock`ROLLBACK`;
  lock.release();
  assert.ok(await next.answer);
});
