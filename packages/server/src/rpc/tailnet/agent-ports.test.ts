// What an agent may answer, and must not: its bytes come from a workspace.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { acceptWebSocket, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { openService } from './agent-ports.ts';

/** Connects each port of an agent to this server. */
async function agentWith(t: TestContext, server: Server) {
  const streams: Duplex[] = [];
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: at } = server.address() as AddressInfo;
  t.after(() => {
    for (const stream of streams) stream.destroy();
    server.close();
  });
  const ports: number[] = [];
  const open = async (port: number) => {
    ports.push(port);
    const stream = connect(at, '127.0.0.1');
    streams.push(stream);
    await once(stream, 'connect');
    return stream;
  };
  return { open, ports, streams };
}

const api = (t: TestContext, listener: RequestListener) => agentWith(t, createServer(listener));

test('asks the API of the agent, and returns its answer in one line', async (t) => {
  const asked: string[] = [];
  const agent = await api(t, ({ method, url }, response) => {
    asked.push(`${method} ${url}`);
    response.end('{\n "ports": []\n}\n');
  });
  assert.equal(await text(await openService(agent.open, { service: 'ports' })), '{"ports":[]}\n');
  assert.deepEqual([asked, agent.ports], [['GET /api/v0/listening-ports'], [4]]);
});

test('an error of the agent has its code and its text', async (t) => {
  const agent = await api(t, (_request, response) => {
    response.statusCode = 409;
    response.end(JSON.stringify({ message: 'It is being built.', detail: 'x'.repeat(5_000) }));
  });
  const change = { service: 'devcontainer', action: 'recreate', id: 'a/../b' };
  assert.deepEqual(JSON.parse(await text(await openService(agent.open, change))), {
    code: 'conflict',
    message: 'It is being built.',
  });
  await assert.rejects(openService(agent.open, { service: 'containers' }), (err: { code: string; detail: string }) => {
    assert.deepEqual([err.code, err.detail.length], ['conflict', 1_000]);
    return true;
  });
});

test('an answer that is endless, no JSON or no HTTP is an error, and its connection ends', async (t) => {
  const endless = await api(t, (_request, response) => {
    const write = () => {
      while (!response.destroyed && response.write(Buffer.alloc(64 * 1024, ' ')));
    };
    response.on('drain', write);
    write();
  });
  const words = await api(t, (_request, response) => response.end('words'));
  const noise = await agentWith(
    t,
    createTcpServer((socket) => socket.on('error', () => {}).end('SSH-2.0-Go\r\n')),
  );
  for (const agent of [endless, words, noise]) {
    await assert.rejects(openService(agent.open, { service: 'ports' }), { code: 'unavailable' });
    assert.equal(agent.streams[0]!.destroyed, true);
  }
});

test('a caller that leaves ends the wait for a silent agent', async (t) => {
  const agent = await api(t, () => leaving.abort(reason));
  const leaving = new AbortController();
  const reason = new Error('the page was closed');
  await assert.rejects(openService(agent.open, { service: 'ports' }, leaving.signal), reason);
});

test('watches containers, and leaves out lists that a slow reader missed', async (t) => {
  const server = createServer();
  const watched = Promise.withResolvers<WebSocketConnection>();
  server.on('upgrade', (request, socket, head) => watched.resolve(acceptWebSocket(request, socket, head)));
  const agent = await agentWith(t, server);
  const stream = await openService(agent.open, { service: 'containers', watch: true });
  const connection = await watched.promise;
  const last = 200;
  for (let n = 0; n <= last; n++) await connection.sendText(JSON.stringify({ n, padding: 'x'.repeat(10_000) }));
  // the answer comes after all lists
  connection.ping();
  await once(connection, 'pong');
  const lines: number[] = [];
  let rest = '';
  for await (const part of stream.setEncoding('utf8')) {
    const parts = (rest + part).split('\n');
    rest = parts.pop()!;
    for (const line of parts) lines.push((JSON.parse(line) as { n: number }).n);
    if (lines.at(-1) === last) break;
  }
  assert.equal(lines[0], 0);
  assert.ok(lines.length < last / 2, `${lines.length} lines`);
  connection.destroy();
});

test('what upstream does not have is unsupported', async (t) => {
  const agent = await api(t, () => {});
  for (const service of ['ssh', 'reinit', 'move', 'forget'])
    await assert.rejects(openService(agent.open, { service }), { code: 'unsupported' });
  assert.deepEqual(agent.ports, []);
});
