import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { eventually, insertPerson, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { encodePacket, KIND } from '@ropewalk/wire/drpc/frames';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import { refusal } from '../testing/agents.ts';
import { joinDaemon } from '../testing/daemons.ts';
import { memory } from '../testing/peer.ts';

const MIB = 1024 * 1024;

let server: TestServer;
let member: { id: string; token: string };
before(async () => {
  server = await startTestServer();
  member = await insertPerson(server, 'member');
});
after(() => server.stop());

/** A member's own daemon, with all capabilities of ours. */
const join = async (name: string) =>
  (await joinDaemon(server, name, { token: member.token, tags: ['scope=user'], ours: true })).session;

const CALL = Buffer.concat(
  encodePacket(KIND.invoke, 1, 1, Buffer.from('/platform.provisioner.v1.JobControl/Checkpoint')),
);
const PIECE = Buffer.alloc(64 * 1024);
/** A frame of the call's message that announces another one. */
const unfinished = Buffer.concat([Buffer.from([KIND.message << 1, 1, 2, 0x80, 0x80, 0x04]), PIECE]);

/** Sends a message that never ends, until the server accepts no more of it. */
async function sendWithoutEnd(session: YamuxSession, bytes: number): Promise<void> {
  const stream = await session.openStream();
  stream.on('error', () => {}).setMaxListeners(0);
  stream.write(CALL);
  for (let sent = 0; sent < bytes && !stream.destroyed; sent += PIECE.length) {
    if (stream.write(unfinished)) continue;
    const patience = AbortSignal.timeout(2_000);
    await Promise.race([
      once(stream, 'drain', { signal: patience }).catch(() => {}),
      once(stream, 'close', { signal: patience }).catch(() => {}),
    ]);
    if (patience.aborted) return;
  }
}

test('bounds the bytes that all daemons of one member hold together', async () => {
  const sessions = await Promise.all(Array.from({ length: 5 }, (_, i) => join(`hoard-${i}`)));
  const before = await memory();
  await Promise.all(
    sessions.flatMap((session) => Array.from({ length: 16 }, () => sendWithoutEnd(session, 3.5 * MIB))),
  );
  const grown = (await memory()) - before;
  // 280 MiB were sent. 32 MiB and the bytes in flight may be in memory
  assert.ok(grown < 64 * MIB, `${Math.round(grown / MIB)} MiB`);
  for (const session of sessions) void session.close();
  await eventually('their memory is free', async () => (await memory()) - before < 10 * MIB);
});

test('bounds the connected and the stored daemons of a member', async () => {
  const { sql } = server.services;
  const count = async () => (await sql<{ n: number }[]>`SELECT count(*) AS n FROM provisioner_daemons`)[0]!.n;
  const there = async (n: number) =>
    eventually(`${n} are there`, async () => {
      const [row] = await sql<{ n: number }[]>`
        SELECT count(*) AS n FROM provisioner_daemons WHERE disconnected_at IS NULL AND connection_id IS NOT NULL`;
      return row!.n === n;
    });
  await there(0);
  for (let i = 0; i < 30; i += 1) {
    const session = await join(`gone-${i}`);
    await there(1);
    await session.close();
    await there(0);
  }
  assert.equal(await count(), 20);
  const held = await Promise.all(Array.from({ length: 20 }, (_, i) => join(`here-${i}`)));
  await there(20);
  const { status, message } = await refusal(join('one-more'));
  assert.equal(status, 429);
  assert.match(message, /Too many provisioner daemons/);
  assert.equal(await count(), 20);
  for (const session of held) void session.close();
  await there(0);
  await (await join('one-more')).close();
});

test('bounds the bytes of calls whose further messages nobody reads', async () => {
  const session = await join('windows');
  // a call that lasts as long as the connection and reads only its first message: the others wait in a window
  const waiting = Buffer.concat([
    ...encodePacket(KIND.invoke, 1, 1, Buffer.from('/platform.provisioner.v1.JobControl/Watch')),
    ...Array.from({ length: 70 }, (_, i) => encodePacket(KIND.message, 1, 2 + i, Buffer.alloc(0))).flat(),
  ]);
  const before = await memory();
  const streams = await Promise.all(
    Array.from({ length: 200 }, async () => {
      const stream = await session.openStream();
      stream.on('error', () => {}).write(waiting);
      return stream;
    }),
  );
  for (const stream of streams) if (!stream.destroyed) stream.write(Buffer.alloc(200 * 1024));
  const gone = () => streams.filter(({ destroyed }) => destroyed).length;
  await eventually('what is too many is reset', async () => gone() >= 200 - 32);
  assert.equal(gone(), 200 - 32);
  await session.ping();
  const grown = (await memory()) - before;
  // 200 windows are 50 MiB
  assert.ok(grown < 16 * MIB, `${Math.round(grown / MIB)} MiB`);
  await session.close();
});

test('counts module files that a daemon uploads in the budget of its person', async () => {
  const as = { token: server.adminToken, tags: ['scope=user'] };
  const { session, daemon } = await joinDaemon(server, 'uploads', as);
  const acquire = daemon.acquireJobWithCancel();
  const version = await pendingVersion(server, { tags: { scope: 'user' } });
  assert.equal((await acquire.receive())?.jobId, version.job.id);
  const piece = Buffer.alloc(MIB);
  async function* upload(count: number) {
    const dataHash = createHash('sha256');
    for (let i = 0; i < count; i++) dataHash.update(piece);
    yield {
      type: {
        case: 'dataUpload' as const,
        value: { dataHash: dataHash.digest(), fileSize: BigInt(count * MIB), chunks: count },
      },
    };
    for (let pieceIndex = 0; pieceIndex < count; pieceIndex++)
      yield { type: { case: 'chunkPiece' as const, value: { pieceIndex, data: piece } } };
  }
  // pieces that arrive before the server has read the announcement exceed the same budget as messages of the call
  await assert.rejects(send(40), /longer than|exceed \d+ bytes together/);
  // the budget is free again
  await send(20);
  await send(20);
  await session.close();

  async function send(count: number): Promise<void> {
    const call = daemon.uploadFile();
    try {
      for await (const part of upload(count)) await call.send(part);
    } catch {
      // the answer has the reason
    }
    await call.receive();
  }
});
