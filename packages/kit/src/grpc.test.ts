import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type IncomingHttpHeaders } from 'node:http2';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { GRPC_STATUS, GrpcError, type GrpcHandler, type GrpcServer, grpcTimeout, serveGrpc } from './grpc.ts';
import { silentLogger } from './log.ts';

describe('gRPC server', () => {
  let dir: string;
  let server: GrpcServer;
  const handlers = new Map<string, GrpcHandler>([
    ['/t.S/Echo', async (request) => request],
    ['/t.S/Fail', async () => Promise.reject(new Error('it broke: 50%'))],
    [
      '/t.S/Hang',
      (_request, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason))),
    ],
    [
      '/t.S/Count',
      async function* ([most = 0, status = 0]) {
        for (let count = 0; count < most; count++) yield Uint8Array.of(count);
        if (status !== 0) throw new GrpcError(status, 'no more');
      },
    ],
    ['/t.S/Flood', flood],
    [
      '/t.S/Wait',
      async function* (_request, { signal }) {
        yield new Uint8Array();
        await new Promise((done) => signal.addEventListener('abort', done));
        ended++;
      },
    ],
  ]);
  let ended = 0;
  let flooded = 0;
  const drained = Promise.withResolvers<void>();
  async function* flood() {
    try {
      for (; flooded < 10_000; flooded++) yield new Uint8Array(1024);
    } finally {
      drained.resolve();
    }
  }

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

  test('streams responses and their status', async () => {
    const answer = await call('/t.S/Count', framed(Buffer.of(3)));
    assert.equal(answer.status, '0');
    assert.deepEqual(answer.body, Buffer.concat([0, 1, 2].map((count) => framed(Buffer.of(count)))));
    assert.deepEqual(await call('/t.S/Count', framed(Buffer.of(1, GRPC_STATUS.notFound))), {
      status: '5',
      message: 'no more',
      body: framed(Buffer.of(0)),
    });
    assert.equal((await call('/t.S/Count', framed(Buffer.of(0, GRPC_STATUS.notFound)))).status, '5');
    assert.equal((await call('/t.S/Count', framed(Buffer.alloc(0)))).status, '0');
    assert.equal((await call('/t.S/Wait', framed(Buffer.alloc(0)), { 'grpc-timeout': '500m' })).status, '4');
    assert.equal(ended, 1);
  });

  test('a client that does not read holds a stream up, and ends it when it leaves', async () => {
    const session = connect('http://localhost', { createConnection: () => createConnection(join(dir, 's')) });
    session.on('error', () => {});
    const stream = session.request({ ':method': 'POST', ':path': '/t.S/Flood', 'content-type': 'application/grpc' });
    stream.on('error', () => {});
    stream.end(framed(Buffer.alloc(0)));
    await once(stream, 'response');
    let before: number;
    do {
      before = flooded;
      await new Promise((done) => setTimeout(done, 100));
    } while (flooded !== before);
    assert.ok(flooded < 1_000, `${flooded} messages are in memory`);
    session.destroy();
    await drained.promise;
    assert.ok(flooded < 1_000, 'it ends early');
  });

  test('a stream ends in its own way when the server closes', async () => {
    const own = await serveGrpc(join(dir, 'own'), handlers, silentLogger);
    const session = connect('http://localhost', { createConnection: () => createConnection(join(dir, 'own')) });
    const stream = session.request({ ':method': 'POST', ':path': '/t.S/Wait', 'content-type': 'application/grpc' });
    stream.end(framed(Buffer.alloc(0)));
    stream.resume();
    const trailers = once(stream, 'trailers');
    await once(stream, 'response');
    await own.close();
    assert.equal((await trailers)[0]['grpc-status'], '0');
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
