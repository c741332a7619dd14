import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RouteDef, routes, type Template } from '@ropewalk/contract';
import { AppError, createLogger } from '@ropewalk/kit';
import { startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@ropewalk/testkit';
import postgres from 'postgres';
import { toAppError } from './errors.ts';

let server: TestServer;
let dev: TestWorkspace;
let version: string;
/** Existing things, by path parameter. */
let things: Record<string, string>;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'dev');
  version = (await server.api<Template>('GET', `/templates/${dev.workspace.template_id}`)).body.active_version_id;
  things = {
    user: 'me',
    organization: 'default',
    organizationname: 'default',
    workspace: dev.workspace.id,
    workspacename: 'dev',
    buildnumber: '1',
    workspacebuild: dev.workspace.latest_build.id,
    workspaceagent: dev.agentId,
    agent: 'main',
    template: dev.workspace.template_id,
    templatename: dev.workspace.template_name,
    templateversion: version,
  };
});
after(async () => {
  await dev.stop();
  await server.stop();
});

interface Refusal {
  message: string;
  validations?: { field: string; detail: string }[];
}
const fields = async (path: string, method = 'GET', body?: unknown) => {
  const answer = await server.api<Refusal>(method, path, body === undefined ? {} : { body });
  return [answer.status, ...(answer.body.validations ?? []).map(({ field }) => field)];
};

test('rejects numbers outside a list with the name of their field', async () => {
  const logs = [
    `/workspaceagents/${dev.agentId}/logs`,
    `/workspacebuilds/${dev.workspace.latest_build.id}/logs`,
    `/templateversions/${version}/logs`,
  ];
  for (const path of logs) {
    for (const field of ['after', 'before']) {
      for (const number of ['99999999999999999999', '9223372036854775807', '9007199254740992', '1.5']) {
        assert.deepEqual(await fields(`${path}?${field}=${number}`), [400, field], `${path} ${field} ${number}`);
      }
      assert.equal((await server.api('GET', `${path}?${field}=9007199254740991`)).status, 200);
    }
    for (const number of ['0', '-1']) assert.equal((await server.api('GET', `${path}?after=${number}`)).status, 200);
  }
  const lists = ['/workspaces', '/users', `/workspaces/${dev.workspace.id}/builds`];
  lists.push(`/templates/${dev.workspace.template_id}/versions`, '/organizations/default/paginated-members');
  for (const path of lists) {
    for (const field of ['limit', 'offset']) {
      for (const number of ['99999999999999999999', '-1'])
        assert.deepEqual(await fields(`${path}?${field}=${number}`), [400, field], `${path} ${field} ${number}`);
      assert.equal((await server.api('GET', `${path}?${field}=9007199254740991`)).status, 200, path);
    }
  }
});

test('every number of a request has a range that its column holds', () => {
  const unbounded: string[] = [];
  const walk = (schema: unknown, path: string): void => {
    if (typeof schema !== 'object' || schema === null) return;
    const { type, const: fixed, minimum, maximum } = schema as Record<string, unknown>;
    if ((type === 'integer' || type === 'number') && fixed === undefined) {
      // a lifetime in nanoseconds is stored in seconds
      const most = path.endsWith('.lifetime') ? 2 ** 63 : Number.MAX_SAFE_INTEGER;
      const isBounded = (n: unknown) => typeof n === 'number' && Math.abs(n) <= most;
      if (!isBounded(minimum) || !isBounded(maximum)) unbounded.push(path);
    }
    for (const [key, inner] of Object.entries(schema)) walk(inner, `${path}.${key}`);
  };
  for (const [name, { body, query, params }] of Object.entries(routes as Record<string, RouteDef>)) {
    for (const [part, schema] of Object.entries({ body, query, params })) walk(schema, `${name} ${part}`);
  }
  assert.deepEqual(unbounded, []);
});

test('rejects numbers and times that no column can store with the name of their field', async () => {
  const template = `/templates/${dev.workspace.template_id}`;
  for (const field of ['default_ttl_ms', 'failure_ttl_ms', 'time_til_dormant_ms']) {
    for (const number of [1e300, 1e20, 2 ** 53])
      assert.deepEqual(await fields(template, 'PATCH', { [field]: number }), [400, field], `${field} ${number}`);
  }
  const share = { agent_name: 'main', port: 1e10 };
  assert.deepEqual(await fields(`/workspaces/${dev.workspace.id}/port-share`, 'DELETE', share), [400, 'port']);
  for (const time of ['+275760-09-13T00:00:00.000Z', '-271821-04-20T00:00:00Z', 'soon']) {
    const text = encodeURIComponent(`"${time}"`);
    assert.deepEqual(await fields(`/workspaces?q=last_used_after:${text}`), [400, 'last_used_after'], time);
    assert.deepEqual(await fields(`/users?q=created_before:${text}`), [400, 'created_before'], time);
    const since = `/workspaces/${dev.workspace.id}/builds?since=${encodeURIComponent(time)}`;
    assert.deepEqual(await fields(since), [400, 'since'], time);
  }
  assert.equal((await server.api('GET', '/workspaces?q=last_used_after:"9999-12-31T00:00:00Z"')).status, 200);
});

