import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type IncomingHttpHeaders } from 'node:http2';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type GrpcServer, grpcTimeout, serveGrpc, type UnaryHandler } from './grpc.ts';
import { silentLogger } from './log.ts';

describe('gRPC server', () => {
  let dir: string;
  let server: GrpcServer;
  const handlers = new Map<string, UnaryHandler>([
    ['/t.S/Echo', async (request) => request],
    ['/t.S/Fail', async () => Promise.reject(new Error('it broke: 50%'))],
    [
      '/t.S/Hang',
      (_request, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason))),
    ],
  ]);

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'grpc-'));
    server = await serveGrpc(join(dir, 's'), handlers, silentLogger);
  });
  after(async () => {
    await server.close();
    await rm(dir, { recursive: true });
  });

  function call(path: string, raw: Buffer, headers: Record<string, string> = {}) {
    const session = connect('http://localhost', { createConnection: () => createConnection(join(dir, 's')) });
    return new Promise<{ status: string; message: string; body: Buffer }>((resolve, reject) => {
      session.on('error', reject);
      const stream = session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
        ...headers,
      });
      const parts: Buffer[] = [];
      let seen: IncomingHttpHeaders = {};
      stream.on('response', (h) => {
        seen = { ...seen, ...h };
      });
      stream.on('trailers', (h) => {
        seen = { ...seen, ...h };
      });
      stream.on('data', (part: Buffer) => parts.push(part));
      stream.on('error', reject);
      stream.on('close', () => {
        session.close();
        resolve({
          status: String(seen['grpc-status']),
          message: decodeURIComponent(String(seen['grpc-message'] ?? '')),
          body: Buffer.concat(parts),
        });
      });
      stream.end(raw);
    });
  }
  const framed = (body: Buffer) => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(body.length, 1);
    return Buffer.concat([head, body]);
  };

  test('answers, including large messages', async () => {
    for (const size of [0, 10, 3_000_000]) {
      const message = framed(Buffer.alloc(size, 7));
      const answer = await call('/t.S/Echo', message);
      assert.equal(answer.status, '0');
      assert.ok(answer.body.equals(message), `echoes ${size} bytes`);
    }
  });

  test('reports failures as status', async () => {
    assert.deepEqual(await call('/t.S/Fail', framed(Buffer.alloc(0))), {
      status: '13',
      message: 'it broke: 50%',
      body: Buffer.alloc(0),
    });
    assert.equal((await call('/t.S/None', framed(Buffer.alloc(0)))).status, '12');
    assert.equal((await call('/t.S/Echo', Buffer.from([1, 0, 0, 0, 0]))).status, '12');
    assert.equal((await call('/t.S/Echo', Buffer.from([0, 0]))).status, '13');
    assert.equal((await call('/t.S/Echo', Buffer.from([0, 0, 0, 0, 9, 1]))).status, '13');
    assert.equal((await call('/t.S/Hang', framed(Buffer.alloc(0)), { 'grpc-timeout': '20m' })).status, '4');
  });

  test('parses timeouts', () => {
    assert.equal(grpcTimeout('2S'), 2000);
    assert.equal(grpcTimeout('1H'), 3_600_000);
    assert.equal(grpcTimeout('500u'), 0.5);
    assert.equal(grpcTimeout('99999999H'), 2 ** 31 - 1);
    for (const bad of [undefined, '', 'x', '1', '123456789S']) assert.equal(grpcTimeout(bad), undefined);
  });

  test('rejects a second server on the socket', async () => {
    await assert.rejects(serveGrpc(join(dir, 's'), handlers, silentLogger), { code: 'unavailable' });
  });
});
