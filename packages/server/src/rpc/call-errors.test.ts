import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { eventually, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { createDrpcClient, type DrpcError } from '@ropewalk/wire/drpc';
import { JOB_ERRORS } from '@ropewalk/wire/job-errors';
import { JobControl } from '@ropewalk/wire/proto/platform_provisioner';
import { INTERNAL_ERROR, READ_ONLY } from '../db/connect.ts';
import { describeCallError } from './call-errors.ts';
import { patient } from './patience.ts';
import { jobErrorCode } from './provisioner/job-errors.ts';
import { joinDaemon } from './testing/daemons.ts';

// What callers receive for errors of the database, and what the log keeps.

const PSK = 'call error key';
const lines: string[] = [];
const log = createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK }, log });
});
after(() => server.stop());

/** Makes each end of a job fail with this error until the returned function is called. */
async function failing(code: string): Promise<() => Promise<unknown>> {
  const { sql } = server.services;
  await sql.unsafe(`CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      RAISE EXCEPTION 'row of table secret_names' USING ERRCODE = '${code}';
    END $$;
    CREATE TRIGGER fault BEFORE UPDATE ON provisioner_jobs FOR EACH ROW
      WHEN (NEW.completed_at IS NOT NULL) EXECUTE FUNCTION fault()`);
  return () => sql.unsafe('DROP TRIGGER fault ON provisioner_jobs; DROP FUNCTION fault');
}

for (const [what, error, code] of [
  ['an unexpected error', 'P0001', JOB_ERRORS.failed],
  ['rejected data', '23514', JOB_ERRORS.rejected],
] as const) {
  for (const ours of [true, false]) {
    test(`${what}: ${ours ? 'a daemon of ours' : 'an upstream daemon'} gets a reference, and the log has the reason`, async () => {
      const { session, daemon } = await joinDaemon(server, `${error}-${ours}`, { psk: PSK, ours });
      const version = await pendingVersion(server);
      const jobId = await acquire(session, daemon, ours);
      const mend = await failing(error);
      let refused: DrpcError | undefined;
      try {
        await daemon.completeJob({ jobId, type: { case: 'templateImport', value: {} } });
      } catch (err) {
        refused = err as DrpcError;
      }
      assert.ok(refused);
      assert.equal(refused.code, ours ? code : 0);
      assert.doesNotMatch(refused.message, /secret_names/);
      const [, reference] = /with the reference ([0-9a-f]{8})\.$/.exec(refused.message)!;
      assert.ok(lines.some((line) => line.includes(reference!) && line.includes('secret_names')));
      const { status, body } = await server.api<{ message: string; detail: string }>(
        'PATCH',
        `/templateversions/${version.id}/cancel`,
      );
      // the cancellation of a running job does not end it
      assert.equal(status, 200, JSON.stringify(body));
      await mend();
      await daemon.failJob({ jobId, error: 'over' });
      await session.close();
    });
  }
}

async function acquire(
  session: Awaited<ReturnType<typeof joinDaemon>>['session'],
  daemon: Awaited<ReturnType<typeof joinDaemon>>['daemon'],
  ours: boolean,
): Promise<string> {
  if (!ours) return (await daemon.acquireJobWithCancel().receive())!.jobId;
  const control = createDrpcClient(JobControl, () => session.openStream());
  const { job } = (await control.acquire().receive())!;
  await daemon.updateJob({ jobId: job!.jobId });
  return job!.jobId;
}

test('a request gets no text of the database either', async () => {
  const { sql } = server.services;
  const version = await pendingVersion(server);
  const mend = await failing('P0001');
  const { status, body } = await server.api<{ message: string; detail: string }>(
    'PATCH',
    `/templateversions/${version.id}/cancel`,
  );
  await mend();
  assert.equal(status, 500);
  assert.equal(body.message, 'An internal server error occurred.');
  const [, reference] = /with the reference ([0-9a-f]{8})\.$/.exec(body.detail)!;
  assert.ok(lines.some((line) => line.includes(reference!) && line.includes('secret_names')));
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
});

test('reports no error when a connection breaks while calls run', async () => {
  const { connection, session, daemon } = await joinDaemon(server, 'breaks', { psk: PSK, ours: true });
  const control = createDrpcClient(JobControl, () => session.openStream());
  const calls = [control.acquire(), control.watch({}), daemon.acquireJobWithCancel()];
  const ends = calls.map((call) => assert.rejects(call.receive()));
  await session.ping();
  const before = lines.length;
  connection.destroy();
  await Promise.all(ends);
  const since = () => lines.slice(before);
  await eventually('the server notices', async () => since().some((line) => line.includes('daemon disconnected')));
  const wrong = since().filter((line) => /\[(warn|error)\]/.test(line));
  assert.deepEqual(wrong, []);
});

test('a daemon that sends malformed bytes gets no text of the decoder', async () => {
  const { session } = await joinDaemon(server, 'garbage', { psk: PSK });
  const { encodePacket, KIND } = await import('@ropewalk/wire/drpc/frames');
  const stream = session.openStream();
  const invoke = encodePacket(KIND.invoke, 1, 1, Buffer.from('/provisionerd.ProvisionerDaemon/UpdateJob'));
  stream.write(Buffer.concat([...invoke, ...encodePacket(KIND.message, 1, 2, Buffer.from([0x0a, 0x7f, 0x01]))]));
  const parts: Buffer[] = [];
  for await (const part of stream) {
    parts.push(part as Buffer);
    if (Buffer.concat(parts).includes('message')) break;
  }
  assert.match(Buffer.concat(parts).toString('latin1'), /The request is not a valid UpdateJobRequest message\./);
  await session.close();
});

test('a call gives up when the database fails for too long, and says so first', async () => {
  let gaveUp = 0;
  const handlers = {
    async finish() {
      throw Object.assign(new Error('read-only'), { code: READ_ONLY });
    },
  };
  const giveUp = () => {
    gaveUp += 1;
  };
  const call = patient(handlers, log, { giveUp, patienceMs: 300 });
  const context = { signal: new AbortController().signal, metadata: {}, endWithClose: () => {} };
  await assert.rejects((call.finish as (...args: unknown[]) => Promise<unknown>)({}, context), { code: READ_ONLY });
  assert.equal(gaveUp, 1);
});

test('a daemon of ours repeats a call that makes PostgreSQL itself fail for a limited time only', async () => {
  const raise = (code: string) =>
    server.services.sql.unsafe(`DO $$ BEGIN RAISE EXCEPTION 'fault' USING ERRCODE = '${code}'; END $$`).then(
      () => assert.fail('it succeeded'),
      (err: unknown) => describeCallError(log, jobErrorCode)(err, 'finish').code,
    );
  assert.equal(await raise(INTERNAL_ERROR), JOB_ERRORS.failed);
  assert.equal(await raise(READ_ONLY), 0);
});