test('rejects a text with NUL by its field, and finds nothing by a name with NUL', async () => {
  assert.deepEqual(await fields('/workspaces?q=name:%00'), [400, 'q']);
  assert.deepEqual(await fields('/users?limit=1&q=%00'), [400, 'q']);
  assert.deepEqual(await fields('/users?q=a&q=%00'), [400, 'q']);
  assert.deepEqual(await fields('/users/me/workspace/m%001'), [404]);
  assert.deepEqual(await fields('/users/m%00'), [404]);
  assert.deepEqual(await fields('/organizations/%00/templates'), [404]);
  assert.equal((await server.api('GET', '/users?q=%2500')).status, 200, 'no NUL, but a percent sign before two zeroes');
  assert.deepEqual(await fields('/users/me/profile', 'PUT', { username: 'admin', name: 'a\0b' }), [400, 'name']);
  const checks = { checks: { 'a\0b': { action: 'read', object: { resource_type: 'user' } } } };
  assert.deepEqual(await fields('/authcheck', 'POST', checks), [400, 'checks']);
  const deep = { name: 'deep', template_id: dev.workspace.template_id };
  const values = [
    { name: 'size', value: 'big' },
    { name: 'note', value: 'a\0b' },
  ];
  assert.deepEqual(await fields('/users/me/workspaces', 'POST', { ...deep, rich_parameter_values: values }), [
    400,
    'rich_parameter_values',
  ]);
  const loose = await server.api<Refusal>('POST', '/users/login', {
    token: null,
    raw: { type: 'application/octet-stream', data: JSON.stringify({ email: 'a\0@example.com', password: 'x' }) },
  });
  assert.deepEqual([loose.status, loose.body.validations?.[0]?.field], [400, 'email']);
  // without sign-in the answer is 401 first
  assert.equal((await server.api('GET', '/workspaces?q=%00', { token: null })).status, 401);
});

test('stores logs of an agent that contain NUL without it', async () => {
  const put = await server.api('PATCH', '/workspaceagents/me/logs', {
    token: dev.token,
    body: { logs: [{ created_at: new Date().toISOString(), output: 'before\0after', level: 'info' }] },
  });
  assert.equal(put.status, 200, JSON.stringify(put.body));
});

test('answers a value that only the database rejects with 400, and logs it', async () => {
  const { sql } = server.services;
  const lines: string[] = [];
  const log = createLogger({ sinks: [{ format: 'json', write: (line) => lines.push(line) }] });
  const refusals = [
    [sql`SELECT 1 WHERE 1::int4 = ${'99999999999'}::int8::int4`, '22003'],
    [sql`SELECT ${'a\0b'}::text`, '22021'],
    [sql`SELECT ${'{"a":"\\u0000"}'}::text::jsonb`, '22P05'],
  ] as const;
  for (const [query, code] of refusals) {
    const err = await query.then(
      () => assert.fail('it was taken'),
      (thrown: unknown) => thrown,
    );
    assert.ok(err instanceof postgres.PostgresError);
    assert.equal(err.code, code);
    const mapped = toAppError(err, log);
    assert.ok(mapped instanceof AppError);
    assert.equal(mapped.code, 'invalid');
  }
  assert.equal(lines.length, 3);
});

test('answers no path or query with 500', async () => {
  const odd = ['%00', 'a%00b', '99999999999999999999', '%ed%a0%80', '%25', "'", '..%2f', 'x'.repeat(200)];
  const wrong: string[] = [];
  for (const [key, def] of Object.entries(routes) as [string, RouteDef][]) {
    const [method, path] = key.split(' ') as [string, string];
    if (method !== 'GET' || def.auth === 'daemon' || def.stream) continue;
    const fill = (named = '', value = '') =>
      path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
        name === named ? value : (things[name] ?? crypto.randomUUID()),
      );
    for (const value of odd) {
      const paths = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => fill(name, value));
      for (const name of Object.keys(def.query?.properties ?? {})) paths.push(`${fill()}?${name}=${value}`);
      for (const one of paths) {
        const { status } = await server.api('GET', one);
        if (status >= 500) wrong.push(`${status} ${one}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
});

test('gives errors of the framework the shape of all errors', async () => {
  for (const path of ['/%ff', '/@%ff/x/terminal', '/api/v2/users/%ff']) {
    const answer = await fetch(server.url + path);
    const body = (await answer.json()) as Refusal;
    assert.deepEqual([answer.status, Object.keys(body)], [400, ['message', 'detail']], path);
    assert.ok(answer.headers.get('x-coder-build-version'), path);
    assert.match(answer.headers.get('content-type') ?? '', /json/);
  }
  const { status, body } = await server.api<Refusal>('GET', `/users/${'x'.repeat(300)}`);
  assert.deepEqual([status, Object.keys(body)], [404, ['message']]);
});

test('rejects bodies that are nested too deeply, from anyone', async () => {
  for (const [open, shut] of [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const) {
    for (const depth of [65, 10_000, 40_000]) {
      const data = `{"email":${open.repeat(depth)}1${shut.repeat(depth)}}`;
      for (const path of ['/users/login', '/users/first', '/users/validate-password']) {
        const { status, body } = await server.api<Refusal>('POST', path, {
          token: null,
          raw: { type: 'application/json', data },
        });
        assert.equal(status, 400, `${path} ${depth}`);
        assert.match(body.message, /nested more than 64 levels/);
      }
    }
  }
});

test('rejects a daemon name with control characters', async () => {
  const name = encodeURIComponent('d\u001b]0;owned\u0007');
  const { status, body } = await server.api<Refusal>(
    'GET',
    `/organizations/default/provisionerdaemons/serve?provisioner=terraform&version=1.8&name=${name}`,
  );
  assert.equal(status, 400);
  assert.deepEqual(
    body.validations?.map(({ field }) => field),
    ['name'],
  );
});
