import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { after, before, test } from 'node:test';
import { createCertificate } from '@ropewalk/kit/certificate';
import { eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { acceptWebSocket, dialWebSocket } from '@ropewalk/wire/websocket';
import { connect as connectDatabase } from '../../db/connect.ts';
import { type Echo, startTestApp, type TestApp } from './testing/app.ts';
import { ask, open } from './testing/ask.ts';

let server: TestServer;
let app: TestApp;
let workspace: TestWorkspace;
const HOST = 'web--main--dev--admin.apps.test';
const PATH = '/@admin/dev.main/apps/web';

before(async () => {
  server = await startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.test' } });
  app = await startTestApp();
  const url = `http://localhost:${app.port}`;
  workspace = await startTestWorkspace(server, 'dev', {
    agent: {
      apps: [
        { slug: 'web', url },
        { slug: 'open', url, sharingLevel: 2 },
        { slug: 'known', url, sharingLevel: 1 },
        { slug: 'base', url: `${url}/base/?folder=/home` },
        { slug: 'outside', url: 'https://example.com', external: true },
        { slug: 'shell', command: 'htop' },
      ] as never,
    },
  });
});
after(async () => {
  await workspace.stop();
  await app.close();
  await server.stop();
});

const auth = () => ({ 'Coder-Session-Token': server.adminToken });

test('adds the slash to the bare path of an app, and passes the rest without the session', async () => {
  const bare = await ask(server.url, { path: `${PATH}?a=1`, headers: auth() });
  assert.equal(bare.status, 307);
  assert.equal(bare.headers.location, `${PATH}/?a=1`);
  const cookie = `mine=1; coder_session_token=${server.adminToken}; csrf_token=x; other=2`;
  const answer = await ask(server.url, {
    path: `${PATH}/x/y?q=%2F`,
    headers: { Cookie: cookie, 'X-Custom': 'kept', 'Keep-Alive': '1', Connection: 'close, x-hop', 'X-Hop': '1' },
  });
  assert.equal(answer.status, 200, answer.body);
  const echo = JSON.parse(answer.body) as Echo;
  assert.equal(echo.url, '/x/y?q=%2F');
  assert.equal(echo.headers['cookie'], 'mine=1; other=2');
  assert.equal(echo.headers['x-custom'], 'kept');
  assert.equal(echo.headers['x-hop'], undefined);
  assert.equal(echo.headers['keep-alive'], undefined);
  assert.equal(echo.headers['host'], new URL(server.url).host);
  assert.equal(echo.headers['x-forwarded-host'], new URL(server.url).host);
  assert.equal(echo.headers['x-forwarded-for'], '127.0.0.1');
  assert.equal(echo.headers['x-forwarded-proto'], 'http');
  assert.doesNotMatch(answer.body, new RegExp(server.adminToken));
  assert.match(
    answer.headers['set-cookie']![0]!,
    /^coder_signed_app_token=.*; Path=\/@admin\/dev\.main\/apps\/web\/; .*HttpOnly; SameSite=Lax$/,
  );
});

test('serves a subdomain app with and without the agent in its name, a port, and an app with a path', async () => {
  for (const host of [HOST, 'web--dev--admin.apps.test', `${HOST}:3000`, `${app.port}--main--dev--admin.apps.test`]) {
    const answer = await ask(server.url, { host, path: '/x?y', headers: auth() });
    assert.equal(answer.status, 200, answer.body);
    const echo = JSON.parse(answer.body) as Echo;
    assert.equal(echo.url, '/x?y');
    assert.equal(echo.headers['host'], host);
    assert.equal(echo.headers['coder-session-token'], undefined);
  }
  const front = await ask(server.url, { host: 'base--main--dev--admin.apps.test', headers: auth() });
  assert.deepEqual([front.status, front.headers.location], [307, '/?folder=/home']);
  const inner = await ask(server.url, {
    host: 'base--main--dev--admin.apps.test',
    path: '/?folder=1',
    headers: auth(),
  });
  assert.equal((JSON.parse(inner.body) as Echo).url, '/base/?folder=1');
  for (const [path, received] of [
    ['/base/assets/a.css?v=1', '/base/assets/a.css?v=1'],
    ['/base?x=1', '/base?x=1'],
    ['/based', '/base/based'],
    ['/base/base/', '/base/base/'],
  ] as const) {
    const own = await ask(server.url, { host: 'base--main--dev--admin.apps.test', path, headers: auth() });
    assert.equal((JSON.parse(own.body) as Echo).url, received, 'its own links have its path already');
  }
  const byPath = await ask(server.url, { path: '/@admin/dev/apps/base/base/x', headers: auth() });
  assert.equal((JSON.parse(byPath.body) as Echo).url, '/base/base/x');
  const out = await ask(server.url, {
    host: 'base--main--dev--admin.apps.test',
    path: '/../beside',
    headers: auth(),
  });
  assert.equal(out.status, 400, 'a path next to that of the app does not belong to the app');
});

test('serves only the app on an app host', async () => {
  for (const path of ['/api/v2/buildinfo', '/healthz', '/login', '/', '/@admin/dev/apps/web/']) {
    const answer = await ask(server.url, { host: HOST, path, headers: auth() });
    assert.equal((JSON.parse(answer.body) as Echo).url, path, 'it is the app that answers');
    const nothing = await ask(server.url, { host: 'nothing.apps.test', path, headers: auth() });
    assert.equal(nothing.status, 404);
  }
});

test('passes event streams, uploads and answers without a body', async () => {
  const stream = await open(server.url, { host: HOST, path: '/sse', headers: auth() });
  const [first] = (await once(stream, 'data')) as [Buffer];
  assert.equal(first.toString(), 'data: first\n\n');
  [...app.open][0]!.write('data: second\n\n');
  const [second] = (await once(stream, 'data')) as [Buffer];
  assert.equal(second.toString(), 'data: second\n\n');
  stream.destroy();
  await eventually('the app sees that its reader is gone', async () => app.open.size === 0);
  const body = randomBytes(3 * 1024 * 1024 + 17);
  const hash = createHash('sha256').update(body).digest('hex');
  const framings: Record<string, string>[] = [
    { 'Transfer-Encoding': 'chunked' },
    { 'Content-Length': String(body.length), Expect: '100-continue' },
  ];
  for (const headers of framings) {
    const answer = await ask(server.url, {
      method: 'POST',
      host: HOST,
      path: '/upload',
      headers: { ...auth(), ...headers },
      body,
    });
    assert.deepEqual(JSON.parse(answer.body), { bytes: body.length, hash });
  }
  const head = await ask(server.url, { method: 'HEAD', host: HOST, path: '/big?bytes=10', headers: auth() });
  assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, '10', '']);
  const big = await ask(server.url, { host: HOST, path: '/big?bytes=5000000', headers: auth() });
  assert.equal(big.body.length, 5_000_000);
});

