import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { UserSession } from '@ropewalk/contract';
import { createPerson, logIn, startTestServer, type TestServer } from '@ropewalk/testkit/server';

let server: TestServer;
let ann: { id: string; token: string };
before(async () => {
  server = await startTestServer();
  ann = await createPerson(server, 'ann');
});
after(() => server.stop());

const HOUR_NS = 3_600_000_000_000;
interface Key {
  id: string;
  token_name: string;
  user_id: string;
  username?: string;
  lifetime_seconds: number;
  scope: string;
  expires_at: string;
}

test('ends everything that a token created when the token ends', async () => {
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', {
    token: ann.token,
    body: { token_name: 'short', lifetime: HOUR_NS },
  });
  const token = made.body.key;
  const session = await server.api<{ key: string }>('POST', '/users/me/keys', { token });
  const named = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { token, body: {} });
  const keyOf = async ({ key }: { key: string }) =>
    (await server.api<Key>('GET', `/users/me/keys/${key.split('-')[0]}`, { token: ann.token })).body;
  const end = Date.parse((await keyOf(made.body)).expires_at);
  for (const { body, status } of [session, named]) {
    assert.equal(status, 201);
    const { expires_at, lifetime_seconds } = await keyOf(body);
    assert.ok(Date.parse(expires_at) <= end && lifetime_seconds <= 3_600, expires_at);
  }
  const longer = await server.api<{ detail: string }>('POST', '/users/me/keys/tokens', {
    token,
    body: { lifetime: 2 * HOUR_NS },
  });
  assert.equal(longer.status, 400);
  assert.match(longer.body.detail, /at most .* the remaining lifetime of the token/);
  // its use does not extend it
  await server.services.sql`UPDATE api_keys SET last_used = now() - interval '1 hour'`;
  assert.equal((await server.api('GET', '/users/me', { token: session.body.key })).status, 200);
  assert.ok(Date.parse((await keyOf(session.body)).expires_at) <= end);
  const again = await server.api<{ key: string }>('POST', '/users/me/keys', { token: session.body.key });
  assert.ok(Date.parse((await keyOf(again.body)).expires_at) <= end);

  const gone = await server.api('DELETE', `/users/me/keys/${token.split('-')[0]}`, { token: ann.token });
  assert.equal(gone.status, 204);
  for (const { body } of [session, named, again])
    assert.equal((await server.api('GET', '/users/me', { token: body.key })).status, 401);

  // a key of a session lasts a week, as before
  const own = await server.api<{ key: string }>('POST', '/users/me/keys', { token: ann.token });
  assert.ok(Date.parse((await keyOf(own.body)).expires_at) > end + 6 * 24 * 3_600_000);
});

test('accepts a token until it is deleted, and shows it only to its owner and administrators', async () => {
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', {
    token: ann.token,
    body: { token_name: 'ci', lifetime: 2 * HOUR_NS },
  });
  assert.equal(made.status, 201);
  const me = await server.api<{ id: string }>('GET', '/users/me', { token: made.body.key });
  assert.equal(me.body.id, ann.id);
  const byName = await server.api<Key>('GET', '/users/me/keys/tokens/ci', { token: ann.token });
  assert.equal(byName.body.lifetime_seconds, 7200);
  assert.equal(byName.body.id, made.body.key.split('-')[0]);
  const left = Date.parse(byName.body.expires_at) - Date.now();
  assert.ok(left > 7_100_000 && left <= 7_200_000, String(left));

  const bob = await createPerson(server, 'bob');
  for (const [method, path] of [
    ['GET', `/users/ann/keys/tokens`],
    ['GET', `/users/${ann.id}/keys/${byName.body.id}`],
    ['DELETE', `/users/${ann.id}/keys/${byName.body.id}`],
    ['DELETE', `/users/me/keys/${byName.body.id}`],
    ['POST', `/users/ann/keys/tokens`],
  ] as const) {
    const answer = await server.api(method, path, { token: bob.token, ...(method === 'POST' ? { body: {} } : {}) });
    assert.equal(answer.status, 404, `${method} ${path}`);
  }
  const everybodys = await server.api<Key[]>('GET', '/users/me/keys/tokens?include_all=true', { token: bob.token });
  assert.deepEqual(everybodys.body, []);
  const owners = await server.api<Key[]>('GET', '/users/me/keys/tokens?include_all=true');
  assert.deepEqual(
    owners.body.map(({ token_name, username }) => [token_name, username]),
    [['ci', 'ann']],
  );
  const own = await server.api<Key[]>('GET', '/users/me/keys/tokens', { token: ann.token });
  assert.deepEqual(
    own.body.map(({ username }) => username),
    ['ann'],
  );

  const gone = await server.api('DELETE', `/users/me/keys/${byName.body.id}`, { token: ann.token });
  assert.equal(gone.status, 204);
  // rejected after the notification, at the latest when the cache expires
  const deadline = Date.now() + 30_000;
  let status = 0;
  while (status !== 401 && Date.now() < deadline) {
    ({ status } = await server.api('GET', '/users/me', { token: made.body.key }));
  }
  assert.equal(status, 401);
});

