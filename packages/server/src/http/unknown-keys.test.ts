import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RouteDef, type RouteKey, routes } from '@ropewalk/contract';
import { insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { sampleRequest } from './testing/route-sample.ts';
import { unknownKeyCheck } from './unknown-keys.ts';

interface Refusal {
  message: string;
  validations?: { field: string }[];
}
let server: TestServer;
let things: Record<string, string>;
/** The token of a workspace proxy, for its own routes. The others ignore it. */
let proxyToken: string;
before(async () => {
  server = await startTestServer();
  const { id } = await insertPerson(server, 'holder');
  const { body } = await server.api<{ id: string }>('GET', '/organizations/default');
  things = { user: id, organization: body.id };
  const proxy = await server.api<{ proxy_token: string }>('POST', '/workspaceproxies', { body: { name: 'eu' } });
  proxyToken = proxy.body.proxy_token;
});
after(() => server.stop());

const declared = (Object.keys(routes) as RouteKey[]).flatMap((key) => {
  const def: RouteDef = routes[key];
  return def.unknownKeys ? [{ key, def, ...def.unknownKeys }] : [];
});
/** Sends a request with these keys in its body. Paths name nothing where the body is looked at first. */
const send = (key: RouteKey, keys: object) => {
  const nothing = Object.fromEntries([...key.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name!, crypto.randomUUID()]));
  const { method, path, body } = sampleRequest(key, { ...FIELD_IDS, ...nothing, ...things });
  const headers = { 'Coder-External-Proxy-Token': proxyToken };
  return server.api<Refusal>(method, path, { headers, body: { ...(body as object), ...keys } });
};
/** For fields of bodies that name an object. */
const FIELD_IDS = { template: crypto.randomUUID(), templateversion: crypto.randomUUID(), fileID: crypto.randomUUID() };
const fieldsOf = ({ validations }: Refusal) => validations?.map(({ field }) => field);

/** Values that restrict nothing, and values that restrict, by key. */
const VALUES: Record<string, { harmless: unknown[]; restricts: unknown[] }> = {
  confirm_password: { restricts: ['another'], harmless: ['a walker of routes'] },
  scopes: {
    harmless: [null, [], ['all'], ['coder:all']],
    restricts: [['workspace:read'], ['all', 'x'], 'all', { a: 1 }],
  },
  allow_list: {
    harmless: [null, [], ['*:*'], [{ type: '*', id: '*' }]],
    restricts: [['workspace:1'], [{ type: 'workspace', id: '*' }], 'x', { a: 1 }],
  },
  disable_login: { harmless: [null, false], restricts: [true] },
  max_ttl_ms: { harmless: [0], restricts: [3_600_000] },
  inactivity_ttl_ms: { harmless: [0], restricts: [3_600_000] },
  locked_ttl_ms: { harmless: [0], restricts: [3_600_000] },
  restart_requirement: { harmless: [{ days_of_week: [], weeks: 0 }], restricts: [{ days_of_week: ['monday'] }] },
  user_variable_values: { harmless: [[{ name: 'a', value: 'b' }]], restricts: [] },
  allow_everyone_group_access: { harmless: [true, null], restricts: [false] },
  use_terraform_workspace_cache: { harmless: [true, false], restricts: [] },
  enable_dynamic_parameters: { harmless: [true, false], restricts: [] },
  display_name: { harmless: ['Find the leak'], restricts: [] },
};

test('rejects keys of other versions that restrict what the server would not, and names them', async () => {
  for (const { key, def, foreign, rejects } of declared) {
    if (!rejects) continue;
    for (const name of foreign.keys()) {
      const properties = (def.body as { properties?: object } | undefined)?.properties ?? {};
      assert.ok(!(name in properties), `${key}: the contract has "${name}" now`);
      for (const value of VALUES[name]!.restricts) {
        const { status, body } = await send(key, { [name]: value });
        assert.equal(status, 400, `${key} ${name}: ${JSON.stringify(value)}`);
        assert.equal(body.message, `This server cannot enforce "${name}".`);
        assert.deepEqual(fieldsOf(body), [name]);
      }
      for (const value of VALUES[name]!.harmless) {
        const { body } = await send(key, { [name]: value });
        assert.doesNotMatch(JSON.stringify(body), /cannot enforce/, `${key} ${name}: ${JSON.stringify(value)}`);
      }
    }
  }
});

