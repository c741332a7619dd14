import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { createForwarder } from './forward.ts';
import { refusalOf } from './plan.ts';
import { startTestApp, type TestApp } from './testing/app.ts';
import { ask, raw } from './testing/ask.ts';

/** Apps and callers that violate HTTP, over real sockets. */
let server: TestServer;
let app: TestApp;
let workspace: TestWorkspace;
const HOST = 'web--main--dev--admin.apps.test';

before(async () => {
  server = await startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.test' } });
  app = await startTestApp();
  const url = `http://localhost:${app.port}`;
  workspace = await startTestWorkspace(server, 'dev', { agent: { apps: [{ slug: 'web', url }] as never } });
});
after(async () => {
  await workspace.stop();
  await app.close();
  await server.stop();
});

const auth = () => ({ 'Coder-Session-Token': server.adminToken });
const head = (target: string, host = HOST) =>
  `${target} HTTP/1.1\r\nHost: ${host}\r\nCoder-Session-Token: ${server.adminToken}\r\n`;
/** The status of the first answer. */
const status = (text: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]);

test('rejects ambiguous requests before they reach an app', async () => {
  const cases: Record<string, string> = {
    'both framings': `${head('POST /smuggled')}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'two lengths': `${head('POST /smuggled')}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`,
    'equal lengths': `${head('POST /smuggled')}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello`,
    'a list of lengths': `${head('POST /smuggled')}Content-Length: 5, 5\r\n\r\nhello`,
    'a signed length': `${head('POST /smuggled')}Content-Length: +5\r\n\r\nhello`,
    'a coding beside chunked': `${head('POST /smuggled')}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
    'a bare line feed': `${head('GET /smuggled')}X-A: 1\nX-B: 2\r\n\r\n`,
    'a bare carriage return': `${head('GET /smuggled')}X-A: 1\rX-B: 2\r\n\r\n`,
    'a folded line': `${head('GET /smuggled')}X-A: 1\r\n folded\r\n\r\n`,
    'a space before the colon': `${head('GET /smuggled')}Content-Length : 5\r\n\r\nhello`,
    'a zero byte': `${head('GET /smuggled')}X-A: a\0b\r\n\r\n`,
    'two hosts': `${head('GET /smuggled')}Host: other.apps.test\r\n\r\n`,
    'a target of another host': `${head('GET http://nothing.apps.test/smuggled')}\r\n`,
    'a target of another scheme': `${head(`GET ftp://${HOST}/smuggled`)}\r\n`,
    'no target': `${head('OPTIONS *')}\r\n`,
    'a bad chunk': `${head('POST /chunk')}Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n`,
  };
  for (const [what, bytes] of Object.entries(cases)) {
    const before = app.seen.length;
    const text = await raw(server.url, bytes, (got) => got.includes('\r\n\r\n'));
    // a body that breaks while it is forwarded breaks the app's request, too
    if (what !== 'a bad chunk') {
      assert.equal(status(text), 400, `${what}: ${text.slice(0, 200)}`);
      assert.equal(app.seen.length, before, `${what} reached the app`);
    } else assert.doesNotMatch(text, /^HTTP\/1\.1 200/, what);
  }
  const absolute = await raw(server.url, `${head(`GET http://${HOST}/fine`)}Connection: close\r\n\r\n`);
  assert.equal(status(absolute), 200);
  assert.equal(app.seen.at(-1)!.url, '/fine');
});

test('treats bytes after a request as a separate request, with its own authorization', async () => {
  const before = app.seen.length;
  const text = await raw(
    server.url,
    `${head('GET /one')}\r\nGET /two HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`,
  );
  assert.deepEqual(
    [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code]) => code),
    ['200', '401'],
  );
  assert.deepEqual(
    app.seen.slice(before).map(({ url }) => url),
    ['/one'],
  );
});

