import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { CAPABILITIES_HEADER, formatCapabilities, parseCapabilities } from './capabilities.ts';
import { splice } from './splice.ts';
import { byteStreamPair, eventually, fromHex, Inbox, socketPair, webSocketPair } from './testing/sockets.ts';
import { acceptTunnel, requestTunnel, TunnelError } from './tunnel.ts';
import { byteStream } from './websocket/index.ts';
import { YamuxSession, type YamuxStream } from './yamux/index.ts';

async function sessions(t: TestContext): Promise<[YamuxSession, YamuxSession]> {
  const [near, far] = await byteStreamPair(t);
  const both: [YamuxSession, YamuxSession] = [
    new YamuxSession(far, { role: 'server' }),
    new YamuxSession(near, { role: 'client' }),
  ];
  t.after(() => {
    for (const session of both) session.destroy();
  });
  return both;
}

/** A "session" whose only stream is a socket, to see the preamble's bytes. */
async function rawTunnel(
  t: TestContext,
): Promise<{ session: { openStream(): YamuxStream }; near: Duplex; far: Duplex }> {
  const [near, far] = await socketPair(t);
  return { session: { openStream: () => near as unknown as YamuxStream }, near, far };
}

test('the preamble: bytes of the request, of accepting and of rejecting', async (t) => {
  const { session, far } = await rawTunnel(t);
  const inbox = new Inbox(far);
  const opening = requestTunnel(session, { service: 'tcp', port: 80 });
  const json = '{"service":"tcp","port":80}';
  assert.equal(await inbox.hex(3 + json.length), `01001b${Buffer.from(json).toString('hex')}`);
  far.end(Buffer.concat([Buffer.from([0]), Buffer.from('immediately')]));
  assert.equal(await text(await opening), 'immediately', 'what follows the answer belongs to the stream');

  const { near, far: asker } = await rawTunnel(t);
  asker.write(fromHex('0100'));
  asker.write(fromHex(`0f${Buffer.from('{"service":"s"}first').toString('hex')}`));
  const { request, accept } = await acceptTunnel(near);
  assert.deepEqual(request, { service: 's' });
  const stream = accept();
  const answer = new Inbox(asker);
  assert.equal(await answer.hex(1), '00');
  assert.equal(String((await once(stream, 'data'))[0]), 'first');

  const { near: refuser, far: refused } = await rawTunnel(t);
  refused.write(fromHex(`01000f${Buffer.from('{"service":"s"}').toString('hex')}`));
  (await acceptTunnel(refuser)).refuse('né');
  const no = new Inbox(refused);
  assert.equal((await no.rest()).toString('hex'), '0100036ec3a9');
});

test('over a session: accepted tunnels forward bytes both ways, rejections have a text', async (t) => {
  const [server, agent] = await sessions(t);
  agent.on('stream', (stream: YamuxStream) => {
    void acceptTunnel(stream).then(({ request, accept, refuse }) => {
      if (request.service !== 'echo') refuse(`no service ${request.service} ${'é'.repeat(4_000)}`);
      else {
        const accepted = accept();
        accepted.pipe(accepted);
      }
    });
  });
  const stream = await requestTunnel(server, { service: 'echo' });
  stream.end('hello');
  assert.equal(await text(stream), 'hello');
  const refused = await requestTunnel(server, { service: 'nope' }).catch((err: unknown) => err);
  assert.ok(refused instanceof TunnelError);
  assert.equal(refused.code, 'refused');
  assert.match(refused.message, /^no service nope é+$/, 'cut between characters');
  await eventually(() => server.streamCount + agent.streamCount === 0, 'no stream left');
});

test('opening fails and drops the stream if the peer is silent, gone or speaks another protocol', async (t) => {
  const reason = new Error('enough');
  const SILENT = { code: 'timeout' };
  const cases: [act: (far: Duplex) => void, expected: object, signal?: AbortSignal][] = [
    [() => {}, SILENT],
    [(far) => far.end(), { code: 'closed' }],
    [(far) => far.destroy(), { code: 'closed' }],
    [(far) => far.write(fromHex('02')), { code: 'protocol' }],
    [(far) => far.write(fromHex('01ffff')), { code: 'protocol' }],
    [() => {}, reason, AbortSignal.abort(reason)],
  ];
  for (const [act, expected, signal] of cases) {
    const { session, near, far } = await rawTunnel(t);
    far.resume();
    const opening = requestTunnel(
      session,
      { service: 's' },
      { timeoutMs: expected === SILENT ? 100 : 60_000, ...(signal ? { signal } : {}) },
    );
    act(far);
    await assert.rejects(opening, expected);
    if (!signal) await eventually(() => near.destroyed, 'the stream goes');
  }
  await assert.rejects(requestTunnel((await rawTunnel(t)).session, { service: 'x'.repeat(70_000) }), /too long/);
});