test('passes WebSockets and their rejections', async () => {
  const base = server.url.replace('http', 'ws');
  const { connection, responseHeaders } = await dialWebSocket(`${base}${PATH}/ws`, { headers: auth() });
  assert.deepEqual(
    responseHeaders['set-cookie']?.map((text) => text.split('=')[0]),
    ['coder_signed_app_token'],
  );
  connection.sendText('hello');
  const [message] = await once(connection, 'text');
  assert.equal(message, 'hello');
  connection.close();
  await assert.rejects(dialWebSocket(`${base}${PATH}/refused`, { headers: auth() }), /403/);
  await assert.rejects(dialWebSocket(`${base}${PATH}/ws`), /401/);
  const evil = { ...auth(), Origin: 'https://evil.example' };
  await assert.rejects(dialWebSocket(`${base}${PATH}/ws`, { headers: evil }), /403/);
});

test('enforces the share levels of apps, and keeps path apps for their owner', async () => {
  const other = await insertPerson(server, 'other');
  const as = async (slug: string, token: string | null, kind = 'host') =>
    (
      await ask(server.url, {
        ...(kind === 'host' ? { host: `${slug}--main--dev--admin.apps.test` } : { path: `/@admin/dev/apps/${slug}/` }),
        headers: token ? { 'Coder-Session-Token': token } : {},
      })
    ).status;
  assert.deepEqual([await as('web', other.token), await as('web', null)], [404, 401]);
  assert.deepEqual([await as('known', other.token), await as('known', null)], [200, 401]);
  assert.deepEqual([await as('open', other.token), await as('open', null)], [200, 200]);
  assert.deepEqual([await as('open', other.token, 'path'), await as('open', null, 'path')], [404, 401]);
  assert.deepEqual([await as('outside', server.adminToken), await as('shell', server.adminToken)], [404, 404]);
  assert.equal(await as(String(app.port), server.adminToken, 'path'), 404, 'ports only by host');
});

