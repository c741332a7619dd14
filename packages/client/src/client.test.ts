import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { acceptWebSocket, byteStream, refuseUpgrade } from '@ropewalk/wire/websocket';
import { createClient } from './client.ts';
import { ApiError, apiErrorText } from './errors.ts';
import { nodeFetch } from './node-fetch.ts';
import { followJson, openTunnel } from './stream.ts';

async function serve(t: TestContext, listener: RequestListener) {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

for (const [name, fetch] of [
  ['our own fetch', nodeFetch],
  ["Node's fetch", globalThis.fetch],
] as const) {
  test(`a call sends path, query, body and token over ${name}`, async (t) => {
    const seen: unknown[] = [];
    const { url } = await serve(t, async (req, res) => {
      let body = '';
      for await (const part of req) body += String(part);
      seen.push([req.method, req.url, req.headers['coder-session-token'], req.headers['x-more'], body]);
      res.setHeader('Content-Type', 'application/json');
      res.end(JSON.stringify({ id: 'x' }));
    });
    const client = createClient({ url: `${url}/base/`, token: 'tok', fetch, headers: { 'X-More': 'm' } });
    const answer = await client.call('GET /workspaces/{workspace}', {
      params: { workspace: 'a/b' },
      query: { include_deleted: true },
    });
    assert.equal(answer.id, 'x');
    await client.call('POST /users/login', { body: { email: 'é', password: 'p' } });
    assert.deepEqual(seen, [
      ['GET', '/base/api/v2/workspaces/a%2Fb?include_deleted=true', 'tok', 'm', ''],
      ['POST', '/base/api/v2/users/login', 'tok', 'm', '{"email":"é","password":"p"}'],
    ]);
  });
}

test("the server's error keeps its parts and reads as sentences", async (t) => {
  const { url } = await serve(t, (_req, res) => {
    res.writeHead(400, { 'Content-Type': 'application/json; charset=utf-8' });
    res.end('{"message":"Bad name","detail":"Why.","validations":[{"field":"name","detail":"too long"}]}');
  });
  const client = createClient({ url, token: '', fetch: nodeFetch });
  const err = await client.call('GET /users/first').catch((thrown: unknown) => thrown);
  assert.ok(err instanceof ApiError);
  assert.equal(err.status, 400);
  assert.equal(apiErrorText(err), 'Bad name. Why. name: too long');
});

test('reports answers that do not come from this API', async (t) => {
  const { url } = await serve(t, (req, res) => {
    if (req.url?.endsWith('/buildinfo')) res.writeHead(302, { Location: 'https://elsewhere.example/' }).end();
    else res.writeHead(req.url?.endsWith('/first') ? 502 : 200, { 'Content-Type': 'text/html' }).end('<html>');
  });
  const client = createClient({ url, token: '', fetch: nodeFetch });
  await assert.rejects(client.call('GET /buildinfo'), /redirect to https:\/\/elsewhere\.example/);
  await assert.rejects(
    client.call('GET /users/first'),
    /non-JSON response to GET \/users\/first: status 502 \(text\/html\)/,
  );
  await assert.rejects(client.call('GET /templates'), /non-JSON/);
  const gone = createClient({ url: 'http://127.0.0.1:1', token: '', fetch: nodeFetch });
  await assert.rejects(gone.call('GET /templates'), { name: 'UnreachableError', message: /nothing listens there/ });
});

test('follows logs until the close, and reports rejections as API errors and a broken socket', async (t) => {
  const { server, url } = await serve(t, (_req, res) => res.end());
  server.on('upgrade', (req, socket, head) => {
    assert.equal(req.headers['coder-session-token'], 'tok');
    if (req.url === '/api/v2/refused') {
      socket.end(
        'HTTP/1.1 404 \r\nContent-Type: application/json\r\nContent-Length: 18\r\nConnection: close\r\n\r\n{"message":"none"}',
      );
      return;
    }
    const connection = acceptWebSocket(req, socket, head);
    connection.on('text', () => {});
    connection.sendText('{"id":1}');
    connection.sendText('[{"id":2},{"id":3}]');
    if (req.url === '/api/v2/broken') setImmediate(() => socket.destroy());
    else connection.close(1000);
  });
  const client = createClient({ url, token: 'tok', fetch: nodeFetch });
  const messages: unknown[] = [];
  await followJson(client, '/logs', { onMessage: (message) => messages.push(message) });
  assert.deepEqual(messages, [{ id: 1 }, [{ id: 2 }, { id: 3 }]]);
  await assert.rejects(followJson(client, '/refused', { onMessage() {} }), {
    name: 'ApiError',
    status: 404,
    message: 'none',
  });
  await assert.rejects(followJson(client, '/broken', { onMessage() {} }), { name: 'UnreachableError' });
});

test('a tunnel is a byte stream and returns the host key, also for an agent without resumable sessions', async (t) => {
  const { server, url } = await serve(t, (_req, res) => res.end());
  server.on('upgrade', (req, socket, head) => {
    assert.equal(req.url, '/api/v2/workspaceagents/id/tunnel?service=ssh&resume=new');
    const connection = acceptWebSocket(req, socket, head, { headers: { 'Platform-Ssh-Host-Key': 'AAAA' } });
    connection.on('binary', (bytes) => connection.sendBinary(bytes));
  });
  const client = createClient({ url, token: 'tok', fetch: nodeFetch });
  const { stream, hostKey } = await openTunnel(client, 'id', { service: 'ssh' });
  assert.equal(hostKey, 'AAAA');
  stream.write('hello');
  const [echo] = (await new Promise<unknown[]>((resolve) => stream.once('data', (...args) => resolve(args)))) as [
    Buffer,
  ];
  assert.equal(String(echo), 'hello');
  stream.destroy();
});

test('a tunnel waits while its agent moves to another server, and not for other reasons', async (t) => {
  const { server, url } = await serve(t, (_req, res) => res.end());
  const answers: (Record<string, string> | undefined)[] = [
    { 'Retry-After': '0' },
    { 'Retry-After': '0' },
    {},
    undefined,
  ];
  let asked = 0;
  server.on('upgrade', (req, socket, head) => {
    const headers = answers[asked++];
    if (headers) return refuseUpgrade(socket, 503, { message: 'moving' }, headers);
    const stream = byteStream(acceptWebSocket(req, socket, head));
    stream.pipe(stream);
  });
  const client = createClient({ url, token: 'tok', fetch: nodeFetch });
  await assert.rejects(openTunnel(client, 'agent', { service: 'ssh' }), /moving/);
  assert.equal(asked, 3);
  answers[2] = { 'Retry-After': '3600' };
  asked = 2;
  await assert.rejects(openTunnel(client, 'agent', { service: 'ssh' }), /moving/);
  asked = 1;
  answers.splice(2, 1);
  const { stream } = await openTunnel(client, 'agent', { service: 'ssh' });
  assert.equal(asked, 3);
  stream.destroy();
});

test('a tunnel waits for a server that cannot be reached only if it is asked to', async (t) => {
  const { server, url } = await serve(t, (_req, res) => res.end());
  let asked = 0;
  server.on('upgrade', (req, socket, head) => {
    asked += 1;
    if (asked < 3) return void socket.destroy();
    const stream = byteStream(acceptWebSocket(req, socket, head));
    stream.pipe(stream);
  });
  const client = createClient({ url, token: 'tok', fetch: nodeFetch });
  await assert.rejects(openTunnel(client, 'agent', { service: 'ssh' }), { name: 'UnreachableError' });
  const { stream } = await openTunnel(client, 'agent', { service: 'ssh', waitsForServer: true });
  assert.equal(asked, 3);
  stream.destroy();
});

test('a tunnel resumes over the next connection, and ends with a final answer', async (t) => {
  const { server, url } = await serve(t, (_req, res) => res.end());
  const sessions = new ResumableSessions();
  const sockets: Duplex[] = [];
  const asked: string[] = [];
  let status = 101;
  server.on('upgrade', (req, socket, head) => {
    const resume = new URL(req.url!, url).searchParams.get('resume');
    asked.push(req.url!);
    if (status !== 101) {
      refuseUpgrade(socket, status, { message: 'not now' });
      return;
    }
    sockets.push(socket);
    const connection = byteStream(
      acceptWebSocket(req, socket, head, {
        headers: { 'Platform-Capabilities': 'resume/1', 'Platform-Agent-Id': 'the-agent' },
      }),
    );
    if (resume === 'attach') void sessions.attach(connection, { user: 'ann', key: 'k' });
    else {
      const stream = sessions.serve(connection, { user: 'ann', key: 'k' });
      stream.pipe(stream);
    }
  });
  const client = createClient({ url, token: 'tok', fetch: nodeFetch });
  const events: string[] = [];
  const { stream } = await openTunnel(
    client,
    { owner: 'me', workspace: 'dev', agent: '' },
    {
      service: 'ssh',
      onLost: () => events.push('lost'),
      onResumed: () => events.push('resumed'),
    },
  );
  let echoed = '';
  const until = async (all: string) => {
    while (echoed.length < all.length) await once(stream, 'data');
    assert.equal(echoed, all);
  };
  stream.on('data', (part: Buffer) => {
    echoed += part;
  });
  stream.write('one');
  await until('one');
  // The server is unreachable for a moment.
  status = 503;
  sockets.shift()!.destroy();
  stream.write(' two');
  while (asked.length < 3) await once(server, 'upgrade');
  status = 101;
  stream.write(' three');
  await until('one two three');
  assert.deepEqual(events, ['lost', 'resumed']);
  assert.equal(asked[0], '/api/v2/users/me/workspace/dev/tunnel?service=ssh&resume=new');
  const again = asked.slice(1);
  // The same agent, whatever the name refers to by now.
  assert.deepEqual(
    again,
    again.map(() => '/api/v2/workspaceagents/the-agent/tunnel?service=ssh&resume=attach'),
  );
  status = 401;
  sockets.shift()!.destroy();
  const [err] = (await once(stream, 'error')) as [Error];
  assert.equal(err.message, 'not now');
});
