import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { Duplex, duplexPair } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { type TestContext, test } from 'node:test';
import { eventually, fromHex, Inbox, socketPair } from '../testing/sockets.ts';
import { encodeHeader } from './frames.ts';
import { YamuxError, type YamuxOptions, YamuxSession, type YamuxStream } from './index.ts';

type Options = Partial<YamuxOptions>;

/** A session whose peer is a raw socket. */
async function rawPeer(
  t: TestContext,
  options: Options = {},
): Promise<{ session: YamuxSession; peer: Duplex; inbox: Inbox; streams: YamuxStream[] }> {
  const [near, far] = await socketPair(t);
  const streams: YamuxStream[] = [];
  const session = new YamuxSession(near, {
    role: 'server',
    keepAlive: false,
    onStream: (stream) => streams.push(stream),
    ...options,
  });
  t.after(() => session.destroy());
  return { session, peer: far, inbox: new Inbox(far), streams };
}

async function pair(t: TestContext, client: Options = {}, server: Options = {}): Promise<[YamuxSession, YamuxSession]> {
  const [near, far] = await socketPair(t);
  const sessions: [YamuxSession, YamuxSession] = [
    new YamuxSession(near, { role: 'client', keepAlive: false, ...client }),
    new YamuxSession(far, { role: 'server', keepAlive: false, ...server }),
  ];
  t.after(() => {
    for (const session of sessions) session.destroy();
  });
  return sessions;
}

const SYN1 = fromHex('000100010000000100000000');
const frame = (type: number, flags: number, id: number, length: number, body = '') =>
  Buffer.concat([encodeHeader(type, flags, id, length), Buffer.from(body)]);

test("opening, acknowledging and ending send upstream's bytes", async (t) => {
  const client = await rawPeer(t, { role: 'client' });
  const stream = client.session.openStream();
  assert.equal(await client.inbox.hex(12), '000100010000000100000000');
  client.peer.write(fromHex('000100020000000100000000'));
  stream.write('hello');
  assert.equal(await client.inbox.hex(17), `000000000000000100000005${Buffer.from('hello').toString('hex')}`);
  stream.end();
  assert.equal(await client.inbox.hex(12), '000100040000000100000000');
  client.peer.write(fromHex('000100040000000100000000'));
  stream.resume();
  await once(stream, 'close');
  assert.equal(client.session.streamCount, 0);
  client.session.openStream();
  assert.equal(await client.inbox.hex(12), '000100010000000300000000');

  const server = await rawPeer(t);
  server.peer.write(SYN1);
  assert.equal(await server.inbox.hex(12), '000100020000000100000000');
  server.peer.write(fromHex('0002000100000000deadbeef'));
  assert.equal(await server.inbox.hex(12), '0002000200000000deadbeef');
  server.session.openStream();
  assert.equal(await server.inbox.hex(12), '000100010000000200000000');
});

test('an answer that waits for nothing leaves with the acknowledgement of its stream', {
  timeout: 10_000,
}, async (t) => {
  const [near, far] = await socketPair(t);
  const writes: string[] = [];
  const conn = new Duplex({
    read: () => {},
    writev: (chunks, done) => {
      writes.push(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)).toString('hex'));
      near.write(Buffer.from(writes.at(-1)!, 'hex'), done);
    },
  });
  near.on('data', (data) => conn.push(data));
  const answer = async (stream: YamuxStream) => {
    const [request] = (await once(stream, 'data')) as [Buffer];
    await Promise.resolve();
    stream.write(`${request} received`);
  };
  const session = new YamuxSession(conn, {
    role: 'server',
    keepAlive: false,
    onStream: (stream) => void answer(stream),
  });
  t.after(() => session.destroy());
  far.write(Buffer.concat([SYN1, frame(0, 0, 1, 5, 'hello')]));
  const expected = Buffer.concat([frame(1, 2, 1, 0), frame(0, 0, 1, 14, 'hello received')]).toString('hex');
  await new Inbox(far).hex(expected.length / 2);
  assert.deepEqual(writes, [expected]);
});

test('a header and its body may come in pieces, and data may have the flags', async (t) => {
  const { peer, streams, inbox } = await rawPeer(t);
  const bytes = Buffer.concat([frame(0, 1, 1, 5, 'he'), Buffer.from('llo'), frame(0, 4, 1, 2, '!!')]);
  for (const byte of bytes) {
    await new Promise((resolve) => peer.write(Buffer.from([byte]), resolve));
  }
  await inbox.take(12);
  assert.equal(await text(streams[0]!), 'hello!!');
});

