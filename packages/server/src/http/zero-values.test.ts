import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RouteDef, type RouteKey, routes, type Template, type Workspace } from '@ropewalk/contract';
import {
  createPerson,
  failTaken,
  importedVersion,
  startTestServer,
  type TestServer,
  takeJob,
  uploadSource,
} from '@ropewalk/testkit';
import { NIL_UUID } from '../app/values/ids.ts';
import { validatorCompiler } from './validate.ts';
import { zeroReader } from './zero-values.ts';

// The values that Go's clients send for fields that were not set.

interface Schema {
  type?: string;
  format?: string;
  enum?: string[];
  minLength?: number;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
}

/** The JSON of a Go variable of this type that was never assigned. */
function zeroOf(schema: Schema): unknown {
  if (schema.anyOf) return zeroOf(schema.anyOf.at(-1)!);
  if (schema.format === 'uuid') return NIL_UUID;
  if (schema.format === 'date-time') return '0001-01-01T00:00:00Z';
  if (schema.type === 'string') return '';
  if (schema.type === 'boolean') return false;
  if (schema.type === 'integer' || schema.type === 'number') return 0;
  return null;
}

/** The smallest value that a schema accepts. With `zeros` it has optional fields, too, as Go sends them. */
function sample(schema: Schema, zeros: boolean): unknown {
  if (schema.anyOf) return sample(schema.anyOf.at(-1)!, zeros);
  if (schema.enum) return schema.enum.find((value) => value !== '');
  if (schema.format === 'uuid') return crypto.randomUUID();
  if (schema.format === 'date-time') return '2026-01-02T03:04:05Z';
  if (schema.type === 'string') return 'x';
  if (schema.type === 'boolean') return true;
  if (schema.type === 'integer' || schema.type === 'number') return 1;
  if (schema.type === 'array') return schema.items ? [sample(schema.items, zeros)] : [];
  const made: Record<string, unknown> = {};
  if (schema.patternProperties) made['key'] = sample(Object.values(schema.patternProperties)[0]!, zeros);
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    if (schema.required?.includes(name)) made[name] = sample(field, zeros);
    else if (zeros) made[name] = zeroOf(field);
  }
  return made;
}

const schemas = (Object.entries(routes) as [RouteKey, RouteDef][]).flatMap(([key, { body, query }]) => [
  ...(body ? [{ what: `${key}, body`, schema: body as Schema, part: 'body' as const }] : []),
  ...(query ? [{ what: `${key}, query`, schema: query as Schema, part: 'querystring' as const }] : []),
]);

test('accepts every request with zero values in all optional fields as without them', () => {
  assert.ok(schemas.length > 60);
  const wrong: string[] = [];
  for (const { what, schema, part } of schemas) {
    const validate = validatorCompiler({ schema, httpPart: part, method: '', url: '' } as never);
    const read = zeroReader(schema);
    const valid = (value: unknown) => {
      read(value);
      // null means absent, see tidyBody
      const tidy = JSON.parse(JSON.stringify(value, (_, field) => (field === null ? undefined : field)));
      return validate(tidy) === true;
    };
    if (!valid(sample(schema, false))) wrong.push(`${what}: its sample is not valid`);
    if (!valid(sample(schema, true))) wrong.push(`${what}: ${JSON.stringify(sample(schema, true))}`);
    // optional objects and lists with zero values inside
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      if (!field.properties && !field.items && !field.patternProperties) continue;
      const value = { ...(sample(schema, false) as object), [name]: sample(field, true) };
      if (!valid(value)) wrong.push(`${what}: ${JSON.stringify(value)}`);
    }
    // required lists and maps that are null
    for (const name of schema.required ?? []) {
      const field = schema.properties![name]!;
      if (field.type !== 'array' && !field.patternProperties) continue;
      if (!valid({ ...(sample(schema, false) as object), [name]: null })) wrong.push(`${what}: ${name} null`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('keeps a zero value that the schema allows', () => {
  const value = { name: '', description: '', icon: '', default_ttl_ms: 0, allow_user_autostart: false };
  const read = { ...value };
  zeroReader(routes['PATCH /templates/{template}'].body)(read);
  assert.deepEqual(read, value);
});

test('reads the names of fields in any case, as Go does', () => {
  const read = (value: unknown, schema: object) => {
    zeroReader(schema)(value);
    return value;
  };
  const { body } = routes['PATCH /organizations/{organization}/settings/idpsync/groups/mapping'];
  const pair = { Given: 'ops', Gets: 'x' };
  assert.deepEqual(read({ add: [{ given: 'ops', GETS: 'x' }] }, body), { Add: [pair] });
  assert.deepEqual(read({ Add: [pair], add: [] }, body), { Add: [pair], add: [] }, 'the exact name wins');
  const wrong = schemas.flatMap(({ what, schema, part }) => {
    if (part !== 'body') return [];
    const wanted = sample(schema, false);
    const shouted = read(shout(schema, structuredClone(wanted)), schema);
    return JSON.stringify(sorted(shouted)) === JSON.stringify(sorted(wanted)) ? [] : [what];
  });
  assert.deepEqual(wrong, []);
});

/** A value with the names of its fields in upper case. The keys of a map are data. */
function shout(schema: Schema, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => shout(schema.items ?? {}, item));
  if (typeof value !== 'object' || value === null || !schema.properties) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, field]) => [key.toUpperCase(), shout(schema.properties![key]!, field)]),
  );
}

