import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestServer, type TestServer } from '@ropewalk/testkit';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('pages of every origin can measure the latency, without a session', async () => {
  const answer = await fetch(`${server.url}/latency-check?cache_bust=1`, {
    headers: { origin: 'https://other.example' },
  });
  assert.deepEqual([answer.status, await answer.text()], [200, 'OK']);
  const header = (name: string) => answer.headers.get(name);
  assert.equal(header('access-control-allow-origin'), '*');
  assert.equal(header('access-control-allow-credentials'), 'false');
  assert.equal(header('timing-allow-origin'), '*');
  assert.equal(header('cache-control'), 'no-store');
  assert.equal(header('set-cookie'), null);
});
