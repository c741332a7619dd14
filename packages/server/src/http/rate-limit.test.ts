import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import type { Response } from '@ropewalk/contract';
import { systemClock } from '@ropewalk/kit';
import { type Call, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';

const LIMIT = 10;
let server: TestServer;
/** The only time that passes. */
let monotonic = 0;
before(async () => {
  server = await startTestServer({
    clock: { ...systemClock, monotonic: () => monotonic },
    env: {
      CODER_DANGEROUS_DISABLE_RATE_LIMITS: 'false',
      CODER_API_RATE_LIMIT: String(LIMIT),
      CODER_PROXY_TRUSTED_HEADERS: 'X-Forwarded-For',
      CODER_PROXY_TRUSTED_ORIGINS: '127.0.0.0/8',
    },
  });
});
after(() => server.stop());
beforeEach(() => {
  monotonic = (Math.floor(monotonic / 60_000) + 2) * 60_000;
});

const ask = (path: string, call?: Call) => server.api<Response>('GET', path, call);
const from = (address: string): Call => ({ token: null, headers: { 'X-Forwarded-For': address } });
const numbers = ({ headers }: { headers: Headers }, ...names: string[]) =>
  names.map((name) => Number(headers.get(name) ?? Number.NaN));

async function useUp(path: string, call?: Call): Promise<void> {
  for (let i = 1; i <= LIMIT; i++) {
    const answer = await ask(path, call);
    assert.notEqual(answer.status, 429);
    assert.deepEqual(numbers(answer, 'X-RateLimit-Limit', 'X-RateLimit-Remaining'), [LIMIT, LIMIT - i]);
  }
}

test('limits a person at each route, whatever the address, and says when to try again', async () => {
  const ann = await insertPerson(server, 'ann');
  const ben = await insertPerson(server, 'ben');
  await useUp('/users/me', { token: ann.token });
  monotonic += 15_000;
  const rejected = await ask('/users/me', { ...from('203.0.113.50'), token: ann.token });
  assert.equal(rejected.status, 429);
  assert.equal(rejected.body.message, "You've been rate limited. Try again in 45 seconds.");
  const [remaining, reset, retry] = numbers(rejected, 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'Retry-After');
  assert.deepEqual([remaining, retry], [0, 45]);
  assert.ok(Math.abs(reset! - 45 - Date.now() / 1_000) < 30, `${reset} is in 45 seconds`);
  assert.equal((await ask('/users/me/keys/tokens', { token: ann.token })).status, 200);
  assert.equal((await ask('/users/me', { token: ben.token })).status, 200);
});

test('frees the requests of a minute one by one during the next', async () => {
  const { token } = await insertPerson(server, 'cleo');
  await useUp('/users/me', { token });
  monotonic += 90_000;
  for (let i = 0; i < LIMIT / 2; i++) assert.equal((await ask('/users/me', { token })).status, 200);
  assert.equal((await ask('/users/me', { token })).status, 429);
  monotonic += 120_000;
  await useUp('/users/me', { token });
});

test('limits strangers by network, also those with a wrong token', async () => {
  await useUp('/buildinfo', from('2001:db8::1'));
  assert.equal((await ask('/buildinfo', from('2001:db8::2'))).status, 429);
  assert.equal((await ask('/buildinfo', from('203.0.113.7'))).status, 200);
  const guess: Call = { ...from('203.0.113.8'), token: 'aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb' };
  await useUp('/users/me', guess);
  assert.equal((await ask('/users/me', guess)).status, 429);
});

test('lets owners, and nobody else, bypass the limit', async () => {
  const headers = { 'X-Coder-Bypass-Ratelimit': 'true' };
  await useUp('/users/me');
  assert.equal((await ask('/users/me')).status, 429);
  assert.equal((await ask('/users/me', { headers })).status, 200);
  const { token } = await insertPerson(server, 'dora');
  const rejected = await ask('/users/me', { token, headers });
  assert.equal(rejected.status, 403);
  assert.match(rejected.body.message, /^Only owners can bypass the rate limit/);
});

test('leaves health checks and agents alone, and limits files on their own', async () => {
  for (let i = 0; i <= LIMIT; i++) {
    assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
    assert.equal((await ask('/workspaceagents/me/gitsshkey', from('203.0.113.9'))).status, 401);
  }
  const file = await ask(`/files/${crypto.randomUUID()}`);
  assert.equal(file.headers.get('X-RateLimit-Limit'), '12');
});

test('limits requests for tokens and registrations by network, with an error of OAuth 2', async () => {
  for (const [path, limit] of [
    ['/oauth2/tokens', LIMIT],
    ['/oauth2/register', 12],
  ] as const) {
    const send = () => fetch(`${server.url}${path}`, { method: 'POST', headers: from('203.0.113.77').headers! });
    for (let i = 0; i < limit; i++) assert.notEqual((await send()).status, 429, path);
    const rejected = await send();
    assert.deepEqual([rejected.status, Number(rejected.headers.get('retry-after')) > 0], [429, true], path);
    assert.equal(((await rejected.json()) as { error: string }).error, 'temporarily_unavailable');
  }
});
