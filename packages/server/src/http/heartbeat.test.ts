import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { test } from 'node:test';
import { acceptWebSocket, byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { heartbeat } from './heartbeat.ts';

test('keeps a connection that answers pings, and ends one that does not', async (t) => {
  const accepted: Duplex[] = [];
  const server = createServer().listen(0, '127.0.0.1');
  server.on('upgrade', (request, socket, head) => {
    const connection = acceptWebSocket(request, socket, head);
    const stream = byteStream(connection);
    stream.resume();
    heartbeat(connection, stream, { pingMs: 10, silenceMs: 100 });
    accepted.push(stream);
  });
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const live = await dialWebSocket(`ws://127.0.0.1:${port}/`);
  const silent = connect(port, '127.0.0.1');
  const key = 'dGhlIHNhbXBsZSBub25jZQ==';
  silent.write(
    `GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`,
  );
  silent.resume();
  // no processor for longer than a connection may be silent
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
  await once(silent, 'close');
  assert.equal(accepted[1]!.destroyed, true);
  assert.match(String(accepted[1]!.errored), /no answer to pings for 100 ms/);
  assert.equal(accepted[0]!.destroyed, false);
  live.connection.close();
  await live.connection.closed;
});
