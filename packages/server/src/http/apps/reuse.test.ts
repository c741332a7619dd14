import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { eventually } from '@ropewalk/testkit';
import { createForwarder } from './forward.ts';
import { type Plan, refusalOf } from './plan.ts';
import { ask, open } from './testing/ask.ts';

/** What many exchanges leave on a connection to an app: a real app and a real server, without a workspace between. */
async function listening(listener: RequestListener): Promise<{ server: Server; port: number; url: string }> {
  const server = createHttpServer(listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { server, port, url: `http://127.0.0.1:${port}` };
}

async function startFront(port: number, explain: Plan['explain'] = async (err) => refusalOf(err)) {
  const dialed: Socket[] = [];
  const forwarder = createForwarder(async (target) => {
    const socket = connect(target.port, '127.0.0.1');
    await once(socket, 'connect');
    dialed.push(socket);
    return socket;
  });
  const plan: Plan = {
    target: { agent: 'a', port, https: false },
    kind: 'subdomain',
    path: '/',
    forwardedFor: '',
    host: 'x',
    hostName: 'x',
    proto: 'http',
    answerHeaders: [],
    cors: [],
    explain,
  };
  const front = await listening((request, response) => {
    forwarder.request(request, response, plan, () => {});
  });
  return {
    url: front.url,
    dialed,
    close() {
      forwarder.close();
      front.server.closeAllConnections();
      front.server.close();
    },
  };
}

test('leaves no listeners on a connection after many uploads', async () => {
  const app = await listening((request, response) => request.resume().on('end', () => response.end('ok')));
  const front = await startFront(app.port);
  const upload = () => ask(front.url, { method: 'POST', body: 'x' });
  assert.equal((await upload()).body, 'ok');
  const [connection] = front.dialed;
  const before = connection!.listenerCount('close');
  for (let i = 0; i < 5; i++) assert.equal((await upload()).body, 'ok');
  assert.equal(front.dialed.length, 1, 'it is the same connection');
  assert.equal(connection!.listenerCount('close'), before);
  front.close();
  app.server.closeAllConnections();
  app.server.close();
});

test('waits for a slow reader once, not once for each chunk of an answer', async () => {
  const CHUNKS = 16_384;
  const part = `400\r\n${'x'.repeat(1_024)}\r\n`;
  const app = await listening((request, response) => {
    request.socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${part.repeat(CHUNKS)}0\r\n\r\n`);
    response.detachSocket(request.socket);
  });
  const warnings: Error[] = [];
  const warned = (warning: Error) => warnings.push(warning);
  process.on('warning', warned);
  const front = await startFront(app.port);
  const answer = await open(front.url);
  await eventually('the app is held back', async () => front.dialed[0]!.isPaused());
  let length = 0;
  for await (const bytes of answer) length += (bytes as Buffer).length;
  assert.equal(length, CHUNKS * 1_024);
  process.off('warning', warned);
  assert.deepEqual(warnings, []);
  front.close();
  app.server.closeAllConnections();
  app.server.close();
});

test('ends only the answer if its explanation fails or does not fit a header', async () => {
  const gone = await listening(() => {});
  gone.server.close();
  await once(gone.server, 'close');
  const link = { url: 'https://hilfe.example/über/例', text: 'Troubleshooting' };
  const linked = await startFront(gone.port, async () => ({ status: 502, title: 'Away.', link }));
  const answer = await ask(linked.url);
  assert.equal(answer.status, 502);
  assert.equal(answer.headers.link, '<https://hilfe.example/%C3%BCber/%E4%BE%8B>; rel="help"');
  linked.close();
  const failing = await startFront(gone.port, () => Promise.reject(new Error('no words')));
  await assert.rejects(ask(failing.url), { code: 'ECONNRESET' });
  failing.close();
});
