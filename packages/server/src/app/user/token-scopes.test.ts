import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { APIKeyWithOwner, Template, Workspace } from '@ropewalk/contract';
import { createTestTemplate, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { tokenScope } from '../../authz/scope.ts';
import { hashOfSecret, sha256 } from '../values/token.ts';

let server: TestServer;
let person: { id: string; token: string };
let one: TestWorkspace;
let other: TestWorkspace;
let template: Template;
before(async () => {
  server = await startTestServer();
  person = await insertPerson(server, 'ann');
  one = await startTestWorkspace(server, 'one', { token: person.token });
  other = await startTestWorkspace(server, 'other', { token: person.token });
  template = await createTestTemplate(server, 'unused');
});
after(async () => {
  await one.stop();
  await other.stop();
  await server.stop();
});

interface Limits {
  scopes?: string[];
  allow_list?: string[];
  scope?: string;
  token_name?: string;
}

const create = (limits: Limits, token = person.token) =>
  server.api<{ key: string; detail: string }>('POST', '/users/me/keys/tokens', { token, body: limits });

async function limitedTo(limits: Limits, token?: string): Promise<string> {
  const { status, body } = await create(limits, token);
  assert.equal(status, 201, JSON.stringify(body));
  return body.key;
}

const statusOf = async (token: string, path: string, method = 'GET') =>
  (await server.api(method, path, { token, ...(method === 'GET' ? {} : { body: {} }) })).status;

/** The status with which an upgrade is rejected, or 101. */
async function upgrade(token: string, path: string): Promise<number> {
  const url = `${server.url}/api/v2${path}`;
  try {
    (await dialWebSocket(url, { headers: { 'Coder-Session-Token': token } })).connection.close();
    return 101;
  } catch (err) {
    return (err as { status?: number }).status ?? 0;
  }
}

const names = async (token: string, path = '/workspaces') =>
  (await server.api<{ workspaces: Workspace[] }>('GET', path, { token })).body.workspaces
    .map(({ name }) => name)
    .sort();

test('lists scopes, and shows those of a token', async () => {
  const { body } = await server.api<{ external: string[] }>('GET', '/auth/scopes', { token: '' });
  assert.ok(body.external.includes('coder:workspaces.access') && body.external.includes('workspace:*'));
  const key = await limitedTo({
    token_name: 'shown',
    scopes: ['workspace:read', 'workspace:read', 'template:read'],
    allow_list: [`workspace:${one.workspace.id.toUpperCase()}`, 'template:*'],
  });
  const shown = await server.api<APIKeyWithOwner>('GET', '/users/me/keys/tokens/shown', { token: person.token });
  assert.equal(shown.body.id, key.split('-')[0]);
  assert.deepEqual(shown.body.scopes, ['workspace:read', 'template:read']);
  assert.deepEqual(shown.body.allow_list, ['template:*', `workspace:${one.workspace.id}`]);
  assert.equal(shown.body.scope, undefined);
  for (const [limits, scope, scopes] of [
    [{}, 'all', 'coder:all'],
    [{ scope: 'application_connect' }, 'application_connect', 'coder:application_connect'],
    [{ scopes: ['all'] }, 'all', 'coder:all'],
  ] as const) {
    const [id] = (await limitedTo(limits as Limits)).split('-');
    const { body: row } = await server.api<APIKeyWithOwner>('GET', `/users/me/keys/${id}`, { token: person.token });
    assert.deepEqual([row.scope, row.scopes, row.allow_list], [scope, [scopes], ['*:*']]);
  }
});

test('rejects unknown scopes and malformed entries', async () => {
  for (const limits of [
    { scopes: ['workspace:fly'] },
    { scopes: ['user:create'] },
    { allow_list: ['workspace'] },
    { allow_list: ['workspace:dev'] },
    { allow_list: ['fleet:*'] },
    { allow_list: Array.from({ length: 129 }, () => '*:*') },
    { scopes: Array.from({ length: 129 }, () => 'workspace:read') },
  ]) {
    assert.equal((await create(limits)).status, 400, JSON.stringify(limits).slice(0, 80));
  }
});

test('a token that reads workspaces lists them, but opens no shell, tunnel, terminal or app', async () => {
  const token = await limitedTo({ scopes: ['workspace:read'] });
  assert.deepEqual(await names(token), ['one', 'other']);
  assert.equal(await statusOf(token, '/users/me'), 200);
  assert.deepEqual((await server.api('GET', '/templates', { token })).body, []);
  assert.deepEqual((await server.api('GET', '/organizations', { token })).body, []);
  assert.deepEqual((await server.api('GET', '/users/me/organizations', { token })).body, []);
  const agent = one.agentId;
  assert.equal(await upgrade(token, `/workspaces/${one.workspace.id}/watch-ws`), 101);
  assert.equal(await upgrade(token, `/workspaceagents/${agent}/pty?reconnect=${crypto.randomUUID()}`), 403);
  assert.equal(await upgrade(token, `/workspaceagents/${agent}/tunnel?service=ssh`), 403);
  assert.ok([403, 404].includes(await upgrade(token, `/workspaceagents/${agent}/coordinate?version=2.0`)));
  const builds = `/workspaces/${one.workspace.id}/builds`;
  assert.equal((await server.api('POST', builds, { token, body: { transition: 'stop' } })).status, 403);
  const app = await fetch(`${server.url}/@ann/one.main/apps/none/`, { headers: { 'Coder-Session-Token': token } });
  assert.equal(app.status, 404);
  const shell = await limitedTo({ scopes: ['workspace:read', 'workspace:ssh'] });
  assert.equal(await upgrade(shell, `/workspaceagents/${agent}/pty?reconnect=${crypto.randomUUID()}`), 101);
});

test('a token with an allow list reaches only its objects, in lists too', async () => {
  const token = await limitedTo({ allow_list: [`workspace:${one.workspace.id}`, `template:${template.id}`] });
  assert.deepEqual(await names(token), ['one']);
  assert.deepEqual(await names(token, '/workspaces?q=owner:me'), ['one']);
  const templates = await server.api<Template[]>('GET', '/templates', { token });
  assert.deepEqual(
    templates.body.map(({ id }) => id),
    [template.id],
  );
  assert.equal(await statusOf(token, `/workspaces/${one.workspace.id}`), 200);
  assert.equal(await statusOf(token, `/workspaces/${other.workspace.id}`), 404);
  assert.equal(await statusOf(token, `/workspaceagents/${other.agentId}`), 404);
  assert.equal(await upgrade(token, `/workspaceagents/${one.agentId}/pty?reconnect=${crypto.randomUUID()}`), 101);
  assert.equal(await upgrade(token, `/workspaceagents/${other.agentId}/pty?reconnect=${crypto.randomUUID()}`), 404);
  assert.equal(await upgrade(token, `/workspaces/${other.workspace.id}/watch-ws`), 404);
  const checks = { one: one.workspace.id, other: other.workspace.id };
  const asked = await server.api<Record<string, boolean>>('POST', '/authcheck', {
    token,
    body: {
      checks: Object.fromEntries(
        Object.entries(checks).map(([name, resource_id]) => [
          name,
          { action: 'ssh', object: { resource_type: 'workspace', resource_id } },
        ]),
      ),
    },
  });
  assert.deepEqual(asked.body, { one: true, other: false });
});

test('a token creates no wider one, and what it creates inherits its limits', async () => {
  const limits = {
    scopes: ['api_key:*', 'workspace:read'],
    allow_list: ['api_key:*', `workspace:${one.workspace.id}`],
  };
  const token = await limitedTo(limits);
  for (const wider of [
    { scopes: ['coder:all'] },
    { scope: 'all' },
    { scopes: ['workspace:ssh'] },
    { scopes: ['workspace:read'], allow_list: ['*:*'] },
    { allow_list: [`workspace:${other.workspace.id}`] },
  ]) {
    assert.equal((await create(wider, token)).status, 403, JSON.stringify(wider));
  }
  const narrower = await limitedTo({ scopes: ['workspace:read'] }, token);
  assert.deepEqual(await names(narrower), ['one']);
  const session = await server.api<{ key: string }>('POST', '/users/me/keys', { token });
  assert.equal(session.status, 201);
  for (const each of [session.body.key, await limitedTo({}, token)]) {
    assert.deepEqual(await names(each), ['one']);
    assert.equal(await upgrade(each, `/workspaceagents/${one.agentId}/pty?reconnect=${crypto.randomUUID()}`), 403);
  }
});

test('expires a token with all that it created, and lists it only with include_expired', async () => {
  const maker = await insertPerson(server, 'mia');
  const token = await limitedTo({ token_name: 'parent', scopes: ['api_key:*'] }, maker.token);
  const child = await limitedTo({ token_name: 'child' }, token);
  const [id] = token.split('-');
  assert.equal(await statusOf(maker.token, `/users/me/keys/${id}/expire`, 'PUT'), 204);
  assert.deepEqual([await statusOf(token, '/users/me'), await statusOf(child, '/users/me')], [401, 401]);
  assert.equal(await statusOf(maker.token, `/users/me/keys/${id}/expire`, 'PUT'), 204, 'it has expired');
  const list = async (query = '') =>
    (await server.api<APIKeyWithOwner[]>('GET', `/users/me/keys/tokens${query}`, { token: maker.token })).body;
  assert.deepEqual(await list(), []);
  assert.deepEqual((await list('?include_expired=true')).map((key) => key.token_name).sort(), ['child', 'parent']);
  assert.equal(await statusOf(person.token, `/users/me/keys/${id}/expire`, 'PUT'), 404, 'of another person');
});

test('an open stream of a token ends when the token expires', async () => {
  const token = await limitedTo({ scopes: ['workspace:read'] });
  const url = `${server.url}/api/v2/workspaces/${one.workspace.id}/watch-ws`;
  const { connection } = await dialWebSocket(url, { headers: { 'Coder-Session-Token': token } });
  for (const event of ['text', 'binary'] as const) connection.on(event, () => {});
  const path = `/users/me/keys/${token.split('-')[0]}/expire`;
  assert.equal(await statusOf(person.token, path, 'PUT'), 204);
  await connection.closed;
});

test('servers without scopes reject a token that has some', async () => {
  const rows = await server.services.sql<{ hashed_secret: Buffer; scope: string }[]>`SELECT * FROM api_keys
    WHERE id = ${(await limitedTo({ scopes: ['workspace:read'], token_name: 'new' })).split('-')[0]!}`;
  assert.equal(rows[0]!.scope, 'application_connect');
  assert.notDeepEqual(hashOfSecret('x', 'scoped'), sha256('x'));
  // a key of such a server has no scopes in its row
  assert.deepEqual(tokenScope(['coder:all']).allowList, ['*:*']);
});
