import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AuditLogResponse, DeploymentSecurity, Response, UserSecret } from '@ropewalk/contract';
import { createLogger } from '@ropewalk/kit';
import { MAX_SECRET_BYTES, MAX_SECRETS } from '@ropewalk/rules/user-secret';
import { createPerson, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';

const KEY = Buffer.alloc(32, 7).toString('base64');
/** Every value of these tests contains it. */
const MARK = 'hunter2-mark';

let server: TestServer;
let lines = '';
let ann: { id: string; token: string };
before(async () => {
  const write = (line: string) => {
    lines += line;
  };
  const log = createLogger({ level: 'debug', sinks: [{ format: 'json', write }] });
  server = await startTestServer({ env: { CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS: KEY }, log });
  ann = await insertPerson(server, 'ann');
});
after(() => server.stop());

type Answer = UserSecret & Response;
const call = <T = Answer>(method: string, path = '', body?: object, token: string | null = ann.token) =>
  server.api<T>(method, `/users/me/secrets${path}`, { token, ...(body ? { body } : {}) });

async function made(body: object, token?: string): Promise<UserSecret> {
  const answer = await call('POST', '', { value: `${MARK} ${crypto.randomUUID()}`, ...body }, token);
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body;
}

/** The status, and the fields of the validations. */
const problems = ({ status, body }: { status: number; body: Response }) => [
  status,
  ...(body.validations ?? []).map(({ field }) => field),
];

test('creates, reads, changes and deletes secrets without ever returning a value', async () => {
  const secret = await made({
    name: 'api-key',
    description: 'For tools',
    env_name: 'API_KEY',
    file_path: '~/.api-key',
  });
  const { id, created_at, updated_at, ...rest } = secret;
  assert.deepEqual(rest, {
    name: 'api-key',
    description: 'For tools',
    env_name: 'API_KEY',
    file_path: '~/.api-key',
    enabled: true,
  });
  assert.ok(id && created_at && updated_at);
  const named = await made({ name: 'a b%é', env_name: 'OTHER' });
  assert.deepEqual(
    (await call<UserSecret[]>('GET')).body.map(({ name }) => name),
    ['a b%é', 'api-key'],
  );
  assert.deepEqual((await call('GET', `/${encodeURIComponent('a b%é')}`)).body, named);
  const changed = await call('PATCH', '/api-key', { env_name: '', value: `${MARK} new`, description: '' });
  assert.deepEqual(
    [changed.status, changed.body.env_name, changed.body.file_path, changed.body.description, changed.body.id],
    [200, '', '~/.api-key', '', id],
  );
  assert.ok(changed.body.updated_at > updated_at);
  assert.equal((await call('PATCH', '/api-key', { enabled: false, file_path: '' })).body.enabled, false);
  assert.deepEqual(problems(await call('PATCH', '/api-key', { enabled: true })), [400, 'env_name']);
  assert.equal((await call('DELETE', '/api-key')).status, 204);
  for (const method of ['GET', 'DELETE']) assert.equal((await call(method, '/api-key')).status, 404, method);
  assert.equal((await call('PATCH', '/api-key', { value: 'x' })).status, 404);
  await call('DELETE', `/${encodeURIComponent('a b%é')}`);
  assert.deepEqual((await call<UserSecret[]>('GET')).body, []);
});

test('rejects wrong fields with 400 and used ones with 409', async () => {
  await made({ name: 'taken', env_name: 'TAKEN', file_path: '/taken' });
  const bad: [object, ...(number | string)[]][] = [
    [{ name: '', env_name: 'A' }, 400, 'name'],
    [{ name: ' x', env_name: 'A' }, 400, 'name'],
    [{ name: 'a/b', env_name: 'A' }, 400, 'name'],
    [{ name: 'x', env_name: 'A', value: '' }, 400, 'value'],
    [{ name: 'x', env_name: 'A', value: 'a\0b' }, 400, 'value'],
    [{ name: 'x', env_name: 'A', value: 'é'.repeat(MAX_SECRET_BYTES / 2 + 1) }, 400, 'value'],
    [{ name: 'x' }, 400, 'env_name'],
    [{ name: 'x', env_name: '1A' }, 400, 'env_name'],
    [{ name: 'x', env_name: 'path' }, 400, 'env_name'],
    [{ name: 'x', env_name: 'CODER_AGENT_TOKEN' }, 400, 'env_name'],
    [{ name: 'x', env_name: 'LD_PRELOAD' }, 400, 'env_name'],
    [{ name: 'x', env_name: 'A'.repeat(257) }, 400, 'env_name'],
    [{ name: 'x', file_path: 'relative' }, 400, 'file_path'],
    [{ name: 'x', file_path: '~' }, 400, 'file_path'],
    [{ name: 'x', file_path: '/a\0b' }, 400, 'file_path'],
    [{ name: 'x', file_path: `/${'a'.repeat(4_096)}` }, 400, 'file_path'],
    [{ name: '', value: '', env_name: 'PATH', file_path: '.' }, 400, 'name', 'env_name', 'file_path', 'value'],
    [{ name: 'taken', env_name: 'A' }, 409, 'name'],
    [{ name: 'x', env_name: 'TAKEN' }, 409, 'env_name'],
    [{ name: 'x', file_path: '/taken' }, 409, 'file_path'],
  ];
  for (const [body, ...expected] of bad) {
    const answer = await call('POST', '', { value: MARK, ...body });
    assert.deepEqual(problems(answer), expected, JSON.stringify(body).slice(0, 200));
    assert.equal(answer.body.message, 'Validation failed.');
  }
  for (const body of [
    { name: 'x\0', env_name: 'A' },
    { name: 'x', env_name: 'A', description: 'a\0' },
    { name: 'x' },
    {},
  ])
    assert.equal((await call('POST', '', body)).status, 400, JSON.stringify(body));
  assert.equal((await call('POST', '', { name: 'x', value: MARK, env_name: 'A', file_mode: 6 })).status, 400);
  await made({ name: 'second', env_name: 'SECOND' });
  assert.deepEqual(problems(await call('PATCH', '/second', { env_name: 'TAKEN' })), [409, 'env_name']);
  assert.deepEqual(problems(await call('PATCH', '/second', { env_name: '' })), [400, 'env_name']);
  assert.deepEqual(problems(await call('PATCH', '/second', { value: '\0' })), [400, 'value']);
  const nothing = await call('PATCH', '/second', {});
  assert.deepEqual([nothing.status, nothing.body.message], [400, 'At least one field must be provided.']);
  // the longest name and path have room in the indexes
  const long = Array.from({ length: 1_024 }, () => String.fromCharCode(0x4e00 + Math.random() * 20_000)).join('');
  await made({
    name: long,
    file_path: `/${Buffer.from(long).toString('base64').slice(0, 4_095).replaceAll('/', '_')}`,
  });
});

test('imports a file completely or not at all', async () => {
  const token = (await insertPerson(server, 'ina')).token;
  const load = (format: string, content: string) =>
    call<UserSecret[] & Response>('POST', '/batch', { format, content }, token);
  const all = async () => (await call<UserSecret[]>('GET', '', undefined, token)).body;
  const first = await load('env', `# comment\nexport ONE="${MARK}\\n"\nMY-TOKEN='$x'\r\nPATH=${MARK}#1`);
  assert.equal(first.status, 201, JSON.stringify(first.body));
  assert.deepEqual(
    first.body.map(({ name, env_name, enabled }) => [name, env_name, enabled]),
    [
      ['ONE', 'ONE', true],
      ['MY-TOKEN', '', false],
      ['PATH', '', false],
    ],
  );
  const again = await load('json', JSON.stringify({ TWO: MARK, ONE: MARK }));
  assert.deepEqual(problems(again), [409, 'secrets[1].name']);
  assert.deepEqual(problems(await load('yaml', `THREE: ${MARK}\n"a/b": x`)), [400, 'secrets[1].name']);
  assert.equal((await all()).length, 3);
  const many = Array.from({ length: MAX_SECRETS - 2 }, (_, n) => `N${n}: v`).join('\n');
  const tooMany = await load('yaml', many);
  assert.equal(tooMany.status, 400);
  assert.match(tooMany.body.detail ?? '', /^Entry secrets\[47\] \("N47"\): .*at most 50/);
  assert.equal((await all()).length, 3);
  for (const [format, content] of [
    ['env', MARK],
    ['json', `{"a": ${MARK}}`],
    ['yaml', `a: [${MARK}`],
    ['env', ''],
  ] as const) {
    const { status, body } = await load(format, content);
    assert.deepEqual([status, body.message], [400, 'Failed to parse secrets file.'], content);
    assert.ok(!JSON.stringify(body).includes(MARK), JSON.stringify(body));
  }
  assert.equal((await load('ini', 'A=b')).status, 400);
});

test('limits the number and the lengths of the values, also for concurrent requests', async () => {
  const { token } = await insertPerson(server, 'lea');
  const create = (n: number, body: object) => call('POST', '', { name: `s${n}`, value: 'v', ...body }, token);
  const some = await Promise.all(Array.from({ length: MAX_SECRETS + 5 }, (_, n) => create(n, { env_name: `E${n}` })));
  assert.equal(some.filter(({ status }) => status === 201).length, MAX_SECRETS);
  const over = some.filter(({ status }) => status !== 201);
  for (const { status, body } of over) {
    assert.deepEqual([status, body.message], [400, 'User secrets limit reached.']);
    assert.match(body.detail ?? '', /at most 50/);
  }
  const { body: all } = await call<UserSecret[]>('GET', '', undefined, token);
  for (const { name } of all.slice(20)) await call('DELETE', `/${name}`, undefined, token);
  const big = 'x'.repeat(MAX_SECRET_BYTES);
  const env = await create(100, { env_name: 'BIG', value: big });
  assert.deepEqual([env.status, env.body.message], [400, 'Environment-injected user secrets bytes limit reached.']);
  for (let n = 0; n < 8; n++) assert.equal((await create(200 + n, { file_path: `/f${n}`, value: big })).status, 201);
  const more = await create(300, { file_path: '/more', value: big });
  assert.deepEqual([more.status, more.body.message], [400, 'User secrets value-bytes limit reached.']);
  const same = await call('PATCH', '/s200', { env_name: 'BIG' }, token);
  assert.equal(same.status, 400);
  assert.equal((await call('PATCH', '/s200', { value: big }, token)).status, 200);
});

test('keeps secrets from everybody but their person', async () => {
  await made({ name: 'private', env_name: 'PRIVATE' });
  const bob = await insertPerson(server, 'bob', ['user-admin', 'template-admin', 'auditor']);
  const boss = await createPerson(server, 'boss', ['owner']);
  const body = { name: 'planted', value: 'x', env_name: 'PLANTED' };
  for (const { token } of [bob, boss, { token: server.adminToken }]) {
    for (const [method, path, expected] of [
      ['GET', '', 404],
      ['POST', '', 403],
      ['GET', '/private', 404],
      ['PATCH', '/private', 404],
      ['DELETE', '/private', 404],
    ] as const) {
      const answer = await server.api(method, `/users/ann/secrets${path}`, {
        token,
        ...(method === 'GET' ? {} : { body: method === 'PATCH' ? { value: 'x' } : body }),
      });
      assert.equal(answer.status, expected, `${method} ${path}`);
    }
    assert.equal(
      (await server.api('POST', '/users/ann/secrets/batch', { token, body: { format: 'env', content: 'A=b' } })).status,
      403,
    );
  }
  assert.equal((await call('GET', '/private')).body.name, 'private');
  assert.equal((await server.api('POST', '/users/prebuilds/secrets', { body })).status, 403);
});

test('records changes without values, stores them encrypted, and logs none', async () => {
  const { token } = await insertPerson(server, 'eve');
  const secret = await made({ name: 'logged', env_name: 'LOGGED' }, token);
  await call('PATCH', '/logged', { value: `${MARK} 2`, enabled: false }, token);
  await call('POST', '/batch', { format: 'env', content: `IMPORTED=${MARK}` }, token);
  await call('DELETE', '/logged', undefined, token);
  const { body } = await server.api<AuditLogResponse>(
    'GET',
    '/audit?q=resource_type:user_secret%20username:eve&limit=100',
  );
  const hidden = { old: '', new: '', secret: true };
  assert.deepEqual(
    body.audit_logs.map(({ action, resource_target: target, diff }) => [
      action,
      target,
      Object.keys(diff).sort().join(),
    ]),
    [
      ['delete', 'logged', 'env_name,id,name,user_id,value'],
      ['create', 'IMPORTED', 'enabled,env_name,id,name,user_id,value'],
      ['write', 'logged', 'enabled,value'],
      ['create', 'logged', 'enabled,env_name,id,name,user_id,value'],
    ],
  );
  assert.deepEqual(
    body.audit_logs.map(({ diff }) => diff['value']),
    [hidden, hidden, hidden, hidden],
  );
  assert.equal(body.audit_logs.at(-1)!.resource_id, secret.id);
  assert.equal(body.audit_logs[0]!.description, '{user} deleted user secret {target}');
  assert.ok(!JSON.stringify(body).includes(MARK));
  const { sql } = server.services;
  const stored = await sql<{ value: string }[]>`SELECT value FROM user_secrets WHERE value <> ''`;
  assert.ok(stored.length > 30);
  assert.ok(stored.every(({ value }) => value.startsWith('sealed:')));
  const [{ found } = { found: 1 }] = await sql<{ found: number }[]>`
    SELECT count(*)::integer AS found FROM audit_logs WHERE audit_logs::text LIKE ${`%${MARK}%`}`;
  assert.equal(found, 0);
  assert.ok(lines.includes('user_secret'), 'the log is read');
  assert.ok(!lines.includes(MARK), lines.slice(Math.max(0, lines.indexOf(MARK) - 300), lines.indexOf(MARK)));
});

test('counts its values among those that a new key encrypts again', async () => {
  const count = async () =>
    (await server.api<DeploymentSecurity>('GET', '/deployment/security')).body.encryption.keys[0]!.secrets;
  const { token } = await insertPerson(server, 'kay');
  const before = await count();
  await made({ name: 'one', env_name: 'ONE' }, token);
  assert.equal(await count(), before + 1);
});

test('deletes the secrets with their person', async () => {
  const gone = await createPerson(server, 'gone');
  await made({ name: 'last', env_name: 'LAST' }, gone.token);
  assert.equal((await server.api('DELETE', '/users/gone')).status, 200);
  const rows = await server.services.sql`SELECT id FROM user_secrets WHERE user_id = ${gone.id}`;
  assert.equal(rows.length, 0);
});