test('leads no spelling of a path from a path app to another or to the API', async () => {
  const base = '/@admin/dev/apps/web';
  for (const rest of [
    '/../../../../api/v2/users/me',
    '/..%2f..%2f..%2f..%2fapi/v2/users/me',
    '/%2e%2e/%2e%2e/%2e%2e/%2e%2e/api/v2/users/me',
    '/..%5c..%5capi',
    '/.%2e/other',
    '/a/..\\..\\b',
    '/..;x=1/..%3b/api',
    '%2f..%2fother/',
  ]) {
    const answer = await ask(server.url, { path: base + rest, headers: auth() });
    assert.equal(answer.status, 400, rest);
    assert.match(answer.body, /leads out of the app/);
  }
  for (const path of ['/@admin/dev/apps/', '/@admin/dev/apps', '/@admin%2fdev/dev/apps/web/']) {
    assert.equal((await ask(server.url, { path, headers: auth() })).status, 404, path);
  }
  const dots = await ask(server.url, { path: `${base}/a..b/...?x=../..`, headers: auth() });
  assert.equal(dots.status, 200, 'dots that climb nowhere');
});

test('removes this server’s cookies, cookies for other hosts and origin-wide headers from answers of apps', async () => {
  const setter = await startTestApp((_request, response) => {
    response.writeHead(200, {
      'Set-Cookie': [
        'fine=1; Path=/',
        'coder_session_token=evil',
        '=coder_session_token=evil',
        ' Coder_signed_app_token=kept',
        'coder_signed_app_token=evil',
        'wide=1; Domain=apps.test',
        'wider=1; domain=.test',
        'own=1; Domain=HOST',
      ].map((text) => text.replace('HOST', _request.headers.host!)),
      'Alt-Svc': 'h3=":443"',
      'Service-Worker-Allowed': '/',
    });
    response.end();
    return true;
  });
  const answer = await ask(server.url, { host: `${setter.port}--main--dev--admin.apps.test`, headers: auth() });
  assert.deepEqual(
    answer.cookies.filter((cookie) => !/^coder_signed_app_token=ey/.test(cookie)),
    ['fine=1', 'Coder_signed_app_token=kept', 'own=1'],
  );
  await setter.close();
});

/** An app that is a bare socket. */
async function socketApp(serve: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const listener = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    serve(socket);
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  return {
    port,
    sockets,
    host: `${port}--main--dev--admin.apps.test`,
    async close() {
      for (const socket of sockets) socket.destroy();
      listener.close();
      await once(listener, 'close');
    },
  };
}