test('keeps token names unique for each person, and bounds lifetimes', async () => {
  const body = { token_name: 'twice' };
  assert.equal((await server.api('POST', '/users/me/keys/tokens', { token: ann.token, body })).status, 201);
  assert.equal((await server.api('POST', '/users/me/keys/tokens', { token: ann.token, body })).status, 409);
  assert.equal((await server.api('POST', '/users/me/keys/tokens', { body })).status, 201);
  const long = await server.api<{ detail: string }>('POST', '/users/me/keys/tokens', {
    body: { lifetime: 169 * HOUR_NS },
  });
  assert.equal(long.status, 400);
  assert.match(long.body.detail, /lifetime/);
  const config = await server.api<{ max_token_lifetime: number }>('GET', '/users/me/keys/tokens/tokenconfig');
  assert.equal(config.body.max_token_lifetime, 168 * HOUR_NS);
  const member = await server.api<{ max_token_lifetime: number }>('GET', '/users/me/keys/tokens/tokenconfig', {
    token: ann.token,
  });
  assert.equal(member.body.max_token_lifetime, 876_600 * HOUR_NS);
});

test('lets a token for apps read nothing and create no wider token', async () => {
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', {
    body: { scope: 'application_connect' },
  });
  assert.equal(made.status, 201);
  const token = made.body.key;
  for (const [method, path] of [
    ['POST', '/users/me/keys/tokens'],
    ['POST', '/users/me/keys'],
    ['GET', '/users/me/keys/tokens'],
    ['GET', '/users/me'],
    ['GET', `/users/${ann.id}`],
    ['GET', '/organizations/default'],
  ] as const) {
    const { status } = await server.api(method, path, { token, ...(method === 'POST' ? { body: {} } : {}) });
    assert.ok([403, 404].includes(status), `${method} ${path} answered ${status}`);
  }
  const users = await server.api<{ users: unknown[] }>('GET', '/users', { token });
  assert.ok(users.status !== 200 || users.body.users.length === 0, 'nobody is listed');
  assert.deepEqual((await server.api('GET', '/templates', { token })).body, []);
});

test('creates keys that last a week', async () => {
  const made = await server.api<{ key: string }>('POST', '/users/me/keys', { token: ann.token });
  assert.equal(made.status, 201);
  const key = await server.api<Key>('GET', `/users/me/keys/${made.body.key.split('-')[0]}`, { token: ann.token });
  assert.equal(key.body.lifetime_seconds, 7 * 24 * 3600);
  assert.equal((await server.api('GET', '/users/me/keys/0123456789', { token: ann.token })).status, 404);
});

test('lists sessions, ends one, and ends all others', async () => {
  const person = await createPerson(server, 'sessa');
  const [second, third] = [
    await logIn(server, 'sessa@example.com', 'sessa correct horse'),
    await logIn(server, 'sessa@example.com', 'sessa correct horse'),
  ];
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { token: third, body: {} });
  const token = made.body.key;
  const list = async (as = person.token, user = 'me') =>
    (await server.api<UserSession[]>('GET', `/users/${user}/sessions`, { token: as })).body;
  const found = await list();
  assert.equal(found.length, 3, 'the token is not a session');
  assert.equal(found.find(({ current }) => current)!.id, person.token.split('-')[0]);
  assert.ok(found.every(({ ip_address }) => ip_address !== ''));
  const end = await server.api('DELETE', `/users/me/keys/${second.split('-')[0]}`, { token: person.token });
  assert.equal(end.status, 204);
  const works = async (key: string) => (await server.api('GET', '/users/me', { token: key })).status === 200;
  assert.deepEqual([await works(second), await works(third)], [false, true]);
  assert.equal((await server.api('DELETE', '/users/me/sessions', { token: person.token })).status, 204);
  assert.deepEqual([await works(third), await works(person.token), await works(token)], [false, true, true]);
  const stranger = await createPerson(server, 'strange');
  assert.equal((await server.api('GET', '/users/sessa/sessions', { token: stranger.token })).status, 404);
  assert.equal((await server.api('DELETE', '/users/sessa/sessions', { token: stranger.token })).status, 404);
  assert.equal((await server.api('DELETE', '/users/sessa/sessions')).status, 204, 'an owner signs others out');
  assert.equal(await works(person.token), false);
});
