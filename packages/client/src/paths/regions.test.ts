import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { Region } from '@ropewalk/contract';
import { createClient } from '../client.ts';
import { nodeFetch } from '../node-fetch.ts';
import { mayUse, measureRegions } from './regions.ts';

const region = (name: string, url: string, healthy = true): Region => ({
  ...{ id: crypto.randomUUID(), name, display_name: '', icon_url: '', healthy },
  ...{ path_app_url: url, wildcard_hostname: '' },
});
const clientOf = (url: string, more: { region?: string; headers?: Record<string, string> } = {}) =>
  createClient({ url, token: 'a secret', fetch: nodeFetch, ...more });

async function listen(t: TestContext, server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a proxy is used if it is healthy, wanted, and as private as the server', () => {
  const [http, https] = ['http://coder.example.com', 'https://coder.example.com'];
  const eu = region('eu', 'https://eu.example.com');
  assert.equal(mayUse(clientOf(https), eu), true);
  assert.equal(mayUse(clientOf(http), eu), true);
  assert.equal(mayUse(clientOf(https), region('eu', 'http://eu.example.com')), false, 'without TLS');
  assert.equal(mayUse(clientOf(http), region('eu', 'http://eu.example.com')), true);
  assert.equal(mayUse(clientOf(https), { ...eu, healthy: false }), false);
  assert.equal(mayUse(clientOf(https), { ...eu, path_app_url: '' }), false);
  assert.equal(mayUse(clientOf(https), { ...eu, name: 'primary' }), false);
  assert.equal(mayUse(clientOf(https, { region: 'eu' }), eu), true);
  assert.equal(mayUse(clientOf(https, { region: 'us' }), eu), false);
});

test('measures each region, and sends headers and tokens to none of the proxies', { timeout: 20_000 }, async (t) => {
  const asked: IncomingMessage[] = [];
  const slow = await listen(
    t,
    createServer((request, response) => {
      asked.push(request);
      setTimeout(() => response.end('OK'), 50);
    }),
  );
  const quick = await listen(
    t,
    createServer((request, response) => {
      asked.push(request);
      response.end('OK');
    }),
  );
  const broken = await listen(
    t,
    createServer((_request, response) => response.writeHead(500).end()),
  );
  const silent = await listen(
    t,
    createServer(() => {}),
  );
  const names = { slow, quick, broken, silent, empty: '' };
  const regions = Object.entries(names).map(([name, url]) => region(name, url));
  const client = clientOf(slow, { headers: { 'X-Gate': 'secret of a gate' } });
  const started = performance.now();
  const measured = await measureRegions(client, regions, AbortSignal.any([]));
  assert.ok(performance.now() - started < 10_000, 'a silent one is given up');
  const of = (name: string) => measured.find((one) => one.region.name === name)!;
  assert.ok(of('slow').ms! >= 45, String(of('slow').ms));
  assert.ok(of('quick').ms! < of('slow').ms!, String(of('quick').ms));
  assert.match(of('broken').error!, /status 500/);
  for (const name of ['broken', 'silent', 'empty']) assert.ok(of(name).error && of(name).ms === undefined, name);
  assert.ok(asked.length > 3);
  for (const { headers } of asked) assert.doesNotMatch(JSON.stringify(headers), /secret/);
});
