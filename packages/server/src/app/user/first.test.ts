import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ADMIN, logIn, startTestServer, type TestServer, type TestServerOptions } from '@ropewalk/testkit/server';
import { watchQueries } from '../../db/query-times.ts';

const limit = { timeout: 60_000 };

async function start(t: TestContext, options: TestServerOptions = {}): Promise<TestServer> {
  const server = await startTestServer(options);
  t.after(() => server.stop());
  return server;
}

test('says that a fresh server has no user, with the header that clients check', limit, async (t) => {
  const server = await start(t, { bare: true });
  const { status, headers, body } = await server.api<{ message: string }>('GET', '/users/first', { token: null });
  assert.equal(status, 404);
  assert.match(headers.get('x-coder-build-version')!, /^v\d+\.\d+\.\d+/);
  assert.ok(body.message);
});

test('creates the first user once, even for two requests at the same moment', limit, async (t) => {
  const server = await start(t, { bare: true });
  const answers = await Promise.all([0, 1].map(() => server.api('POST', '/users/first', { token: null, body: ADMIN })));
  assert.deepEqual(answers.map((answer) => answer.status).sort(), [201, 409]);
  const token = await logIn(server, ADMIN.email, ADMIN.password);
  const me = await server.api<{ username: string; roles: { name: string }[] }>('GET', '/users/me', { token });
  assert.equal(me.status, 200);
  assert.equal(me.body.username, 'admin');
  assert.deepEqual(
    me.body.roles.map((role) => role.name),
    ['owner'],
  );
  assert.equal((await server.api('GET', '/users/first', { token: null })).status, 200);
});

test('rejects a second first user with 409 without hashing a password', limit, async (t) => {
  const server = await start(t);
  // those that hash a password lock the table afterwards
  let locks = 0;
  const stop = watchQueries(server.services.sql, (statement) => void (statement.startsWith('lock') && locks++));
  const answers = await Promise.all(
    Array.from({ length: 20 }, () =>
      server.api('POST', '/users/first', {
        token: null,
        body: { username: 'x', email: 'x@example.com', password: 'another long password' },
      }),
    ),
  );
  stop();
  assert.deepEqual([...new Set(answers.map((answer) => answer.status))], [409]);
  assert.equal(locks, 0);
});
