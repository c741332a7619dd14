import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { listen, parseAddress } from './listen.ts';

test('goes on when the system cannot accept a connection', async (t) => {
  const server = createServer((_, response) => response.end('here'));
  const { url } = await listen(server, { host: '127.0.0.1', port: 0 }, '--http-address');
  t.after(() => server.close());
  // as Node.js reports it for each failed accept()
  for (let n = 0; n < 2; n++) server.emit('error', new Error('accept ENFILE'));
  assert.equal(await (await fetch(url, { headers: { connection: 'close' } })).text(), 'here');
});

test('names the option when the address is in use', async (t) => {
  const first = createServer();
  const { port } = await listen(first, { host: '127.0.0.1', port: 0 }, '--a');
  t.after(() => first.close());
  await assert.rejects(
    listen(createServer(), parseAddress(`127.0.0.1:${port}`), '--http-address'),
    /^AppError: Could not listen on 127\.0\.0\.1:\d+: another program uses this address\..* --http-address\.$/,
  );
});
