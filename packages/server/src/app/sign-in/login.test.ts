import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Response } from '@ropewalk/contract';
import { systemClock } from '@ropewalk/kit';
import { ADMIN, createPerson, insertPerson, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const login = (body: unknown, at: TestServer = server) =>
  at.api<Response>('POST', '/users/login', { token: null, body });
const keyId = (token: string) => token.split('-')[0]!;

test('rejects a wrong password and an unknown address with the same message', async () => {
  const wrong = await login({ email: ADMIN.email, password: 'a wrong one' });
  const unknown = await login({ email: 'nobody@example.com', password: 'a wrong one' });
  assert.deepEqual([wrong.status, unknown.status], [401, 401]);
  assert.deepEqual(wrong.body, unknown.body);
  assert.equal((await login({ email: ADMIN.email.toUpperCase(), password: ADMIN.password })).status, 201);
  const none = await insertPerson(server, 'nopass');
  assert.ok(none.id);
  assert.equal((await login({ email: 'nopass@example.com', password: '' })).status, 401);
});

test('delays only the stranger behind a proxy, not others there', async () => {
  const limited = await startTestServer({
    // the delay lasts, however slow this machine is
    clock: { ...systemClock, monotonic: () => 1_000 },
    env: {
      CODER_DANGEROUS_DISABLE_RATE_LIMITS: 'false',
      CODER_PROXY_TRUSTED_HEADERS: 'X-Forwarded-For',
      CODER_PROXY_TRUSTED_ORIGINS: '127.0.0.0/8',
    },
  });
  const as = (address: string, password: string, cookie = '') =>
    limited.api<Response>('POST', '/users/login', {
      token: null,
      body: { email: ADMIN.email, password },
      headers: { 'X-Forwarded-For': address, ...(cookie ? { Cookie: cookie } : {}) },
    });
  try {
    let answer = await as('203.0.113.1', 'wrong');
    for (let tries = 0; answer.status === 401 && tries < 20; tries++) answer = await as('203.0.113.1', 'wrong');
    assert.equal(answer.status, 429);
    assert.match(answer.body.message, /rate limited. Try again in \d+ seconds/);
    const other = await as('203.0.113.2', ADMIN.password);
    assert.equal(other.status, 201);
    const device = other.headers.getSetCookie().find((cookie) => cookie.startsWith('coder_known_device='))!;
    assert.match(device, /; Path=\/api\/v2\/users\/login; .*HttpOnly/);
    assert.equal((await as('203.0.113.1', ADMIN.password)).status, 429);
    const known = await as('203.0.113.1', ADMIN.password, device.split(';')[0]);
    assert.equal(known.status, 201, 'a device that signed in before is known');
    const [key] = await limited.services.sql<{ ip_address: string }[]>`
      SELECT ip_address FROM api_keys ORDER BY created_at DESC LIMIT 1`;
    assert.equal(key!.ip_address, '203.0.113.1');
  } finally {
    await limited.stop();
  }
});

test('delays guesses of the old password, and no sign-ins', async () => {
  const limited = await startTestServer({
    clock: { ...systemClock, monotonic: () => 1_000 },
    env: { CODER_DANGEROUS_DISABLE_RATE_LIMITS: 'false' },
  });
  const change = async (guess: string) => {
    const body = { password: 'a much better one', old_password: guess };
    return (await limited.api('PUT', '/users/me/password', { body })).status;
  };
  try {
    const guesses: number[] = [];
    for (let n = 0; n < 6; n++) guesses.push(await change(`guess ${n}`));
    assert.deepEqual(guesses, [400, 400, 400, 400, 400, 429]);
    assert.equal(await change(ADMIN.password), 429);
    await logIn(limited, ADMIN.email, ADMIN.password);
  } finally {
    await limited.stop();
  }
});

test('expires sessions, extends them on use, and does not extend tokens', async () => {
  const { sql } = server.services;
  const person = await createPerson(server, 'iris');
  const id = keyId(person.token);
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', {
    token: person.token,
    body: { lifetime: 3_600_000_000_000 },
  });
  const token = made.body.key;
  const ends = async (key: string) =>
    (await sql<{ expires_at: Date }[]>`SELECT expires_at FROM api_keys WHERE id = ${key}`)[0]!.expires_at.getTime();
  const [sessionEnd, tokenEnd] = [await ends(id), await ends(keyId(token))];
  await sql`UPDATE api_keys SET last_used = now() - interval '2 hours', expires_at = expires_at - interval '2 hours'
    WHERE id = ${id}`;
  await sql`UPDATE api_keys SET last_used = now() - interval '2 hours' WHERE id = ${keyId(token)}`;
  await server.services.events.publish(sql, 'revoked', { user_ids: [person.id] });
  const deadline = Date.now() + 30_000;
  while ((await ends(id)) < sessionEnd && Date.now() < deadline) {
    assert.equal((await server.api('GET', '/users/me', { token: person.token })).status, 200);
  }
  assert.ok((await ends(id)) >= sessionEnd);
  assert.equal((await server.api('GET', '/users/me', { token })).status, 200);
  assert.equal(await ends(keyId(token)), tokenEnd);

  const late = await logIn(server, 'iris@example.com', 'iris correct horse');
  await sql`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = ${keyId(late)}`;
  const expired = await server.api<Response>('GET', '/users/me', { token: late });
  assert.equal(expired.status, 401);
  assert.match(expired.body.detail!, /expired/);
});

