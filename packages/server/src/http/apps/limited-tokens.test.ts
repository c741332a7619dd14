import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, insertPerson, limitedToken, startTestServer, type TestServer } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { tokenScope } from '../../authz/scope.ts';
import { startTestApp, type TestApp } from './testing/app.ts';
import { ask, open } from './testing/ask.ts';

/** Which apps a token with scopes or an allow list opens, for the owner of a workspace and for other people. */
type Person = Awaited<ReturnType<typeof insertPerson>>;

let server: TestServer;
let app: TestApp;
let workspace: TestWorkspace;
let owner: Person;
let guest: Person;
let member: Person;
let stranger: Person;

/** The sharing levels of apps, which are also their slugs. The statuses below are in this order. */
const LEVELS = ['owner', 'organization', 'authenticated', 'public'];
const hostOf = (slug: string) => `${slug}--main--dev--olga.apps.test`;
const bySession = (token: string) => ({ 'Coder-Session-Token': token });

/** Shares the workspace with the guest, or takes it back. */
async function share(level: 'use' | ''): Promise<void> {
  const body = { user_roles: { [guest.id]: level } };
  const path = `/workspaces/${workspace.workspace.id}/acl`;
  assert.equal((await server.api('PATCH', path, { token: owner.token, body })).status, 204);
}

before(async () => {
  server = await startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.test' } });
  app = await startTestApp();
  owner = await insertPerson(server, 'olga');
  guest = await insertPerson(server, 'gus');
  member = await insertPerson(server, 'mia');
  stranger = await insertPerson(server, 'sid', [], { member: false });
  const url = `http://localhost:${app.port}`;
  const apps = LEVELS.map((slug) => ({ slug, url, subdomain: true }));
  workspace = await startTestWorkspace(server, 'dev', { token: owner.token, agent: { apps: apps as never } });
  // the protocol of daemons has no number for the organization
  await server.services.sql`UPDATE workspace_apps SET sharing_level = slug`;
  await share('use');
});
after(async () => {
  await workspace.stop();
  await app.close();
  await server.stop();
});

const statusesOf = (token: string) =>
  Promise.all(
    LEVELS.map(async (slug) => (await ask(server.url, { host: hostOf(slug), headers: bySession(token) })).status),
  );

/** Limits that permit to open the apps of the workspace. */
const ENOUGH = () => [
  tokenScope(['coder:all']),
  tokenScope(['coder:application_connect']),
  tokenScope(['workspace:application_connect', 'template:read']),
  tokenScope(['coder:workspaces.access'], ['workspace:*']),
  tokenScope(['coder:all'], [`workspace:${workspace.workspace.id}`]),
  tokenScope(['coder:all'], [`*:${workspace.workspace.id}`]),
];
/** Limits that do not. */
const TOO_LITTLE = () => [
  tokenScope(['workspace:read', 'workspace:ssh', 'workspace:start']),
  tokenScope(['template:*', 'user:*']),
  tokenScope(['coder:all'], [`workspace:${crypto.randomUUID()}`]),
  tokenScope(['coder:all'], ['template:*', `template:${workspace.workspace.id}`]),
  tokenScope(['coder:application_connect'], [`user:${owner.id}`]),
];

test('a token whose limits include the workspace opens the apps that its person may open', async () => {
  for (const limits of ENOUGH()) {
    for (const [person, expected] of [
      [owner, [200, 200, 200, 200]],
      [guest, [200, 200, 200, 200]],
      [member, [404, 200, 200, 200]],
      [stranger, [404, 404, 200, 200]],
    ] as const) {
      const token = await limitedToken(server, person.id, limits);
      assert.deepEqual(await statusesOf(token), expected, JSON.stringify(limits));
    }
  }
});

test('a token whose limits do not include the workspace opens only what is public', async () => {
  for (const limits of TOO_LITTLE()) {
    for (const person of [owner, guest, member, stranger]) {
      const token = await limitedToken(server, person.id, limits);
      assert.deepEqual(await statusesOf(token), [404, 404, 404, 200], JSON.stringify(limits));
      const path = await ask(server.url, { path: '/@olga/dev/apps/public/', headers: bySession(token) });
      assert.equal(path.status, 404, 'path apps are for the owner');
    }
  }
});