const fatal: [name: string, bytes: Buffer, message: RegExp][] = [
  ['an unknown version', fromHex('010100010000000100000000'), /version 1/],
  ['an unknown type', fromHex('000400000000000100000000'), /type 4/],
  ['a stream opened twice', Buffer.concat([SYN1, SYN1]), /opened stream 1 twice/],
  ['a stream with an id of our side', fromHex('000100010000000200000000'), /not one of its ids/],
  ['a stream with the id 0', fromHex('000100010000000000000000'), /not one of its ids/],
  ['more than the window in one frame', Buffer.concat([SYN1, frame(0, 0, 1, 262_145)]), /exceed the window/],
  [
    'more than the window in two frames',
    Buffer.concat([SYN1, frame(0, 0, 1, 262_144, 'x'.repeat(262_144)), frame(0, 0, 1, 1, 'x')]),
    /exceed the window of 0/,
  ],
  ['a second FIN', Buffer.concat([SYN1, frame(1, 4, 1, 0), frame(1, 4, 1, 0)]), /second FIN/],
  ['a go-away with a code', frame(3, 0, 0, 1), /code 1/],
];
for (const [name, bytes, message] of fatal) {
  test(`${name} ends the session`, async (t) => {
    const { session, peer, inbox, streams } = await rawPeer(t);
    const ours = session.openStream();
    peer.write(bytes);
    const all = await inbox.rest();
    assert.equal(all.subarray(-12).toString('hex'), '000300000000000000000001', 'says protocol error');
    peer.end();
    const close = await session.closed;
    assert.match(close.reason, message);
    assert.equal((close.error as YamuxError).code, 'protocol');
    assert.equal((ours.errored as YamuxError).code, 'closed');
    assert.ok(streams.every((stream) => stream.destroyed || stream.readableEnded || name === 'a second FIN'));
    assert.throws(() => session.openStream(), { code: 'closed' });
    await assert.rejects(session.ping(), { code: 'closed' });
  });
}

test('discards frames that belong to no stream', async (t) => {
  const { peer, inbox } = await rawPeer(t);
  peer.write(
    Buffer.concat([
      frame(0, 0, 7, 100_000, 'x'.repeat(100_000)),
      frame(1, 4, 7, 0),
      frame(1, 8, 9, 0),
      frame(1, 0, 2, 5),
      frame(2, 2, 0, 77),
      SYN1,
    ]),
  );
  assert.equal(await inbox.hex(12), '000100020000000100000000');
});

test('a reset ends only that stream on either side', async (t) => {
  const [client, server] = await pair(t);
  server.on('stream', (stream) => stream.destroy());
  const first = client.openStream();
  first.write('x');
  await eventually(() => first.closed, 'the reset');
  assert.equal((first.errored as YamuxError).code, 'reset');
  assert.equal(client.streamCount + server.streamCount, 0);
  await client.ping();
});

test('resets streams without a listener, after a go-away and above the limit', async (t) => {
  const deaf = await rawPeer(t, { onStream: undefined });
  deaf.peer.write(SYN1);
  assert.equal(await deaf.inbox.hex(12), '000100080000000100000000');

  const leaving = await rawPeer(t);
  leaving.session.goAway();
  assert.equal(await leaving.inbox.hex(12), '000300000000000000000000');
  leaving.peer.write(SYN1);
  assert.equal(await leaving.inbox.hex(12), '000100080000000100000000');

  const full = await rawPeer(t, { maxIncomingStreams: 1 });
  full.peer.write(Buffer.concat([SYN1, frame(1, 1, 3, 0)]));
  assert.equal(await full.inbox.hex(24), '000100020000000100000000000100080000000300000000');
  full.peer.write(Buffer.concat([frame(1, 8, 1, 0), frame(1, 1, 5, 0)]));
  assert.equal(await full.inbox.hex(12), '000100020000000500000000');
});

test('a go-away of the peer only stops new streams', async (t) => {
  const { session, peer, inbox } = await rawPeer(t, { role: 'client' });
  const stream = session.openStream();
  peer.write(frame(3, 0, 0, 0));
  await once(session, 'goAway');
  assert.throws(() => session.openStream(), { code: 'go_away' });
  stream.write('still');
  await inbox.take(12 + 12 + 5);
});

