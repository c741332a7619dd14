import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AuditLog, AuditLogResponse, Organization, Response } from '@ropewalk/contract';
import { ADMIN, createPerson, insertPerson, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';

let server: TestServer;
let auditor: { id: string; token: string };
before(async () => {
  server = await startTestServer({
    env: { CODER_PROXY_TRUSTED_HEADERS: 'X-Forwarded-For', CODER_PROXY_TRUSTED_ORIGINS: '127.0.0.1/32' },
  });
  auditor = await insertPerson(server, 'auda', ['auditor']);
});
after(() => server.stop());

async function find(q: string, token = auditor.token): Promise<AuditLogResponse> {
  const { status, body } = await server.api<AuditLogResponse>('GET', `/audit?limit=100&q=${encodeURIComponent(q)}`, {
    token,
  });
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}
const shown = (entry: AuditLog | undefined) =>
  entry && [entry.action, entry.status_code, entry.user?.username, entry.resource_target];

test('records sign-ins, failed ones too, with the real address of the client', async () => {
  await createPerson(server, 'sina');
  const attempt = (body: object) =>
    server.api('POST', '/users/login', { token: null, body, headers: { 'X-Forwarded-For': '203.0.113.9' } });
  const right = { email: 'sina@example.com', password: 'sina correct horse' };
  assert.equal((await attempt(right)).status, 201);
  assert.equal((await attempt({ ...right, password: 'wrong' })).status, 401);
  assert.equal((await attempt({ email: 'nobody@example.com', password: 'x' })).status, 401);
  const { audit_logs: logins } = await find('resource_type:api_key action:login');
  const [unknown, wrong, signedIn] = logins;
  assert.deepEqual(shown(unknown), ['login', 401, undefined, 'nobody@example.com']);
  assert.deepEqual(shown(wrong), ['login', 401, 'sina', 'sina']);
  assert.equal(wrong!.description, '{user} unsuccessfully attempted to login');
  assert.deepEqual(shown(signedIn), ['login', 201, 'sina', 'sina']);
  assert.equal(signedIn!.description, '{user} logged in');
  assert.deepEqual([unknown!.ip, signedIn!.ip], ['203.0.113.9', '203.0.113.9']);
  assert.deepEqual(Object.keys(signedIn!.diff).sort(), ['created_at', 'expires_at', 'last_used', 'user_id']);
  assert.ok(!JSON.stringify(logins).includes('correct horse'));
  const { audit_logs: first } = await find('resource_type:user action:create username:admin');
  assert.deepEqual(shown(first.at(-1)), ['create', 201, 'admin', 'admin']);
});

test('records rejected writes, and not rejected reads', async () => {
  const { token } = await insertPerson(server, 'rob');
  const body = { username: 'x', email: 'x@example.com', password: 'x correct horse' };
  assert.equal((await server.api('POST', '/users', { token, body })).status, 403);
  assert.equal(
    (await server.api('PATCH', '/organizations/default', { token, body: { description: 'x' } })).status,
    403,
  );
  assert.equal((await server.api('GET', '/debug/health', { token })).status, 404);
  const { audit_logs: entries } = await find('username:rob');
  const short = entries.map((entry) => [entry.resource_type, entry.action, entry.status_code, entry.resource_target]);
  assert.deepEqual(short, [
    ['organization', 'write', 403, 'default'],
    ['user', 'create', 403, ''],
  ]);
  assert.equal(entries[0]!.organization?.name, 'coder');
  assert.deepEqual(entries[0]!.diff, {});
});

test('filters by every documented key, pages and counts', async () => {
  await server.api('POST', '/organizations', { body: { name: 'filtered' } });
  const [entry] = (await find('resource_type:organization action:create')).audit_logs;
  assert.equal(entry!.resource_target, 'filtered');
  const today = entry!.time.slice(0, 10);
  const tomorrow = new Date(Date.parse(today) + 86_400_000).toISOString().slice(0, 10);
  for (const q of [
    `request_id:${entry!.request_id}`,
    `resource_id:${entry!.resource_id}`,
    'resource_target:Filtered',
    'organization action:create',
    'organization:filtered',
    `organization:${entry!.organization_id}`,
    `username:admin resource_target:filtered`,
    `email:${ADMIN.email} resource_target:filtered`,
    `date_from:${today} date_to:${today} resource_target:filtered`,
  ]) {
    const found = await find(q);
    assert.deepEqual([found.audit_logs[0]?.id, found.count], [entry!.id, 1], q);
  }
  for (const q of [
    `date_from:${tomorrow}`,
    `date_to:2001-01-01`,
    'username:nobody-here',
    `username:auda email:${ADMIN.email}`,
    'build_reason:autostop',
  ]) {
    assert.deepEqual(await find(q), { audit_logs: [], count: 0, count_cap: 10_000 }, q);
  }
  const bad = [
    'action:fly',
    'resource_type:moon',
    'date_from:soon',
    'resource_id:1',
    'colour:red',
    `username:${'x'.repeat(10_000)}`,
  ];
  for (const q of [...bad, 'organization:"no such"', 'date_from:2026-13-41']) {
    const answer = await server.api<Response>('GET', `/audit?q=${encodeURIComponent(q)}`);
    assert.equal(answer.status, 400, q);
    assert.ok(answer.body.validations?.[0]?.detail, q);
  }
  assert.equal((await server.api('GET', '/audit?q=resource_target:%00')).status, 400);
  assert.deepEqual((await find(`resource_target:"it's \\\\ 'quoted'; --"`)).audit_logs, []);
  const all = await find('');
  const page = await server.api<AuditLogResponse>('GET', '/audit?limit=2&offset=1');
  assert.deepEqual(
    page.body.audit_logs.map(({ id }) => id),
    all.audit_logs.slice(1, 3).map(({ id }) => id),
  );
  assert.equal(page.body.count, all.count);
});

test('shows the auditors of an organization their organization, and others nothing', async () => {
  const { body: place } = await server.api<Organization>('POST', '/organizations', { body: { name: 'audited' } });
  const local = await insertPerson(server, 'loa');
  await server.api('POST', `/organizations/${place.id}/members/loa`);
  assert.equal((await server.api('GET', '/audit', { token: local.token })).status, 403);
  assert.equal((await server.api('GET', '/connectionlog', { token: local.token })).status, 403);
  assert.equal((await server.api('GET', '/audit/export', { token: local.token })).status, 403);
  const roles = { roles: ['organization-auditor'] };
  assert.equal((await server.api('PUT', `/organizations/${place.id}/members/loa/roles`, { body: roles })).status, 200);
  const seen = await find('', local.token);
  assert.deepEqual(
    seen.audit_logs.map(({ resource_type, action }) => `${resource_type} ${action}`),
    ['organization_member write', 'organization_member create', 'organization create'],
  );
  assert.equal(seen.count, 3);
  assert.deepEqual((await find('organization:coder', local.token)).audit_logs, []);
});

test('exports every matching entry as one line of JSON', async () => {
  await server.services
    .sql`INSERT INTO audit_logs (time, resource_type, resource_id, resource_target, action, status_code)
    SELECT now() - n * interval '1 microsecond', 'license', gen_random_uuid(), 'export ' || n, 'create', 201
    FROM generate_series(1, 2500) n`;
  const answer = await fetch(`${server.url}/api/v2/audit/export?q=resource_type:license`, {
    headers: { 'Coder-Session-Token': auditor.token },
  });
  assert.equal(answer.headers.get('content-type'), 'application/x-ndjson; charset=utf-8');
  const lines = (await answer.text()).trimEnd().split('\n');
  const names = lines.map((line) => (JSON.parse(line) as AuditLog).resource_target);
  assert.deepEqual(
    names,
    Array.from({ length: 2_500 }, (_, i) => `export ${i + 1}`),
  );
  const wrong = await server.api<Response>('GET', '/audit/export?q=colour:red');
  assert.equal(wrong.status, 400);
});

test('adds test entries in the name of the caller', async () => {
  const entry = {
    action: 'stop',
    resource_type: 'workspace_build',
    time: '2023-01-02T03:04:05Z',
    additional_fields: { workspace_name: 'made up' },
    build_reason: 'autostop',
  };
  assert.equal((await server.api('POST', '/audit/testgenerate', { body: entry, token: auditor.token })).status, 403);
  assert.equal((await server.api('POST', '/audit/testgenerate', { body: entry })).status, 204);
  const { audit_logs: found } = await find('build_reason:autostop');
  assert.deepEqual(
    found.map(({ time, action, user }) => [time, action, user?.username]),
    [['2023-01-02T03:04:05.000Z', 'stop', 'admin']],
  );
  assert.deepEqual(found[0]!.additional_fields, { workspace_name: 'made up', build_reason: 'autostop' });
});

test('keeps the entries of deleted people and organizations readable', async () => {
  const gone = await createPerson(server, 'gone', ['owner']);
  await server.api('POST', '/organizations', { body: { name: 'gone-place' }, token: gone.token });
  await server.api('DELETE', '/organizations/gone-place');
  assert.equal((await server.api('DELETE', '/users/gone')).status, 200);
  const [entry] = (await find('username:gone resource_type:organization')).audit_logs;
  assert.deepEqual(
    [entry!.user?.username, entry!.organization?.name, entry!.is_deleted, entry!.resource_link],
    ['gone', 'gone-place', true, ''],
  );
  await assert.rejects(logIn(server, 'gone@example.com', 'gone correct horse'));
});