test('rejects a signed-out session, a forged secret and a malformed token', async () => {
  const token = await logIn(server, ADMIN.email, ADMIN.password);
  const forged = `${keyId(token)}-${'A'.repeat(22)}`;
  assert.equal((await server.api('GET', '/users/me', { token: forged })).status, 401);
  assert.equal((await server.api('GET', '/users/me', { token: 'nonsense' })).status, 401);
  assert.equal((await server.api('GET', '/users/me', { token })).status, 200);
  assert.equal((await server.api('GET', '/users/me', { token: forged })).status, 401);
  assert.equal((await server.api('POST', '/users/logout', { token })).status, 200);
  assert.equal((await server.api('GET', '/users/me', { token })).status, 401);
});

test('accepts passwords only of owners when password sign-in is disabled', async () => {
  const strict = await startTestServer({ env: { CODER_DISABLE_PASSWORD_AUTH: 'true' } });
  try {
    const body = { username: 'joe', email: 'joe@example.com', password: 'joe correct horse' };
    assert.equal((await strict.api('POST', '/users', { body })).status, 201);
    assert.equal((await login({ email: body.email, password: body.password }, strict)).status, 403);
    const methods = await strict.api<{ password: { enabled: boolean } }>('GET', '/users/authmethods');
    assert.equal(methods.body.password.enabled, false);
  } finally {
    await strict.stop();
  }
});

test('gives a browser its session as a cookie that scripts cannot read, and removes it at sign-out', async () => {
  const { headers } = await login({ email: ADMIN.email, password: ADMIN.password });
  const cookie = headers.getSetCookie()[0]!;
  assert.match(cookie, /^coder_session_token=\w{10}-\w{22}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax$/);
  const session = { token: null, headers: { Cookie: cookie.split(';')[0]! } };
  assert.equal((await server.api('GET', '/users/me', session)).status, 200);
  assert.equal((await server.api('POST', '/users/logout', session)).status, 403, 'not from elsewhere');
  const own = { ...session, headers: { ...session.headers, Origin: server.accessUrl } };
  const out = await server.api('POST', '/users/logout', own);
  assert.deepEqual(
    [out.status, /^coder_session_token=; .*Max-Age=0/.test(out.headers.get('set-cookie')!)],
    [200, true],
  );
  assert.equal((await server.api('GET', '/users/me', session)).status, 401);
  const stranger = { token: null, body: { email: ADMIN.email, password: ADMIN.password } };
  const evil = await server.api('POST', '/users/login', { ...stranger, headers: { Origin: 'https://evil.example' } });
  assert.equal(evil.status, 403);
});