test('sends the database no query with a grant or a token that was just verified', async () => {
  const first = await ask(server.url, { host: HOST, path: '/', headers: auth() });
  const cookie = first.cookies[0]!;
  const blocker = connectDatabase(server.services.config.postgresUrl, { max: 1 });
  try {
    await blocker.begin(async (tx) => {
      await tx`LOCK TABLE users, api_keys, workspaces, workspace_agents, workspace_apps, workspace_builds,
        workspace_agent_port_shares, templates, site_config IN ACCESS EXCLUSIVE MODE`;
      // few enough for the five seconds in which a verified token is believed, on a busy machine too
      for (let i = 0; i < 20; i++) {
        const answer = await ask(server.url, { host: HOST, path: `/${i}`, headers: { Cookie: cookie } });
        assert.equal(answer.status, 200);
      }
      assert.equal((await ask(server.url, { host: HOST, path: '/', headers: auth() })).status, 200);
    });
  } finally {
    await blocker.end();
  }
});

test('serves an https app with a self-signed certificate, and reports one that does not speak TLS', async () => {
  const secure = createTlsServer(createCertificate({ name: 'app', validMs: 86_400_000 }), (request, response) =>
    response.end(`secure ${request.url}`),
  );
  secure.on('upgrade', (request, socket, head) => {
    const connection = acceptWebSocket(request, socket, head);
    connection.on('text', (text) => connection.sendText(text));
  });
  secure.listen(0, '127.0.0.1');
  await once(secure, 'listening');
  const { port } = secure.address() as AddressInfo;
  const host = `${port}s--main--dev--admin.apps.test`;
  for (const path of ['/a', '/b']) {
    const answer = await ask(server.url, { host, path, headers: auth() });
    assert.deepEqual([answer.status, answer.body], [200, `secure ${path}`]);
  }
  const { connection } = await dialWebSocket(`${server.url.replace('http', 'ws')}/x`, {
    headers: { ...auth(), Host: host },
  });
  connection.sendText('hello');
  assert.deepEqual(await once(connection, 'text'), ['hello']);
  connection.close();
  const plain = await ask(server.url, { host: `${app.port}s--main--dev--admin.apps.test`, headers: auth() });
  assert.equal(plain.status, 502);
  assert.match(plain.body, /does not speak https/);
  secure.closeAllConnections();
  secure.close();
});

test('applies back-pressure from a slow reader to the app, and from a slow app to its uploader', async () => {
  const MIB = 1024 * 1024;
  let sent = 0;
  const part = Buffer.alloc(64 * 1024);
  const pouring = await startTestApp((request, response) => {
    if (request.method === 'POST') {
      request.pause();
      return true;
    }
    const more = () => {
      while (!response.destroyed) {
        sent += part.length;
        if (!response.write(part)) return void response.once('drain', more);
      }
    };
    more();
    return true;
  });
  const host = `${pouring.port}--main--dev--admin.apps.test`;
  /** A growing count, once it stops growing. */
  const still = async (count: () => number) => {
    let last = -1;
    return eventually('it is held back', async () => {
      const now = count();
      const stands = now > 0 && now === last;
      last = now;
      await new Promise((done) => setTimeout(done, 100));
      return stands ? now : undefined;
    });
  };
  const download = await open(server.url, { host, headers: auth() });
  assert.ok((await still(() => sent)) < 32 * MIB, `${sent} bytes were taken from the app`);
  download.on('error', () => {}).destroy();
  const { hostname, port } = new URL(server.url);
  const uploader = connect(Number(port), hostname);
  uploader.on('error', () => {});
  uploader.write(
    `POST / HTTP/1.1\r\nHost: ${host}\r\nCoder-Session-Token: ${server.adminToken}\r\nContent-Length: 1000000000\r\n\r\n`,
  );
  const pour = () => {
    while (uploader.write(part));
  };
  uploader.on('drain', pour);
  pour();
  assert.ok((await still(() => uploader.bytesWritten)) < 32 * MIB, `${uploader.bytesWritten} bytes were taken`);
  uploader.destroy();
  await pouring.close();
});

test('leaves nothing behind after many opened and dropped requests', async () => {
  const sockets = () => {
    const list = process.getActiveResourcesInfo();
    return list.filter((name) => /TCP/.test(name)).length;
  };
  const before = sockets();
  const url = `${server.url.replace('http', 'ws')}${PATH}/ws`;
  for (let round = 0; round < 5; round++) {
    const opened = await Promise.all(Array.from({ length: 40 }, () => dialWebSocket(url, { headers: auth() })));
    for (const { connection } of opened) connection.on('text', () => {}).destroy();
    const streams = await Promise.all(
      Array.from({ length: 10 }, () => open(server.url, { host: HOST, path: '/sse', headers: auth() })),
    );
    for (const stream of streams) stream.on('error', () => {}).destroy();
  }
  await eventually('all sockets are closed', async () => app.open.size === 0 && sockets() <= before, 5_000).catch(
    (err) => {
      throw new Error(`${(err as Error).message}: ${before} before, ${sockets()} now`);
    },
  );
});