/** A value whose objects list their fields by name. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, field]) => [key, sorted(field)] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

/** Adds all optional fields to a request as Go sends them unset. */
function zeros(key: RouteKey): Record<string, unknown> {
  const schema = (routes[key] as RouteDef).body as Schema;
  return Object.fromEntries(
    Object.entries(schema.properties!)
      .filter(([name]) => !schema.required?.includes(name))
      .map(([name, field]) => [name, zeroOf(field)]),
  );
}

test('treats requests of Go’s clients as if they had no zero values', async (t) => {
  const template = await server.api<Template>('POST', '/organizations/default/templates', {
    body: {
      ...zeros('POST /organizations/{organization}/templates'),
      name: 'zero',
      template_version_id: (await importedVersion(server)).id,
    },
  });
  assert.equal(template.status, 201, JSON.stringify(template.body));
  assert.equal(template.body.max_port_share_level, 'owner');
  const ada = await createPerson(server, 'ada');
  const workspace = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { ...zeros('POST /users/{user}/workspaces'), name: 'zero', template_id: template.body.id },
  });
  assert.equal(workspace.status, 201, JSON.stringify(workspace.body));
  await server.services
    .sql`UPDATE workspace_builds SET provisioner_state = 'kept' WHERE workspace_id = ${workspace.body.id}`;
  await failTaken(server, await takeJob(server), 'over');
  const home = workspace.body.organization_id;
  const wid = workspace.body.id;
  const version = template.body.active_version_id;
  const fileId = await uploadSource(server, '# zero');

  const calls: [route: RouteKey, path: string, status: number, fields?: object][] = [
    ['POST /users/{user}/keys/tokens', '/users/me/keys/tokens', 201],
    ['POST /users', '/users', 201, { username: 'zed', email: 'zed@example.com', login_type: 'none' }],
    ['PUT /users/{user}/profile', '/users/ada/profile', 200, { username: 'ada' }],
    ['PUT /users/{user}/roles', '/users/ada/roles', 200],
    ['PUT /users/{user}/password', '/users/ada/password', 204, { password: 'a new correct horse' }],
    ['PUT /organizations/{organization}/members/{user}/roles', `/organizations/${home}/members/ada/roles`, 200],
    ['POST /organizations', '/organizations', 201, { name: 'zero' }],
    ['PATCH /organizations/{organization}', '/organizations/zero', 200],
    ['POST /authcheck', '/authcheck', 200],
    [
      'POST /organizations/{organization}/templateversions',
      '/organizations/default/templateversions',
      201,
      { file_id: fileId, storage_method: 'file', provisioner: 'terraform' },
    ],
    ['PATCH /templates/{template}', `/templates/${template.body.id}`, 200],
    ['PATCH /templateversions/{templateversion}', `/templateversions/${version}`, 200],
    ['POST /templates/{template}/versions/archive', `/templates/${template.body.id}/versions/archive`, 200],
    ['POST /templateversions/{templateversion}/dry-run', `/templateversions/${version}/dry-run`, 201],
    ['PATCH /workspaces/{workspace}', `/workspaces/${wid}`, 204],
    ['PUT /workspaces/{workspace}/autostart', `/workspaces/${wid}/autostart`, 204],
    ['PUT /workspaces/{workspace}/autoupdates', `/workspaces/${wid}/autoupdates`, 204],
    ['PUT /workspaces/{workspace}/ttl', `/workspaces/${wid}/ttl`, 204],
    ['PUT /workspaces/{workspace}/dormant', `/workspaces/${wid}/dormant`, 200],
    ['POST /workspaces/{workspace}/usage', `/workspaces/${wid}/usage`, 204],
    ['POST /workspaces/{workspace}/builds', `/workspaces/${wid}/builds`, 201, { transition: 'stop' }],
    [
      'POST /organizations/{organization}/provisionerkeys',
      '/organizations/default/provisionerkeys',
      201,
      { name: 'k' },
    ],
  ];
  for (const [route, path, status, fields] of calls) {
    await t.test(route, async () => {
      const answer = await server.api(route.split(' ')[0]!, path, { body: { ...zeros(route), ...fields } });
      assert.equal(answer.status, status, JSON.stringify(answer.body));
    });
  }
  const [kept] = await server.services.sql<{ state: Buffer }[]>`SELECT provisioner_state AS state
    FROM workspace_builds WHERE workspace_id = ${wid} ORDER BY build_number DESC LIMIT 1`;
  assert.equal(kept?.state.toString(), 'kept', 'an unset state does not replace the stored one');
  const after = await server.api<Workspace>('GET', `/workspaces/${wid}`);
  assert.equal(after.body.name, 'zero');
  const queries = ['users?after_id=&q=&limit=0', `workspaces/${wid}/builds?after_id=${NIL_UUID}&since=&limit=`];
  for (const query of queries) assert.equal((await server.api('GET', `/${query}`)).status, 200, query);
  assert.ok(ada.id);
});
