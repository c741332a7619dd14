import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { connectResumable } from '@ropewalk/wire/resume/client';
import { runAgent } from '../agent.ts';
import { startTestServer, TOKEN } from '../testing/server.ts';

test('reaches a port of the workspace, with half-close, and reports a port where nothing listens', async (t) => {
  const server = await startTestServer();
  const agent = runAgent({ url: server.url, token: TOKEN, version: 'v1.2.3', log: silentLogger });
  t.after(async () => {
    await agent.stop();
    await server.close();
  });
  await server.until('ready', () => server.received.lifecycles.includes('READY'));
  for (const host of ['127.0.0.1', '::1']) {
    // Answers only once the client has ended its side.
    const app = createServer({ allowHalfOpen: true }, (socket) => {
      const got: Buffer[] = [];
      socket.on('data', (part: Buffer) => got.push(part));
      socket.on('end', () => socket.end(`${Buffer.concat(got)}!`));
    });
    app.listen(0, host);
    await once(app, 'listening');
    const { port } = app.address() as AddressInfo;
    const stream = await server.tunnel('tcp', { port });
    const answer = text(stream);
    stream.end('half-closed');
    assert.equal(await answer, 'half-closed!');
    app.close();
    await once(app, 'close');
    await assert.rejects(
      server.tunnel('tcp', { port }),
      /Port \d+ of the workspace cannot be reached: nothing listens there/,
    );
  }
  for (const port of [0, 65_536, 1.5, '80', undefined]) {
    await assert.rejects(server.tunnel('tcp', { port }), /The port must be 1 to 65535/);
  }
  await assert.rejects(server.tunnel('what'), /does not support the service "what"/);
});

test('an agent that stops ends sessions that wait to be resumed', async (t) => {
  const server = await startTestServer();
  const agent = runAgent({ url: server.url, token: TOKEN, version: 'v1.2.3', log: silentLogger });
  const held = new Set<Socket>();
  const app = createServer((socket) => {
    held.add(socket.resume());
    socket.on('error', () => {});
    socket.on('close', () => held.delete(socket));
  });
  app.listen(0, '127.0.0.1');
  await once(app, 'listening');
  t.after(async () => {
    app.close();
    await server.close();
  });
  await server.until('ready', () => server.received.lifecycles.includes('READY'));
  const { port } = app.address() as AddressInfo;
  const stream = await connectResumable({
    dial: () => server.tunnel('tcp', { port, resume: 'new', holder: { user: 'ann', key: 'k' } }),
    mayRetry: () => false,
  });
  stream.write('x');
  await server.until('it is connected', () => held.size === 1);
  await agent.stop();
  // long before a session that nobody resumes
  await server.until('it is gone with the agent', () => held.size === 0, 20_000);
  stream.destroy();
});