test('every route does with a key that nobody knows what it declares', async () => {
  for (const { key, def, rejects } of declared) {
    const check = unknownKeyCheck(key.split(' ')[0]!, def);
    const has = (value: unknown) => () => check?.({ max_of_something: value });
    if (!rejects) {
      assert.doesNotThrow(has('1h'), key);
      continue;
    }
    assert.throws(has('1h'), { message: 'This server cannot enforce "max_of_something".' }, key);
    for (const unset of [null, '', 0, false, [], {}, { inner: '' }, '0001-01-01T00:00:00Z']) {
      assert.doesNotThrow(has(unset), `${key}: ${JSON.stringify(unset)}`);
    }
    const { status, body } = await send(key, { max_of_something: '1h' });
    assert.deepEqual([status, body.message], [400, 'This server cannot enforce "max_of_something".'], key);
  }
});

test('rejects unknown keys in any case of letters, within objects and lists, and as a permission that is false', async () => {
  const share = { agent_name: 'main', port: 8080, share_level: 'public' };
  const found = async (key: RouteKey, keys: object) => fieldsOf((await send(key, keys)).body);
  assert.deepEqual(await found('POST /users/{user}/keys/tokens', { Max_Uses: 1 }), ['Max_Uses']);
  assert.deepEqual(await found('POST /users/{user}/keys/tokens', { scope: 'all', SCOPE: 'workspace:read' }), ['SCOPE']);
  assert.deepEqual(await found('POST /workspaces/{workspace}/port-share', { ...share, allow_guests: false }), [
    'allow_guests',
  ]);
  assert.deepEqual(
    await found('POST /organizations/{organization}/members/roles', {
      organization_permissions: [{ action: 'read', resource_type: 'template', resource_id: 'x' }],
    }),
    ['organization_permissions.resource_id'],
  );
  assert.deepEqual(
    await found('POST /organizations/{organization}/templates', {
      autostop_requirement: { days_of_week: ['monday'], weeks: 1, at_the_latest: '18:00' },
    }),
    ['autostop_requirement.at_the_latest'],
  );
  // keys of a map are data
  assert.equal(
    await found('PATCH /templates/{template}/acl', { user_perms: { [crypto.randomUUID()]: 'use' } }),
    undefined,
  );
});

test('an error names a few of many unknown keys, shortened', async () => {
  const keys = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`${i}${'x'.repeat(1_000)}`, 1]));
  const { status, body } = await send('POST /users', keys);
  assert.equal(status, 400);
  assert.ok(JSON.stringify(body).length < 10_000);
});

test('accepts a resource that a client has read and sends back with a change', async () => {
  const { body: organization } = await server.api<object>('GET', '/organizations/default');
  const { status } = await server.api('PATCH', '/organizations/default', {
    body: { ...organization, description: 'sent back' },
  });
  assert.equal(status, 200);
  // the published dashboard sends a whole template
  const read = Object.keys(routes['GET /templates/{template}'].responses[200].properties);
  const check = unknownKeyCheck('PATCH', routes['PATCH /templates/{template}'])!;
  assert.ok(read.includes('active_version_id'));
  const sent = Object.fromEntries(read.map((name) => [name, 'value']));
  assert.doesNotThrow(() => check(sent));
  assert.throws(() => check({ ...sent, inactivity_ttl_ms: 1 }), /inactivity_ttl_ms/);
});

test('accepts the one organization that old clients send for a new account', async () => {
  const { body: organization } = await server.api<{ id: string }>('POST', '/organizations', { body: { name: 'only' } });
  const { body } = await server.api<{ organization_ids: string[] }>('POST', '/users', {
    body: {
      username: 'oldclient',
      email: 'oldclient@example.com',
      password: 'a walker of routes',
      login_type: 'password',
      organization_id: organization.id,
      disable_login: false,
    },
  });
  assert.deepEqual(body.organization_ids, [organization.id]);
});

test('creates a token with the scopes of a client, and none with scopes that it does not have', async () => {
  const count = async () => (await server.services.sql`SELECT id FROM api_keys WHERE login_type = 'token'`).length;
  const before = await count();
  const create = (body: object) => server.api('POST', '/users/me/keys/tokens', { body });
  assert.equal((await create({ token_name: 'narrow', scopes: ['workspace:fly'] })).status, 400);
  assert.equal((await create({ token_name: 'narrow', scope: 'workspace:read' })).status, 400);
  assert.equal(await count(), before);
  assert.equal((await create({ token_name: 'wide', scopes: ['all'], allow_list: ['*:*'], scope: 'all' })).status, 201);
  assert.equal(await count(), before + 1);
});

test('creates no session key that a client wants to be narrower', async () => {
  const create = (body: object) => server.api<Refusal>('POST', '/users/me/keys', { body });
  const { status, body } = await create({ lifetime: 60 });
  assert.deepEqual([status, fieldsOf(body)], [400, ['lifetime']]);
  assert.equal((await create({})).status, 201);
});