test('shows a clear page for malformed answers, and leaves nothing open', async () => {
  const ok = 'HTTP/1.1 200 OK\r\n';
  const cases: Record<string, { answer: string; says: RegExp }> = {
    garbage: { answer: 'hello, this is not http\r\n\r\n', says: /not valid HTTP/ },
    'another protocol': { answer: '\x16\x03\x01\x02\0', says: /not valid HTTP/ },
    '100,000 headers': { answer: ok + 'X-A: b\r\n'.repeat(100_000), says: /larger than 64 KiB/ },
    'one endless header': { answer: `${ok}X-A: ${'a'.repeat(1_000_000)}`, says: /larger than 64 KiB/ },
    nothing: { answer: '', says: /closed the connection before/ },
    'half a head': { answer: `${ok}Content-Le`, says: /closed the connection before/ },
    'both framings': {
      answer: `${ok}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      says: /not valid HTTP/,
    },
    'two lengths': { answer: `${ok}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`, says: /not valid HTTP/ },
    'a switch nobody asked for': {
      answer: 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
      says: /did not ask for that/,
    },
    'a folded line': { answer: `${ok}X-A: 1\r\n folded\r\nContent-Length: 0\r\n\r\n`, says: /not valid HTTP/ },
  };
  for (const [what, { answer, says }] of Object.entries(cases)) {
    const bad = await socketApp((socket) => {
      socket.once('data', () => socket.end(answer, 'latin1'));
    });
    const json = await ask(server.url, { host: bad.host, headers: auth() });
    assert.equal(json.status, 502, what);
    assert.match(json.body, says, what);
    const html = await ask(server.url, { host: bad.host, headers: { ...auth(), Accept: 'text/html' } });
    assert.match(html.body, /<!doctype html>/i, what);
    assert.match(html.body, says, what);
    await eventually(`${what}: the connections are closed`, async () => bad.sockets.size === 0);
    await bad.close();
  }
});

test('ends the answer of an app that breaks off as incomplete', async () => {
  for (const answer of [
    'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
  ]) {
    const bad = await socketApp((socket) => socket.once('data', () => socket.end(answer)));
    const text = await raw(server.url, `${head('GET /', bad.host)}\r\n`);
    assert.match(text, /half/);
    assert.doesNotMatch(text, /0\r\n\r\n$/, 'no mark of a complete end');
    await bad.close();
  }
});

test('gives bytes behind an answer to nobody', async () => {
  let asked = 0;
  const bad = await socketApp((socket) =>
    socket.on('data', () => {
      asked++;
      socket.write(
        `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n${asked}!HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`,
      );
    }),
  );
  for (let i = 1; i <= 3; i++) {
    const answer = await ask(server.url, { host: bad.host, headers: auth() });
    assert.equal(answer.body, `${i}!`);
  }
  await bad.close();
});

test('accepts large headers of a caller, and rejects endless ones', async () => {
  const large = await ask(server.url, { host: HOST, headers: { ...auth(), Cookie: `a=${'x'.repeat(40_000)}` } });
  assert.equal(large.status, 200);
  const before = app.seen.length;
  const endless = await raw(server.url, `${head('GET /')}${'X-A: b\r\n'.repeat(100_000)}\r\n`);
  // the answer may be lost where the caller still sends
  assert.ok(status(endless) === 431 || endless === '', endless);
  assert.equal(app.seen.length, before);
});

test('gives the reason for a closed port or a stopped agent', async () => {
  const gone = await socketApp(() => {});
  await gone.close();
  const answer = await ask(server.url, { host: gone.host, headers: { ...auth(), Accept: 'text/html' } });
  assert.equal(answer.status, 502);
  assert.match(answer.body, /nothing listens there/);
});

test('reuses a bounded number of connections to an app, and none after an incomplete exchange', async () => {
  let connections = 0;
  const real = createHttpServer((request, response) => {
    if (request.url === '/cut') return void response.destroy();
    // answers before it has read the upload
    if (request.url === '/early') return void response.writeHead(413).end('too much');
    request.resume().on('end', () => response.end(String(connections)));
  });
  real.on('connection', () => connections++);
  real.listen(0, '127.0.0.1');
  await once(real, 'listening');
  const host = `${(real.address() as AddressInfo).port}--main--dev--admin.apps.test`;
  for (let i = 0; i < 5; i++) assert.equal((await ask(server.url, { host, headers: auth() })).body, '1');
  assert.equal((await ask(server.url, { host, path: '/cut', headers: auth() })).status, 502);
  const afterCut = await ask(server.url, { host, headers: auth() });
  assert.equal(afterCut.status, 200);
  // an upload that breaks off
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  socket.write(`${head('POST /', host)}Content-Length: 100\r\n\r\nhalf`);
  await eventually('the app has the half', async () => connections >= 2 || undefined);
  socket.destroy();
  const next = await ask(server.url, { method: 'POST', host, headers: auth(), body: 'whole' });
  assert.equal(next.status, 200);
  const early = await ask(server.url, {
    method: 'POST',
    path: '/early',
    host,
    headers: auth(),
    body: Buffer.alloc(100_000),
  });
  assert.equal(early.status, 413);
  real.closeAllConnections();
  real.close();
});

test('answers 504 for an app that never answers, and closes its connection', async () => {
  const silent = await socketApp((socket) => socket.resume());
  const forwarder = createForwarder(
    async ({ port }) => {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      return socket;
    },
    { answerMs: 50 },
  );
  let over = 0;
  const front = createHttpServer((request, response) => {
    const plan = {
      target: { agent: 'a', port: silent.port, https: false },
      kind: 'subdomain' as const,
      path: '/',
      forwardedFor: '',
      host: 'x',
      hostName: 'x',
      proto: 'http',
      answerHeaders: [],
      cors: [],
      explain: async (err: Error) => refusalOf(err),
    };
    forwarder.request(request, response, plan, () => over++);
  });
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  const answer = await ask(`http://127.0.0.1:${(front.address() as AddressInfo).port}`);
  assert.equal(answer.status, 504);
  assert.match(answer.body, /does not answer/);
  await eventually('the connection is closed', async () => silent.sockets.size === 0);
  assert.equal(over, 1);
  forwarder.close();
  front.close();
  await silent.close();
});
