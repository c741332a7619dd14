// own process: measures its memory

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, afterEach, before, test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { eventually, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { encodePacket, KIND } from '@ropewalk/wire/drpc/frames';
import { LogLevel } from '@ropewalk/wire/proto/provisioner';
import { LogSource } from '@ropewalk/wire/proto/provisionerd';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { encodeHeader, FLAG, TYPE } from '@ropewalk/wire/yamux/frames';
import { dialAsDaemon, type JoinedDaemon, joinDaemon } from './testing/daemons.ts';
import { data, fin, memory, Peer, syn, timersOf, verdicts } from './testing/peer.ts';

// Daemons that have joined and then break every rule of the wire. Each ends as the protocol says. The server and the
// other daemons go on, with no more memory than before.

const PSK = 'hostile test key';
const MIB = 1024 * 1024;
const INVOKE = Buffer.from('/provisionerd.ProvisionerDaemon/AcquireJobWithCancel');

let server: TestServer;
let healthy: JoinedDaemon;
const log = { connected: 0, disconnected: 0 };

before(async () => {
  const write = (line: string) => {
    if (line.includes('provisioner daemon connected')) log.connected++;
    if (line.includes('provisioner daemon disconnected')) log.disconnected++;
  };
  server = await startTestServer({
    env: { CODER_PROVISIONER_DAEMON_PSK: PSK },
    log: createLogger({ sinks: [{ format: 'human', write }] }),
  });
  healthy = await joinDaemon(server, 'healthy', { psk: PSK });
});
after(async () => {
  await healthy.session.close();
  await server.stop();
});

/** Waits until every hostile daemon's session has ended at the server, too. */
afterEach(async () => {
  await eventually('only the healthy daemon is left', async () => log.connected - log.disconnected === 1, 8_000);
});

const join = (name: string, tag: string) => dialAsDaemon(server, name, { psk: PSK, tags: [tag] });

/** Checks that the healthy daemon acquires and completes a job. */
async function jobsGoOn(): Promise<void> {
  const call = healthy.daemon.acquireJobWithCancel();
  const version = await pendingVersion(server);
  const job = await call.receive();
  assert.equal(job?.jobId, version.job.id);
  await healthy.daemon.completeJob({ jobId: job.jobId, type: { case: 'templateImport', value: {} } });
  const { body } = await server.api<{ job: { status: string } }>('GET', `/templateversions/${version.id}`);
  assert.equal(body.job.status, 'succeeded');
}

const joinPeer = async (name = 'hostile') => new Peer(await join(name, 'hostile=yes'));
const invoke = Buffer.concat(encodePacket(KIND.invoke, 1, 1, INVOKE));

/** Input that breaks the session: the server sends GoAway and ends the connection in order. */
const fatal: Record<string, (peer: Peer) => void> = {
  'garbage bytes': (peer) => peer.send(Buffer.from([0xff]), randomBytes(5_000)),
  'an unknown frame type': (peer) => peer.send(encodeHeader(9, 0, 1, 0)),
  'data beyond the window': (peer) => peer.send(syn(1), encodeHeader(TYPE.data, 0, 1, 256 * 1024 + 1)),
  'data beyond the rest of the window': (peer) => {
    peer.send(syn(1), data(1, invoke), encodeHeader(TYPE.data, 0, 1, 256 * 1024));
  },
  'a stream opened twice': (peer) => peer.send(syn(1), data(1, invoke), syn(1)),
  'a stream ended twice': (peer) => peer.send(syn(1), data(1, invoke), fin(1), fin(1)),
  'a stream of the server’s numbers': (peer) => peer.send(syn(2)),
  'a GoAway with an error': (peer) => peer.send(encodeHeader(TYPE.goAway, 0, 0, 2)),
};

for (const [what, breach] of Object.entries(fatal)) {
  test(`${what}: the session ends`, async () => {
    const peer = await joinPeer();
    breach(peer);
    const { clean, code } = await peer.closed();
    assert.ok(clean, 'by a closing handshake');
    assert.equal(code, 1011);
    assert.deepEqual(
      peer.headers.filter(({ type }) => type === TYPE.goAway).map(({ length }) => length),
      [1],
    );
    await jobsGoOn();
  });
}

/** Input that breaks one stream: the server resets it, and the session goes on. */
const broken: Record<string, Uint8Array[]> = {
  'an over-long number': [Buffer.from([3, 1, 1, ...Array.from({ length: 11 }, () => 0xff), 1])],
  'a message longer than the most': encodePacket(KIND.message, 1, 2, Buffer.alloc(0)).map(() => {
    return Buffer.from([0x05, 1, 2, 0x81, 0x80, 0x80, 0x02]);
  }),
  'a message before any call': encodePacket(KIND.message, 1, 1, Buffer.from('x')),
  'ids that go back': [invoke, ...encodePacket(KIND.message, 1, 1, Buffer.from('x'))],
  'a call inside a call': [invoke, ...encodePacket(KIND.invoke, 1, 2, INVOKE)],
  'malformed metadata': encodePacket(KIND.invokeMetadata, 1, 1, Buffer.from([0xff, 0xff])),
};

for (const [what, frames] of Object.entries(broken)) {
  test(`${what}: the stream is reset, the session lives`, async () => {
    const peer = await joinPeer();
    peer.send(syn(1), data(1, Buffer.concat(frames)));
    await peer.reset(1);
    await peer.alive();
    peer.connection.close();
    await peer.closed();
    await jobsGoOn();
  });
}

test('accepts log and result of a job with NUL in texts and impossible times', async () => {
  const call = healthy.daemon.acquireJobWithCancel();
  const version = await pendingVersion(server);
  const { jobId } = (await call.receive())!;
  const line = { source: LogSource.PROVISIONER, level: LogLevel.INFO, stage: 'Planning\0' };
  await healthy.daemon.updateJob({
    jobId,
    logs: [
      { ...line, output: 'a\0b', createdAt: BigInt(Date.now()) },
      { ...line, output: 'late', createdAt: 2n ** 62n },
      { ...line, output: 'early', createdAt: -(2n ** 62n) },
    ],
    readme: Buffer.from('x\0y'),
    workspaceTags: { zone: 'a\0b' },
    templateVariables: [{ name: 'v', defaultValue: '\0' }],
  });
  await healthy.daemon.failJob({ jobId, error: 'exit\0status', errorCode: '\0' });
  const { body } = await server.api<{ job: { status: string; error: string } }>(
    'GET',
    `/templateversions/${version.id}`,
  );
  assert.deepEqual([body.job.status, body.job.error], ['failed', 'exit␀status']);
  const logs = await server.api<{ output: string }[]>('GET', `/templateversions/${version.id}/logs`);
  assert.deepEqual(
    logs.body.map(({ output }) => output),
    ['a␀b', 'late', 'early'],
  );
});

test('survives frames that end within a header, data or a packet', async () => {
  const cut = [
    syn(1).subarray(0, 7),
    Buffer.concat([syn(1), encodeHeader(TYPE.data, 0, 1, 100), invoke.subarray(0, 20)]),
    Buffer.concat([syn(1), data(1, invoke.subarray(0, 20)), fin(1)]),
  ];
  for (const bytes of cut) {
    const peer = await joinPeer();
    peer.send(bytes);
    peer.connection.close();
    assert.equal((await peer.closed()).code, 1000);
    const gone = await joinPeer();
    gone.send(bytes);
    gone.connection.destroy();
  }
  await jobsGoOn();
});

test('closes with 1003 after a text message', async () => {
  const peer = await joinPeer();
  peer.connection.sendText('hello');
  assert.equal((await peer.closed()).code, 1003);
  await jobsGoOn();
});

test('resets the stream of a message that grows beyond the limit, before it takes more memory', async () => {
  const session = new YamuxSession(byteStream(await join('growing', 'hostile=yes')), { role: 'client' });
  const stream = session.openStream();
  const ended = new Promise<void>((resolve) => stream.once('close', resolve));
  stream.write(invoke);
  const piece = Buffer.concat([Buffer.from([0x04, 1, 2, 0x80, 0x80, 0x04]), Buffer.alloc(65_536)]);
  let sent = 0;
  while (!stream.destroyed && sent < 16 * MIB) {
    sent += piece.length;
    if (!stream.write(piece)) await Promise.race([new Promise((done) => stream.once('drain', done)), ended]);
  }
  assert.ok(stream.destroyed);
  assert.ok(sent < 6 * MIB, `${sent} bytes were taken`);
  await session.ping();
  await session.close();
  await jobsGoOn();
});

test('resets streams beyond the limit, and the session goes on', async () => {
  const peer = await joinPeer();
  const opened = 32 + 300;
  for (let n = 0; n < opened; n++) peer.send(syn(2 * n + 1));
  await peer.alive();
  assert.deepEqual(verdicts(peer), { acknowledged: 32, reset: 300 });
  peer.connection.close();
  await peer.closed();
  await jobsGoOn();
});

test('cuts off a silent peer after 30 s to a ping and 10 s for its answer, and keeps one that answers', async () => {
  for (const silent of [true, false]) {
    let peer: Peer | undefined;
    const intervals = await timersOf('setInterval', async () => {
      peer = await joinPeer();
    });
    const keepAlive = intervals.filter(({ ms }) => ms === 30_000);
    assert.equal(keepAlive.length, 1);
    const timeouts = await timersOf('setTimeout', () => keepAlive[0]!.run());
    assert.deepEqual(
      timeouts.map(({ ms }) => ms),
      [10_000],
    );
    const ping = await peer!.answered('a ping', ({ type, flags }) => type === TYPE.ping && flags === FLAG.syn);
    if (silent) {
      timeouts[0]!.run();
      await peer!.closed();
    } else {
      peer!.send(encodeHeader(TYPE.ping, FLAG.ack, 0, ping.length));
      await peer!.alive();
      timeouts[0]!.run();
      await peer!.alive();
      peer!.connection.close();
      await peer!.closed();
    }
  }
  await jobsGoOn();
});

test('holds one message for each daemon that acquires a big job and reads nothing, and frees it when they leave', async () => {
  const file = await server.api<{ hash: string }>('POST', '/files', {
    raw: { type: 'application/x-tar', data: await bigTar(3 * MIB) },
  });
  const slow = 12;
  const before = await memory();
  const connections = await Promise.all(
    Array.from({ length: slow }, async (_, n) => {
      const connection = await join(`slow-${n}`, 'hostile=slow');
      connection.pause();
      connection.sendBinary(Buffer.concat([syn(1), data(1, invoke)]));
      return connection;
    }),
  );
  const ids = new Set<string>();
  for (let n = 0; n < slow; n++) {
    ids.add((await pendingVersion(server, { file_id: file.body.hash, tags: { hostile: 'slow' } })).job.id);
  }
  await eventually('every job is taken', async () => {
    const rows = await server.services.sql`SELECT id FROM provisioner_jobs
      WHERE id = ANY(${[...ids]}) AND started_at IS NOT NULL`;
    return rows.length === slow;
  });
  await jobsGoOn();
  const grown = (await memory()) - before;
  assert.ok(grown < slow * 5 * MIB, `${grown / MIB} MiB for ${slow} messages of 3 MiB`);
  for (const connection of connections) connection.destroy();
  await eventually('they are gone', async () => log.connected - log.disconnected === 1);
  await eventually('their memory is free', async () => (await memory()) - before < 5 * MIB);
});

async function bigTar(size: number): Promise<Buffer> {
  const { writeTar } = await import('../app/evaluate/archive.ts');
  return writeTar([{ path: 'main.tf', data: Buffer.alloc(size, '# '), mode: 0o644 }]);
}

test('gives one job to a daemon that acquires on 60 streams and reads nothing, and puts it back when the daemon leaves', async () => {
  const file = await server.api<{ hash: string }>('POST', '/files', {
    raw: { type: 'application/x-tar', data: await bigTar(3 * MIB) },
  });
  const greedy = await join('greedy', 'hostile=greedy');
  greedy.pause();
  for (let n = 0; n < 60; n++) greedy.sendBinary(Buffer.concat([syn(2 * n + 1), data(2 * n + 1, invoke)]));
  const ids: string[] = [];
  for (let n = 0; n < 6; n++) {
    ids.push((await pendingVersion(server, { file_id: file.body.hash, tags: { hostile: 'greedy' } })).job.id);
  }
  const taken = async () => {
    const rows = await server.services.sql<{ id: string }[]>`SELECT id FROM provisioner_jobs
      WHERE id = ANY(${ids}) AND started_at IS NOT NULL`;
    return rows.length;
  };
  await eventually('a job is taken', async () => (await taken()) > 0);
  await jobsGoOn();
  // longer than an acquire waits for the one before it
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assert.equal(await taken(), 1);
  greedy.destroy();
  await eventually('it goes back', async () => (await taken()) === 0);
  await server.services
    .sql`UPDATE provisioner_jobs SET canceled_at = now(), completed_at = now() WHERE id = ANY(${ids})`;
});

test('rejects another acquire while one waits or a job is unconfirmed, and accepts it after a cancel or the end', async () => {
  const { session, daemon } = await joinDaemon(server, 'twice', { psk: PSK, tags: ['hostile=twice'] });
  const canceled = daemon.acquireJobWithCancel();
  await canceled.send({});
  const waiting = daemon.acquireJobWithCancel();
  assert.equal((await canceled.receive())?.jobId, '');
  await assert.rejects(daemon.acquireJobWithCancel().receive(), /already waits for a job/);
  waiting.cancel();
  const next = daemon.acquireJobWithCancel();
  const versions = [];
  for (let n = 0; n < 3; n++) versions.push(await pendingVersion(server, { tags: { hostile: 'twice' } }));
  const job = await next.receive();
  assert.equal(job?.jobId, versions[0]!.job.id);
  await assert.rejects(daemon.acquireJobWithCancel().receive(), /has not reported on it yet/);
  await assert.rejects(async () => daemon.acquireJob({}), /has not reported on it yet/);
  await daemon.updateJob({ jobId: job.jobId });
  await daemon.completeJob({ jobId: job.jobId, type: { case: 'templateImport', value: {} } });
  const second = await daemon.acquireJob({});
  assert.equal(second.jobId, versions[1]!.job.id);
  await daemon.failJob({ jobId: second.jobId, error: 'no' });
  const third = await daemon.acquireJobWithCancel().receive();
  assert.equal(third?.jobId, versions[2]!.job.id);
  // the daemon dropped the job and a person ended it, so it does not block the daemon for ever
  const { sql } = server.services;
  await sql`UPDATE provisioner_jobs SET completed_at = now(), error = 'ended' WHERE id = ${third.jobId}`;
  const fourth = daemon.acquireJobWithCancel();
  const last = await pendingVersion(server, { tags: { hostile: 'twice' } });
  assert.equal((await fourth.receive())?.jobId, last.job.id);
  await daemon.completeJob({ jobId: last.job.id, type: { case: 'templateImport', value: {} } });
  await session.close();
});

test('hands no job to a daemon whose key was deleted without a notification', async () => {
  const { sql } = server.services;
  const secret = 'unnoticed'.padEnd(43, 'x');
  await sql`INSERT INTO provisioner_keys (organization_id, name, hashed_secret, tags) SELECT id, 'unnoticed',
    ${createHash('sha256').update(secret).digest()}, '{"hostile": "keyed"}' FROM organizations WHERE is_default`;
  const { session, daemon } = await joinDaemon(server, 'keyed', { key: secret });
  const call = daemon.acquireJobWithCancel();
  await eventually('it waits', async () => {
    const [row] = await sql<{ id: string; organization_id: string }[]>`SELECT id, organization_id
      FROM provisioner_daemons WHERE name = 'keyed'`;
    return row && log.connected - log.disconnected === 2;
  });
  await sql`DELETE FROM provisioner_keys WHERE name = 'unnoticed'`;
  const version = await pendingVersion(server, { tags: { hostile: 'keyed' } });
  const got = await call.receive().catch(() => undefined);
  assert.equal(got?.jobId || '', '');
  await session.closed;
  const [job] = await sql`SELECT started_at, job_status FROM provisioner_jobs WHERE id = ${version.job.id}`;
  assert.deepEqual({ ...job }, { started_at: null, job_status: 'pending' });
});

test('loses no session, memory or healthy daemon after hundreds of violations', async () => {
  const all: ((peer: Peer) => void)[] = [
    ...Object.values(fatal),
    ...Object.values(broken).map((frames) => (peer: Peer) => {
      peer.send(syn(1), data(1, Buffer.concat(frames)));
      peer.connection.close();
    }),
    (peer) => peer.connection.sendText('x'),
    (peer) => peer.connection.destroy(),
  ];
  const round = async () => {
    await Promise.all(
      all.map(async (breach) => {
        const peer = await joinPeer();
        breach(peer);
        await peer.closed();
      }),
    );
  };
  for (let n = 0; n < 8; n++) await round();
  const before = await memory();
  const rss = process.memoryUsage().rss;
  for (let n = 0; n < 20; n++) await round();
  const grown = (await memory()) - before;
  assert.ok(grown < MIB, `the heap grew by ${grown} bytes in ${20 * all.length} breaches`);
  const rssGrown = process.memoryUsage().rss - rss;
  assert.ok(rssGrown < 64 * MIB, `the process grew by ${rssGrown} bytes`);
  assert.equal(healthy.session.isClosed, false);
  await jobsGoOn();
});
