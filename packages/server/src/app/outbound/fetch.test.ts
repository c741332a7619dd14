import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { boundedFetch } from './fetch.ts';

const server = createServer((request, response) => {
  if (request.url === '/silent') return;
  if (request.url === '/slow') return void response.write('{');
  if (request.url === '/elsewhere') return void response.writeHead(302, { Location: '/' }).end();
  response.end('ok');
});
let url: string;
before(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

test('gives up on a provider that never answers, or never completes its answer', async () => {
  await assert.rejects(boundedFetch(`${url}/silent`, {}, 50), { name: 'TimeoutError' });
  await assert.rejects(boundedFetch(`${url}/slow`, {}, 50), { name: 'TimeoutError' });
  assert.equal(await (await boundedFetch(url, {}, 5_000)).text(), 'ok');
});

test('does not follow redirects', async () => {
  assert.equal((await boundedFetch(`${url}/elsewhere`, {}, 5_000)).status, 302);
});