test('a stream that is never acknowledged ends the session, and 256 may wait', async (t) => {
  const { session } = await rawPeer(t, { role: 'client', streamOpenTimeoutMs: 40 });
  for (let i = 0; i < 256; i++) session.openStream();
  assert.throws(() => session.openStream(), { code: 'backlog' });
  const close = await session.closed;
  assert.equal((close.error as YamuxError).code, 'timeout');
  assert.match(close.reason, /did not acknowledge/);
});

test('an acknowledged or reset stream does not end the session later', async (t) => {
  const { session, peer, inbox } = await rawPeer(t, { role: 'client', streamOpenTimeoutMs: 500 });
  session.openStream();
  session.openStream().destroy();
  peer.write(frame(1, 2, 1, 0));
  await inbox.take(36);
  await new Promise((resolve) => setTimeout(resolve, 600));
  assert.equal(session.isClosed, false);
});

test('keep-alive pings, records the answer, and ends a session whose peer is silent', async (t) => {
  const { session, peer, inbox } = await rawPeer(t, { keepAlive: { intervalMs: 10, timeoutMs: 500 } });
  assert.equal(await inbox.hex(12), '000200010000000000000001');
  assert.equal(session.lastPong, undefined);
  peer.write(frame(2, 2, 0, 1));
  await eventually(() => session.lastPong !== undefined, 'the answer');
  const close = await session.closed;
  assert.match(close.reason, /no answer to a ping within 500 ms/);
});

test('a ping measures the round trip, and ends at its timeout and its signal', async (t) => {
  const [client] = await pair(t);
  const roundTrip = await client.ping();
  assert.ok(roundTrip > 0 && roundTrip < 20_000);
  const { session } = await rawPeer(t);
  await assert.rejects(session.ping({ timeoutMs: 10 }), { code: 'timeout' });
  await assert.rejects(session.ping({ signal: AbortSignal.timeout(10) }), { name: 'TimeoutError' });
  assert.equal(session.isClosed, false);
});

test('a writer never exceeds its window', async (t) => {
  const { session, peer, inbox } = await rawPeer(t, { role: 'client' });
  const stream = session.openStream();
  await inbox.take(12);
  stream.write(Buffer.alloc(300_000, 1));
  let got = 0;
  while (got < 262_144) {
    const header = await inbox.take(12);
    assert.equal(header[1], 0);
    got += header.readUInt32BE(8);
    await inbox.take(header.readUInt32BE(8));
  }
  assert.equal(got, 262_144);
  await session.ping({ timeoutMs: 20 }).catch(() => {});
  assert.equal(await inbox.hex(12), '000200010000000000000001', 'nothing but the ping');
  peer.write(frame(1, 0, 1, 10));
  assert.equal(await inbox.hex(12), '00000000000000010000000a');
});

test('a reader returns the window in halves, and only after reading', async (t) => {
  const { peer, inbox, streams, session } = await rawPeer(t);
  peer.write(Buffer.concat([SYN1, frame(0, 0, 1, 262_144, 'x'.repeat(262_144))]));
  await inbox.take(12);
  await session.ping({ timeoutMs: 30 }).catch(() => {});
  assert.equal(await inbox.hex(12), '000200010000000000000001', 'no update while nobody reads');
  let granted = 0;
  streams[0]!.resume();
  while (granted < 131_072) {
    const update = await inbox.take(12);
    assert.equal(update.subarray(0, 8).toString('hex'), '0001000000000001');
    assert.ok(update.readUInt32BE(8) >= 131_072);
    granted += update.readUInt32BE(8);
  }
  assert.ok(granted <= 262_144);
});

test('a slow reader blocks its writer and no other stream', async (t) => {
  const [client, server] = await pair(t);
  const accepted: YamuxStream[] = [];
  server.on('stream', (stream) => accepted.push(stream));
  const slow = client.openStream();
  const block = Buffer.alloc(50_000);
  let written = 0;
  slow.on('drain', () => pump());
  const pump = () => {
    while (written < 50_000_000 && slow.write(block)) written += block.length;
  };
  pump();
  await eventually(() => accepted.length === 1, 'the stream');
  for (let i = 0; i < 20; i++) await client.ping();
  assert.ok(written < 1_000_000, `${written} bytes went in`);
  assert.ok(accepted[0]!.readableLength <= 262_144);
  const other = client.openStream();
  other.end('quick');
  await eventually(() => accepted.length === 2, 'the other stream');
  assert.equal(await text(accepted[1]!), 'quick');
});