test('the accepting side rejects an invalid request, and does not wait forever', async (t) => {
  for (const [bytes, message] of [
    ['02', /version 2/],
    ['010002 7b7b', /not a JSON object/],
    ['010004 6e756c6c', /not a JSON object/],
    ['010002 7b7d', /not a JSON object/],
    ['01', /within 50 ms/],
  ] as const) {
    const { near, far } = await rawTunnel(t);
    far.write(fromHex(bytes));
    await assert.rejects(acceptTunnel(near, { timeoutMs: bytes === '01' ? 50 : 60_000 }), message);
  }
});

test('splice forwards both ways with half-close and counts bytes', async (t) => {
  const [a, aFar] = await socketPair(t);
  const [b, bFar] = await socketPair(t);
  const done = splice(aFar, bFar);
  a.end('question');
  assert.equal(await new Inbox(b).rest().then(String), 'question');
  // One direction is over. The other still forwards.
  b.write(Buffer.alloc(3_000_000));
  b.end('answer');
  const answer = await new Inbox(a).rest();
  assert.equal(answer.length, 3_000_006);
  assert.equal(String(answer.subarray(-6)), 'answer');
  assert.deepEqual(await done, { aToB: 8, bToA: 3_000_006 });
});

test('splice blocks the writer for a slow reader', async (t) => {
  const [a, aFar] = await socketPair(t);
  const [b, bFar] = await socketPair(t);
  const done = splice(aFar, bFar);
  const block = Buffer.alloc(1_000_000);
  let written = 0;
  for (let idle = 0; idle < 20; idle++) {
    while (written < 100_000_000 && a.write(block)) {
      written += block.length;
      idle = 0;
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok(written < 50_000_000, `${written} bytes went in without a reader`);
  assert.ok(aFar.readableLength + bFar.writableLength < 2_000_000);
  a.end();
  b.resume();
  b.end();
  assert.ok((await done).aToB >= written);
});

test('when one side of a splice breaks, the other is destroyed', async (t) => {
  for (const reset of [true, false]) {
    const [a, aFar] = await socketPair(t);
    const [b, bFar] = await socketPair(t);
    b.resume();
    const done = splice(aFar, bFar).then(
      () => 'ended',
      (err: NodeJS.ErrnoException) => err.code,
    );
    a.write('x');
    await eventually(() => bFar.bytesWritten === 1, 'carried');
    if (reset) a.resetAndDestroy();
    else aFar.destroy();
    assert.equal(await done, reset ? 'ECONNRESET' : 'ended');
    assert.ok(bFar.destroyed);
  }
  const [gone, other] = await socketPair(t);
  gone.destroy();
  await once(gone, 'close');
  await splice(gone, other);
  assert.ok(other.destroyed);
});

test('capabilities: returns the known ones of a header', () => {
  assert.equal(CAPABILITIES_HEADER, 'Platform-Capabilities');
  assert.equal(formatCapabilities(['tunnel/1', 'job-control/1']), 'tunnel/1, job-control/1');
  assert.deepEqual([...parseCapabilities('Tunnel/1,future/9 , job-control/1')], ['tunnel/1', 'job-control/1']);
  assert.equal(parseCapabilities(undefined).size, 0);
});

test('a side that closes cleanly while the other is blocked ends both, and its last bytes arrive', async (t) => {
  const [near, far] = (await webSocketPair(t, { closeTimeoutMs: 50 })).map((end) => byteStream(end)) as [
    Duplex,
    Duplex,
  ];
  const [b, bFar] = await socketPair(t);
  const done = splice(far, bFar).catch(() => {});
  // More than all buffers on the path hold: nobody reads at `near`.
  const endless = setInterval(() => b.writableLength < 1024 * 1024 && b.write(Buffer.alloc(256 * 1024)), 1);
  t.after(() => clearInterval(endless));
  b.on('error', () => {});
  await eventually(() => bFar.isPaused(), 'it is blocked');
  const received: Buffer[] = [];
  b.on('data', (part: Buffer) => received.push(part));
  near.end('last words');
  await done;
  assert.ok(bFar.destroyed && far.destroyed);
  assert.equal(Buffer.concat(received).toString(), 'last words');
});
