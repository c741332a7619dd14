import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestServer, type TestServer } from '@ropewalk/testkit/server';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('answers an unknown route, a body that is not JSON and a missing field with clear errors', async () => {
  assert.equal((await server.api('GET', '/nothing/here', { token: null })).status, 404);
  const notJson = await server.api<{ message: string }>('POST', '/users/login', {
    token: null,
    raw: { type: 'application/json', data: '{"email":' },
  });
  assert.equal(notJson.status, 400);
  const missing = await server.api<{ validations: { field: string }[] }>('POST', '/users/login', {
    token: null,
    body: { email: 'a@b.c' },
  });
  assert.equal(missing.status, 400);
  assert.deepEqual(
    missing.body.validations.map(({ field }) => field),
    ['password'],
  );
});

test('serves health and the OpenAPI document', async () => {
  const get = async (path: string) => {
    const answer = await fetch(server.url + path);
    return { status: answer.status, type: answer.headers.get('content-type') ?? '', text: await answer.text() };
  };
  assert.deepEqual(await get('/healthz'), { status: 200, type: 'text/plain', text: 'OK' });
  assert.equal((await get('/readyz')).status, 200);
  const document = JSON.parse((await get('/api/v2/openapi.json')).text) as {
    openapi: string;
    paths: Record<string, unknown>;
  };
  assert.match(document.openapi, /^3\./);
  assert.ok(Object.keys(document.paths).length > 90);
});

test('rejects writes with only a cookie, so that another site cannot act with it', async () => {
  const session = `coder_session_token=${server.adminToken}`;
  const write = async (headers: Record<string, string>) =>
    (await server.api('PUT', '/users/me/profile', { token: null, headers, body: { username: 'admin', name: 'A' } }))
      .status;
  assert.equal((await server.api('GET', '/users/me', { token: null, headers: { cookie: session } })).status, 200);
  assert.equal(await write({ cookie: session }), 403);
  assert.equal(await write({ cookie: session, origin: 'https://evil.example' }), 403);
  assert.equal(await write({ cookie: `${session}; csrf_token=abc`, 'x-csrf-token': 'other' }), 403);
  assert.equal(await write({ cookie: `${session}; csrf_token=abc`, 'x-csrf-token': 'abc' }), 200);
  assert.equal(await write({ cookie: session, origin: server.url }), 200);
});