for (const maxWindow of [undefined, 1_048_576]) {
  test(`many streams forward their bytes both ways with half-close, window ${maxWindow ?? 'as upstream'}`, async (t) => {
    // Only one side raises its window: the other must cope.
    const [client, server] = await pair(t, maxWindow ? { maxWindow } : {});
    server.on('stream', (stream) => {
      // No async iteration: it would destroy the stream at the end of one direction.
      const parts: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => parts.push(chunk));
      stream.on('end', () => {
        const all = Buffer.concat(parts);
        stream.write(createHash('sha256').update(all).digest('hex'));
        stream.end(all);
      });
    });
    await Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        const data = randomBytes(i * 70_001);
        const stream = client.openStream();
        const answer = buffer(stream);
        for (let at = 0; at < data.length; at += 9_973) {
          if (!stream.write(data.subarray(at, at + 9_973))) await once(stream, 'drain');
        }
        stream.end();
        const got = await answer;
        assert.equal(got.subarray(0, 64).toString(), createHash('sha256').update(data).digest('hex'));
        assert.ok(got.subarray(64).equals(data));
      }),
    );
    await eventually(() => client.streamCount + server.streamCount === 0, 'no stream left');
  });
}

test('closing flushes pending writes, and both ends receive the reason', async (t) => {
  const [client, server] = await pair(t);
  const got = once(server, 'stream').then(([stream]) => text(stream as YamuxStream));
  client.openStream().end('last words');
  const close = await client.close('done here');
  assert.equal(close.reason, 'done here');
  assert.equal(close.error, undefined);
  assert.equal(await got, 'last words');
  assert.equal((await server.closed).reason, 'the peer ended the connection');
});

test('drops a peer that requests answers without reading, before memory grows', async (t) => {
  const { session, peer } = await rawPeer(t);
  peer.pause();
  const pings = Buffer.concat(Array.from({ length: 10_000 }, () => frame(2, 1, 0, 1)));
  let over = false;
  void session.closed.then(() => {
    over = true;
  });
  for (let i = 0; i < 500 && !over; i++) {
    await new Promise<void>((resolve) => peer.write(pings, () => resolve()));
  }
  const close = await session.closed;
  assert.match(close.reason, /does not read/);
  assert.ok(close.error instanceof YamuxError);
});

test("a window grows for a long round trip, at most by the session's budget", async (t) => {
  const delay = 20;
  for (const growth of [0, 32 * 1024 * 1024]) {
    const wide = { highWaterMark: 64 * 1024 * 1024 };
    const [near, nearMiddle] = duplexPair(wide);
    const [farMiddle, far] = duplexPair(wide);
    /** The bytes on their way to the reader, and the most that there were. */
    let carried = 0;
    let most = 0;
    const later = (from: Duplex, to: Duplex, count = (_bytes: number) => {}) => {
      from.on('data', (part: Buffer) => {
        count(part.length);
        setTimeout(() => {
          count(-part.length);
          to.write(part);
        }, delay);
      });
      from.on('end', () => setTimeout(() => to.end(), delay));
    };
    later(nearMiddle, farMiddle, (bytes) => {
      carried += bytes;
      most = Math.max(most, carried);
    });
    later(farMiddle, nearMiddle);
    const client = new YamuxSession(near, { role: 'client', keepAlive: false });
    const opened = Promise.withResolvers<YamuxStream>();
    const server = new YamuxSession(far, { role: 'server', keepAlive: false, growth, onStream: opened.resolve });
    t.after(() => {
      client.destroy();
      server.destroy();
    });
    const stream = client.openStream();
    const reader = await opened.promise;
    const total = 8 * 1024 * 1024;
    void pipeline(async function* () {
      for (let sent = 0; sent < total; sent += 65_536) yield Buffer.alloc(65_536);
    }, stream);
    let read = 0;
    for await (const part of reader as AsyncIterable<Buffer>) read += part.length;
    assert.equal(read, total);
    // the first window, and the header of each frame in it
    const fixed = 256 * 1024 + 1_024;
    if (growth === 0) assert.ok(most <= fixed, `${most} bytes without growth: more than the window allows`);
    else assert.ok(most > 4 * fixed, `${most} bytes with growth, ${fixed} without`);
  }
});
