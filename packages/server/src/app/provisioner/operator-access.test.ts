import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RouteKey, routes } from '@ropewalk/contract';
import { startTestServer, type TestServer } from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { operatorAccess } from './operator-access.ts';

const TOKEN = 'the-operators-token-which-is-long-enough';
const KEYS = '/organizations/team/provisionerkeys';

let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_OPERATOR_TOKEN: TOKEN, CODER_OPERATOR_ORGANIZATION: 'team' } });
  await server.services.sql`INSERT INTO organizations (name) VALUES ('team')`;
});
after(() => server.stop());

const call = <T = unknown>(method: string, path: string, body?: object) =>
  server.api<T>(method, path, { token: TOKEN, ...(body ? { body } : {}) });

test('manages the keys of its organization, and the audit log says who did', async () => {
  assert.equal((await call('POST', KEYS, { name: 'rack', tags: { zone: 'eu' } })).status, 201);
  const { body } = await call<{ id: string; name: string }[]>('GET', KEYS);
  assert.deepEqual(
    body.map(({ name }) => name),
    ['rack'],
  );
  assert.equal((await call('DELETE', `${KEYS}/rack`)).status, 204);
  for (const path of ['provisionerdaemons', 'provisionerjobs'])
    assert.equal((await call('GET', `/organizations/team/${path}`)).status, 200, path);
  const { body: log } = await server.api<{
    audit_logs: { action: string; user?: unknown; additional_fields: object }[];
  }>('GET', '/audit?q=resource_type:provisioner_key&limit=10');
  assert.deepEqual(
    log.audit_logs.map(({ action, user, additional_fields }) => [action, user, additional_fields]),
    [
      ['delete', undefined, { actor: 'operator' }],
      ['create', undefined, { actor: 'operator' }],
    ],
  );
});

test('learns of new jobs and keys from the event stream', async () => {
  const gone = new AbortController();
  const response = await fetch(`${server.url}/api/v2/events`, {
    headers: { 'Coder-Session-Token': TOKEN },
    signal: gone.signal,
  });
  assert.equal(response.status, 200);
  let text = '';
  const reading = (async () => {
    for await (const part of response.body!) text += Buffer.from(part).toString();
  })().catch(() => {});
  await eventually('hello', () => text.includes('event: hello'));
  await call('POST', KEYS, { name: 'streamed' });
  await eventually('the key', () => text.includes('"kind":"provisioner_key"'));
  assert.ok(!text.includes('"kind":"user"'));
  gone.abort();
  await reading;
});

test('reaches nothing else, whatever the route', async () => {
  const allowed =
    /^(GET \/events|GET \/organizations\/\{organization\}|\S+ \S+\/provisioner(keys|daemons|jobs)(\/\{provisionerkey\})?)$/;
  const others = (Object.keys(routes) as RouteKey[]).filter(
    (key) => routes[key].auth === 'session' && !allowed.test(key),
  );
  assert.ok(others.length > 150);
  for (const key of others) {
    const [method, path] = key.split(' ') as [string, string];
    const url = path.replace('{organization}', 'team').replaceAll(/\{\w+\}/g, crypto.randomUUID());
    assert.equal((await call(method, url)).status, 403, key);
  }
});

test('has no rights in another organization', async () => {
  const path = '/organizations/default/provisionerkeys';
  assert.equal((await call('POST', path, { name: 'rack' })).status, 404);
  assert.equal((await call('GET', path)).status, 404);
  assert.equal((await call('DELETE', `${path}/rack`)).status, 404);
});

test('does not accept another token, or one in a cookie', async () => {
  assert.equal((await server.api('GET', KEYS, { token: `${TOKEN}x` })).status, 401);
  const answer = await fetch(`${server.url}/api/v2${KEYS}`, { headers: { Cookie: `coder_session_token=${TOKEN}` } });
  assert.equal(answer.status, 401);
});

test('rejects a short token at the start, and an organization that does not exist with each request', async () => {
  const { services } = server;
  const withConfig = (config: object) => ({ ...services, config: { ...services.config, ...config } });
  assert.throws(() => operatorAccess(withConfig({ operatorToken: 'short' })), /at least 32 characters/);
  const access = operatorAccess(withConfig({ operatorOrganization: 'nowhere' }));
  await assert.rejects(access('GET /events', TOKEN)!, (err: Error & { detail?: string }) =>
    /There is no organization "nowhere"/.test(err.detail ?? ''),
  );
});