test('the limits apply to shared ports', async () => {
  const template = `/templates/${workspace.workspace.template_id}`;
  assert.equal((await server.api('PATCH', template, { body: { max_port_share_level: 'authenticated' } })).status, 200);
  const body = { agent_name: 'main', port: app.port, protocol: 'http', share_level: 'authenticated' };
  const path = `/workspaces/${workspace.workspace.id}/port-share`;
  assert.equal((await server.api('POST', path, { token: owner.token, body })).status, 200);
  for (const person of [owner, guest, member]) {
    for (const [all, expected] of [
      [ENOUGH(), 200],
      [TOO_LITTLE(), 404],
    ] as const) {
      for (const limits of all) {
        const headers = bySession(await limitedToken(server, person.id, limits));
        const { status } = await ask(server.url, { host: hostOf(String(app.port)), headers });
        assert.equal(status, expected, JSON.stringify(limits));
      }
    }
  }
});

test('a limited token neither signs a browser in to apps nor opens a terminal without its scope', async () => {
  const { port } = new URL(server.accessUrl);
  const uri = encodeURIComponent(`http://${hostOf('owner')}:${port}/`);
  const redirect = `/api/v2/applications/auth-redirect?redirect_uri=${uri}`;
  for (const limits of [...ENOUGH().slice(1), ...TOO_LITTLE()]) {
    const token = await limitedToken(server, owner.id, limits);
    const { headers } = await ask(server.url, { path: redirect, headers: bySession(token) });
    assert.match(headers.location!, /^\/login\?/, JSON.stringify(limits));
  }
  const url = `${server.accessUrl}/api/v2/workspaceagents/${workspace.agentId}/pty`;
  const pass = async (token: string) =>
    (
      await server.api('POST', '/applications/reconnecting-pty-signed-token', {
        token,
        body: { agentID: workspace.agentId, url },
      })
    ).status;
  const connect = tokenScope(['workspace:read', 'workspace:application_connect']);
  const shell = tokenScope(['workspace:read', 'workspace:ssh'], [`workspace:${workspace.workspace.id}`]);
  for (const { id } of [owner, guest]) {
    assert.equal(await pass(await limitedToken(server, id, connect)), 403);
    assert.equal(await pass(await limitedToken(server, id, shell)), 200);
  }
});

/** Opens an event stream and a WebSocket of an app. Counts the open ones. */
async function openBoth(slug: string, token: string): Promise<{ left: number; grant: string }> {
  const opened = { left: 2, grant: '' };
  const over = () => {
    opened.left--;
  };
  const stream = await open(server.url, { host: hostOf(slug), path: '/sse', headers: bySession(token) });
  assert.equal(stream.statusCode, 200);
  opened.grant = stream.headers['set-cookie']![0]!.split(';')[0]!;
  stream.on('error', () => {});
  stream.once('close', over);
  stream.resume();
  const headers = { ...bySession(token), Host: hostOf(slug) };
  const { connection } = await dialWebSocket(`${server.url.replace('http', 'ws')}/ws`, { headers });
  connection.on('text', () => {});
  connection.once('close', over);
  return opened;
}

test('what a limited token opened ends with the share, and with the token', async () => {
  const here = tokenScope(['coder:application_connect'], [`workspace:${workspace.workspace.id}`]);
  const theirs = await limitedToken(server, guest.id, here);
  const mine = await limitedToken(server, owner.id, here);
  const guests = await openBoth('owner', theirs);
  const members = await openBoth('organization', theirs);
  const owners = await openBoth('owner', mine);
  await share('');
  await eventually('the end', () => guests.left === 0, 5_000);
  const withGrant = await ask(server.url, { host: hostOf('owner'), headers: { Cookie: guests.grant } });
  assert.equal(withGrant.status, 401);
  assert.deepEqual(await statusesOf(theirs), [404, 200, 200, 200]);
  assert.deepEqual([members.left, owners.left], [2, 2]);

  const expire = (person: Person, token: string) =>
    server.api('PUT', `/users/me/keys/${token.split('-')[0]}/expire`, { token: person.token });
  assert.equal((await expire(guest, theirs)).status, 204);
  await eventually('the end', () => members.left === 0, 5_000);
  assert.deepEqual(await statusesOf(theirs), [401, 401, 401, 200]);
  assert.equal(owners.left, 2);
  assert.equal((await expire(owner, mine)).status, 204);
  await eventually('the end', () => owners.left === 0, 5_000);
  await share('use');
});
