import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Response, Template, Workspace } from '@ropewalk/contract';
import { createTestTemplate, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { failed, statuses, times } from '../../http/testing/limits.ts';

const MAX = 3;
let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer({
    env: {
      CODER_DANGEROUS_DISABLE_RATE_LIMITS: 'false',
      CODER_WORKSPACE_CREATION_RATE_LIMIT: '8',
      CODER_MAX_WORKSPACES_PER_USER: '5',
      CODER_MAX_PENDING_JOBS_PER_USER: String(MAX),
      CODER_MAX_TOKENS_PER_USER: String(MAX),
      CODER_MAX_PROVISIONER_KEYS_PER_ORGANIZATION: String(MAX),
    },
  });
  template = await createTestTemplate(server, 'pending');
});
after(() => server.stop());

test('a person has at most a number of tokens, also with requests at the same time, and may replace one', async () => {
  const { token } = await insertPerson(server, 'tokens');
  const create = (name: string) =>
    server.api('POST', '/users/me/keys/tokens', { token, body: { token_name: name, lifetime: 3_600_000_000_000 } });
  const answers = await times(MAX + 2, (n) => create(`t${n}`));
  assert.deepEqual(statuses(answers), [201, 201, 201, 409, 409]);
  assert.deepEqual(failed(answers)[0], {
    message: 'tokens already has 3 tokens. Delete one with "coder tokens remove" and try again.',
    detail: 'At most 3 are allowed. An administrator sets the limit with --max-tokens-per-user.',
  });
  // a person can always sign in, and programs get keys
  assert.equal((await server.api('POST', '/users/me/keys', { token })).status, 201);
  // expired ones do not count
  await server.services.sql`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE token_name = 't0'`;
  const [one] = await server.services.sql`SELECT 1 FROM api_keys WHERE token_name = 't0'`;
  if (one) assert.equal((await create('later')).status, 201);
});

test('a person has at most a number of keys for programs', async () => {
  const { token } = await insertPerson(server, 'keys');
  const answers = await times(5 * MAX + 1, () => server.api('POST', '/users/me/keys', { token }));
  assert.equal(statuses(answers).filter((status) => status === 201).length, 5 * MAX - 1);
  assert.match(failed(answers)[0]!.message, /^keys already has 15 keys and sessions\. /);
});

test('an organization has at most a number of provisioner keys', async () => {
  const create = (name: string) => server.api('POST', '/organizations/default/provisionerkeys', { body: { name } });
  const answers = await times(MAX + 2, (n) => create(`k${n}`));
  assert.deepEqual(statuses(answers), [201, 201, 201, 409, 409]);
  assert.match(failed(answers)[0]!.message, /^This organization already has 3 provisioner keys\. Delete one/);
});

const create = (token: string, name: string) =>
  server.api<Workspace>('POST', '/users/me/workspaces', { token, body: { name, template_id: template.id } });

test('a person has at most a number of pending jobs, and can cancel, stop and delete beyond it', async () => {
  const { token } = await insertPerson(server, 'pending');
  const answers = await times(MAX + 1, (n) => create(token, `w${n}`));
  assert.deepEqual(statuses(answers), [201, 201, 201, 429]);
  assert.match(
    failed(answers)[0]!.message,
    /^You already have 3 builds and imports that wait for a provisioner daemon\. /,
  );
  const rejected = await server.api<Response>('POST', `/templateversions/${template.active_version_id}/dry-run`, {
    token,
    body: {},
  });
  assert.equal(rejected.status, 429);
  // nothing of the rejected one stays
  assert.equal((await server.api<{ count: number }>('GET', '/workspaces?q=owner:me', { token })).body.count, MAX);
  const { latest_build: build, id } = answers.find(({ status }) => status === 201)!.body;
  assert.equal((await server.api('PATCH', `/workspacebuilds/${build.id}/cancel`, { token })).status, 200);
  assert.equal((await create(token, 'next')).status, 201);
  const stop = await server.api('POST', `/workspaces/${id}/builds`, { token, body: { transition: 'stop' } });
  assert.equal(stop.status, 201, JSON.stringify(stop.body));
});

test('a person has at most a number of workspaces, and creates them at a limited rate', async () => {
  const { id, token } = await insertPerson(server, 'many');
  const started = () =>
    server.services
      .sql`UPDATE provisioner_jobs SET started_at = now() WHERE initiator_id = ${id} AND started_at IS NULL`;
  for (let n = 0; n < 5; n++) {
    assert.equal((await create(token, `w${n}`)).status, 201);
    await started();
  }
  const rejected = await create(token, 'w5');
  assert.equal(rejected.status, 409);
  assert.match(
    (rejected.body as unknown as Response).message,
    /^many already has 5 workspaces\. Delete one and try again\./,
  );
  await create(token, 'w6');
  await create(token, 'w7');
  // where a minute of the server's clock begins meanwhile, the window slides by one request
  const fast = [await create(token, 'w8'), await create(token, 'w9')].find(({ status }) => status === 429);
  assert.ok(fast);
  assert.match((fast.body as unknown as Response).message, /^You've been rate limited/);
});
