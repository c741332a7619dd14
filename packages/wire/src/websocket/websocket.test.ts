import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import {
  byteStreamPair,
  eventually,
  fromHex,
  Inbox,
  socketPair,
  upgradeServer,
  webSocketPair,
} from '../testing/sockets.ts';
import {
  acceptWebSocket,
  byteStream,
  dialWebSocket,
  refuseUpgrade,
  WebSocketClosedError,
  WebSocketConnection,
  WebSocketDialError,
  type WebSocketOptions,
  WebSocketUpgradeError,
} from './index.ts';
import { applyMask } from './mask.ts';

/** A client of raw bytes connected to a real server. */
async function rawClient(
  t: TestContext,
  options: WebSocketOptions = {},
): Promise<{ socket: Socket; inbox: Inbox; server: WebSocketConnection }> {
  const accepted: WebSocketConnection[] = [];
  const url = await upgradeServer(t, (req, socket, head) => accepted.push(acceptWebSocket(req, socket, head, options)));
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' });
  socket.on('error', () => {});
  t.after(() => socket.destroy());
  const inbox = new Inbox(socket);
  socket.write(
    'GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n' +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  const head = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n';
  // The key and its answer are the RFC's own example.
  const expected = `${head}Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n`;
  assert.equal((await inbox.take(expected.length)).toString(), expected);
  return { socket, inbox, server: accepted[0]! };
}

/** A frame with the mask key 0, which leaves the payload unchanged. */
function frame(first: number, payload: Uint8Array | string): Buffer {
  const body = Buffer.from(payload as string);
  assert.ok(body.length < 126);
  return Buffer.concat([Buffer.from([first, 0x80 | body.length, 0, 0, 0, 0]), body]);
}

test('masking matches the definition at every alignment, and in pieces', () => {
  const key = 0xa1b2c3f4;
  const bytes = [0xa1, 0xb2, 0xc3, 0xf4];
  for (let offset = 0; offset < 5; offset++) {
    for (const length of [0, 1, 3, 4, 5, 31, 32, 33, 67]) {
      const data = Buffer.from(new Uint8Array(offset + length).buffer, offset, length);
      for (let i = 0; i < length; i++) data[i] = i * 7;
      const expected = Buffer.from(data.map((byte, i) => byte ^ bytes[i % 4]!));
      const cut = Math.min(length, 6);
      const next = applyMask(data.subarray(0, cut), key);
      applyMask(data.subarray(cut), next);
      assert.deepEqual(data, expected, `offset ${offset}, length ${length}`);
    }
  }
});

test('text and binary messages of all length encodings arrive complete in both directions', async (t) => {
  const [client, server] = await webSocketPair(t);
  for (const [from, to] of [
    [client, server],
    [server, client],
  ] as const) {
    for (const size of [0, 1, 125, 126, 8191, 8192, 65_535, 65_536, 300_001]) {
      const sent = randomBytes(size);
      const before = Buffer.from(sent);
      const got = once(to, 'binary') as Promise<[Buffer]>;
      from.sendBinary(sent.subarray(0, size >> 1), sent.subarray(size >> 1));
      assert.ok((await got)[0].equals(before), `${size} bytes`);
      assert.ok(sent.equals(before), 'the sender keeps its bytes');
    }
    const got = once(to, 'text');
    from.sendText('grüße 🚀');
    assert.deepEqual(await got, ['grüße 🚀']);
  }
  const pong = once(client, 'pong') as Promise<[Buffer]>;
  client.ping(Buffer.from('are you there'));
  assert.equal(String((await pong)[0]), 'are you there');
});

test('the server answers pings inside a fragmented message and joins its fragments', async (t) => {
  const { socket, inbox, server } = await rawClient(t);
  const message = once(server, 'text');
  socket.write(Buffer.concat([frame(0x01, 'Hel'), frame(0x89, 'p'), frame(0x00, ''), frame(0x80, 'lo')]));
  assert.equal(await inbox.hex(3), '8a0170');
  assert.deepEqual(await message, ['Hello']);
});

test('holds a message that comes before its listener, and keeps the order', async (t) => {
  const { socket, server } = await rawClient(t);
  socket.write(Buffer.concat([frame(0x81, 'one'), frame(0x82, 'two')]));
  await eventually(() => socket.bytesWritten > 0 && server.listenerCount('text') === 0, 'written');
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  const seen: string[] = [];
  server.on('binary', (data) => seen.push(`binary ${data}`));
  server.on('text', (data) => seen.push(`text ${data}`));
  await eventually(() => seen.length === 2, 'both messages');
  assert.deepEqual(seen, ['text one', 'binary two']);
});

const breaches: [name: string, bytes: Buffer, code: number, options?: WebSocketOptions][] = [
  ['an unmasked frame', fromHex('8100'), 1002],
  ['reserved bits', frame(0xc1, ''), 1002],
  ['an unknown opcode', frame(0x83, ''), 1002],
  ['an unknown control opcode', frame(0x8b, ''), 1002],
  ['a fragmented ping', frame(0x09, ''), 1002],
  ['a ping of 126 bytes', fromHex('89fe007e'), 1002],
  ['a continuation without a message', frame(0x80, 'x'), 1002],
  ['a message inside a message', Buffer.concat([frame(0x01, 'x'), frame(0x81, 'y')]), 1002],
  ['a length of 64 bits', fromHex('82ffffffffffffffffff00000000'), 1002],
  ['a close of one byte', frame(0x88, 'x'), 1002],
  ['a close code that must not be sent', frame(0x88, fromHex('03ed')), 1002],
  ['a close reason that is not UTF-8', frame(0x88, fromHex('03e8ff')), 1007],
  ['text that is not UTF-8', frame(0x81, fromHex('c328')), 1007],
  ['a message over the limit', frame(0x82, Buffer.alloc(11)), 1009, { maxMessageBytes: 10 }],
  ['the header of a message over the limit', fromHex('828b00000000'), 1009, { maxMessageBytes: 10 }],
  [
    'the header of a part over the limit',
    Buffer.concat([frame(0x02, Buffer.alloc(6)), fromHex('808500000000')]),
    1009,
    { maxMessageBytes: 10 },
  ],
];
for (const [name, bytes, code, options] of breaches) {
  test(`${name} is answered with ${code}`, async (t) => {
    const { socket, inbox, server } = await rawClient(t, options);
    server.on('binary', () => assert.fail('delivered'));
    server.on('text', () => assert.fail('delivered'));
    socket.write(bytes);
    const answer = await inbox.rest();
    assert.equal(answer[0], 0x88);
    assert.equal(answer.readUInt16BE(2), code);
    socket.end();
    const close = await server.closed;
    assert.equal(close.clean, false);
    assert.ok(close.error);
  });
}

test('a client rejects masked frames', async (t) => {
  const url = await upgradeServer(t, (req, socket) => {
    const accept = createHash('sha1')
      .update(`${req.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest('base64');
    socket.write(
      `HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    socket.write(frame(0x81, 'x'));
  });
  const { connection } = await dialWebSocket(url, { closeTimeoutMs: 100 });
  const close = await connection.closed;
  assert.match(String(close.error?.message), /must not mask/);
});

test('a close is answered with its code and is clean on both ends', async (t) => {
  const [client, server] = await webSocketPair(t);
  client.close(4001, 'é'.repeat(100));
  const [near, far] = await Promise.all([client.closed, server.closed]);
  assert.deepEqual({ ...far, reason: far.reason.length }, { code: 4001, reason: 61, clean: true });
  assert.deepEqual({ code: near.code, clean: near.clean }, { code: 4001, clean: true });
  assert.equal(client.open, false);
  client.sendText('nothing happens');
});

test('an unanswered close ends at its timeout, and a broken socket gives 1006', async (t) => {
  const { server, socket } = await rawClient(t, { closeTimeoutMs: 30 });
  socket.pause();
  server.close(1000);
  assert.deepEqual(await server.closed, { code: 1006, reason: 'the connection broke', clean: false });

  const other = await rawClient(t);
  other.socket.resetAndDestroy();
  const close = await other.server.closed;
  assert.equal(close.code, 1006);
  assert.equal(close.clean, false);
});

test('a byte stream delivers a frame before it is complete, and text closes it with 1003', async (t) => {
  const { socket, inbox, server } = await rawClient(t);
  const stream = byteStream(server);
  const bytes = new Inbox(stream);
  socket.write(Buffer.concat([fromHex('82ff00000000000400000000 0000'), Buffer.from('begin')]));
  assert.equal(String(await bytes.take(5)), 'begin');
  socket.write(Buffer.alloc(0x40000 - 5));
  await bytes.take(0x40000 - 5);
  // Boundaries have no meaning: two frames, one of them fragmented, are six bytes.
  socket.write(Buffer.concat([frame(0x02, 'ab'), frame(0x80, 'cd'), frame(0x82, ''), frame(0x82, 'ef')]));
  assert.equal(String(await bytes.take(6)), 'abcdef');
  socket.write(frame(0x81, 'text'));
  const answer = await inbox.rest();
  assert.equal(answer.subarray(0, 4).toString('hex').slice(0, 2), '88');
  assert.equal(answer.readUInt16BE(2), 1003);
  socket.end();
  await eventually(() => stream.errored !== null, 'the error');
});

test('a byte stream ends at 1000 and 1001, and fails at other codes and at a lost socket', async (t) => {
  for (const code of [1000, 1001]) {
    const [client, server] = await webSocketPair(t);
    const stream = byteStream(server);
    client.sendBinary(Buffer.from('last words'));
    client.close(code);
    assert.equal(await text(stream), 'last words');
    assert.equal(stream.errored, null);
  }
  for (const end of [(c: WebSocketConnection) => c.close(1011, 'oops'), (c: WebSocketConnection) => c.destroy()]) {
    const [client, server] = await webSocketPair(t);
    const stream = byteStream(server);
    stream.resume();
    end(client);
    await eventually(() => stream.errored !== null, 'the error');
    assert.ok(stream.errored instanceof WebSocketClosedError);
    assert.ok(stream.errored.code === 1011 || stream.errored.code === 1006);
  }
});

test('a byte stream forwards megabytes unchanged and blocks a writer while nobody reads', async (t) => {
  const [client, server] = await byteStreamPair(t);
  for (const [from, to] of [
    [client, server],
    [server, client],
  ] as const) {
    const block = randomBytes(100_003);
    let written = 0;
    // Sockets hold a few megabytes between them. They must not accept more.
    while (written < 64_000_000 && from.write(block)) written += block.length;
    for (let idle = 0; idle < 20 && from.writableNeedDrain; idle++) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      while (!from.writableNeedDrain && written < 64_000_000) {
        from.write(block);
        written += block.length;
      }
    }
    assert.ok(written < 32_000_000, `${written} bytes went in without a reader`);
    assert.ok(from.writableLength < 1_000_000);
    assert.ok(to.readableLength < 1_000_000);
    const want = createHash('sha256');
    const have = createHash('sha256');
    let expected = 0;
    let got = 0;
    to.on('data', (chunk: Buffer) => {
      have.update(chunk);
      got += chunk.length;
    });
    await new Promise<void>((resolve) => (from.writableNeedDrain ? from.once('drain', () => resolve()) : resolve()));
    await new Promise<void>((resolve) => from.write(Buffer.alloc(1), () => resolve()));
    await eventually(() => {
      expected = Math.floor((got - 1) / block.length);
      return got > 1 && got === expected * block.length + 1;
    }, 'all of it');
    for (let i = 0; i < expected; i++) want.update(block);
    assert.equal(have.digest('hex'), want.update(Buffer.alloc(1)).digest('hex'));
  }
});

test('rejects malformed upgrades with a matching status', async (t) => {
  const answers: Record<string, number> = {};
  const url = await upgradeServer(t, (req, socket, head) => {
    try {
      acceptWebSocket(req, socket, head);
      assert.fail('accepted');
    } catch (err) {
      assert.ok(err instanceof WebSocketUpgradeError);
      answers[req.url!] = err.status;
      refuseUpgrade(socket, err.status, { message: err.message }, err.headers);
    }
  });
  const ask = async (path: string, lines: string, method = 'GET') => {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' });
    socket.write(`${method} ${path} HTTP/1.1\r\nHost: x\r\n${lines}\r\n\r\n`);
    return await text(socket);
  };
  const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket';
  await ask('/method', `${upgrade}\r\nSec-WebSocket-Version: 13\r\n${key}`, 'POST');
  const old = await ask('/version', `${upgrade}\r\nSec-WebSocket-Version: 8\r\n${key}`);
  assert.match(old, /Sec-WebSocket-Version: 13/);
  assert.match(old, /\{"message":"Unsupported WebSocket version: use version 13\."\}$/);
  await ask('/key', `${upgrade}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short`);
  await ask('/other', `Connection: Upgrade\r\nUpgrade: h2c\r\nSec-WebSocket-Version: 13\r\n${key}`);
  assert.deepEqual(answers, { '/method': 405, '/version': 426, '/key': 400, '/other': 426 });
});

test('a rejected dial reports status, headers and a bounded body', async (t) => {
  const url = await upgradeServer(t, (_req, socket) => {
    refuseUpgrade(socket, 403, { message: 'no', filler: 'x'.repeat(200_000) }, { 'X-Build': '7' });
  });
  const err = await dialWebSocket(url.replace('ws:', 'http:')).catch((e: unknown) => e);
  assert.ok(err instanceof WebSocketDialError);
  assert.equal(err.status, 403);
  assert.equal(err.headers['x-build'], '7');
  assert.equal(err.body.length, 64 * 1024);
});

test('a dial sends its headers, returns those of the answer, and negotiates a subprotocol', async (t) => {
  const url = await upgradeServer(t, (req, socket, head) => {
    const connection = acceptWebSocket(req, socket, head, { protocol: 'b', headers: { 'X-Answer': 'yes' } });
    connection.sendText(String(req.headers['x-asked']));
  });
  const { connection, responseHeaders } = await dialWebSocket(url, {
    headers: { 'X-Asked': 'me' },
    protocols: ['a', 'b'],
  });
  assert.equal(responseHeaders['x-answer'], 'yes');
  assert.equal(connection.protocol, 'b');
  assert.deepEqual(await once(connection, 'text'), ['me']);
});

test('a dial ends at its timeout, its signal, a closed port and an invalid answer', async (t) => {
  const silent = await upgradeServer(t, () => {});
  await assert.rejects(dialWebSocket(silent, { timeoutMs: 20 }), /did not answer within 20 ms/);
  const reason = new Error('enough');
  const abort = new AbortController();
  const dial = dialWebSocket(silent, { signal: abort.signal });
  setImmediate(() => abort.abort(reason));
  await assert.rejects(dial, reason);
  await assert.rejects(dialWebSocket(silent, { signal: AbortSignal.abort(reason) }), reason);
  await assert.rejects(dialWebSocket('ws://127.0.0.1:1/'), WebSocketDialError);
  await assert.rejects(dialWebSocket('ftp://127.0.0.1/'), /invalid WebSocket address/);
  const wrong = await upgradeServer(t, (_req, socket) => {
    socket.write('HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n');
  });
  await assert.rejects(dialWebSocket(wrong), /Sec-WebSocket-Accept does not match/);
});

test('a socket that ended before the connection was created ends it', async (t) => {
  for (const how of ['ended', 'destroyed'] as const) {
    const [near, far] = await socketPair(t);
    near.on('error', () => {});
    if (how === 'destroyed') near.destroy();
    else {
      near.resume();
      far.end();
      await once(near, 'end');
    }
    const connection = new WebSocketConnection(near, 'server', Buffer.alloc(0), '', {});
    assert.equal((await connection.closed).code, 1006);
  }
});

test('loses no bytes that come before a byte stream reads, however soon it resumes', async () => {
  const [near, far] = duplexPair();
  // a frame that arrives after the handshake, in a turn of the event loop before the connection reads
  far.write(Buffer.from([0x82, 3, ...Buffer.from('abc')]));
  const stream = byteStream(new WebSocketConnection(near, 'client', Buffer.alloc(0), '', {}));
  const [first] = (await once(stream, 'data', { signal: AbortSignal.timeout(5_000) })) as [Buffer];
  assert.equal(first.toString(), 'abc');
  stream.destroy();
  far.destroy();
});
