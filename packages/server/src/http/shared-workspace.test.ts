// A person who shares the workspace of another calls every GET route about it and its owner. No answer contains a secret.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { apiPath, type RouteDef, type RouteKey, routes, type Workspace } from '@ropewalk/contract';
import { insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { TEMPLATES } from '../app/notification/templates.ts';
import { storedText } from '../db/sealed.ts';
import { sampleRequest } from './testing/route-sample.ts';

/** How long to read an answer that stays open, in ms. */
const READ_MS = 300;

let server: TestServer;
let dev: TestWorkspace;
let owner: { id: string; token: string };
let things: Record<string, string>;
/** Secrets by their names. */
let secrets: Record<string, string>;

before(async () => {
  server = await startTestServer({
    env: {
      CODER_EXTERNAL_AUTH_0_ID: 'git',
      CODER_EXTERNAL_AUTH_0_TYPE: 'github',
      CODER_EXTERNAL_AUTH_0_CLIENT_ID: 'client',
      CODER_EXTERNAL_AUTH_0_CLIENT_SECRET: 'client-secret-of-the-server',
    },
  });
  const { sql, vault } = server.services;
  owner = await insertPerson(server, 'olga');
  dev = await startTestWorkspace(server, 'dev', { token: owner.token });
  const secret = { name: 'pin', value: 'value-of-the-secret', env_name: 'PIN' };
  assert.equal((await server.api('POST', '/users/me/secrets', { token: owner.token, body: secret })).status, 201);
  const key = await server.api<{ public_key: string }>('GET', '/users/me/gitsshkey', { token: owner.token });
  assert.equal(key.status, 200);
  await sql`INSERT INTO user_links (user_id, login_type, linked_id, access_token, refresh_token, claims)
    VALUES (${owner.id}, 'oidc', 'olga', 'token-of-the-provider', 'refresh-of-the-provider', '{}')`;
  await sql`INSERT INTO external_auth_links (provider_id, user_id, access_token, refresh_token)
    VALUES ('git', ${owner.id}, ${storedText(vault.seal('token-of-the-account'))}, '')`;
  await sql`UPDATE workspace_agents SET environment_variables = '{"TOKEN": "value-of-the-variable"}' WHERE id = ${dev.agentId}`;
  await sql`UPDATE workspace_resources SET type = 'coder_external_agent',
    metadata = '[{"key": "password", "value": "value-of-the-metadata", "sensitive": true}, {"key": "size", "value": "small", "sensitive": false}]'
    WHERE id = (SELECT resource_id FROM workspace_agents WHERE id = ${dev.agentId})`;
  await sql`UPDATE workspace_builds SET provisioner_state = ${Buffer.from('{"state": "value-of-the-state"}')}, has_ai_task = true
    WHERE workspace_id = ${dev.workspace.id}`;
  const [stored] = await sql<
    { private_key: string }[]
  >`SELECT private_key FROM git_ssh_keys WHERE user_id = ${owner.id}`;
  secrets = {
    'session token': owner.token.split('-')[1]!,
    'token of the agent': dev.token,
    'private key': stored!.private_key.slice(100, 140),
    ...Object.fromEntries(
      [
        'value-of-the-secret',
        'client-secret-of-the-server',
        'token-of-the-provider',
        'refresh-of-the-provider',
        'token-of-the-account',
        'value-of-the-variable',
        'value-of-the-metadata',
        'value-of-the-state',
      ].map((each) => [each, each]),
    ),
  };
  const workspace = (await server.api<Workspace>('GET', `/workspaces/${dev.workspace.id}`)).body;
  const build = workspace.latest_build;
  things = {
    user: owner.id,
    name: 'pin',
    keyid: owner.token.split('-')[0]!,
    keyname: 'absent',
    workspace: workspace.id,
    task: workspace.id,
    workspacename: 'dev',
    buildnumber: '1',
    workspacebuild: build.id,
    workspaceagent: dev.agentId,
    agent: 'main',
    job: build.job.id,
    template: workspace.template_id,
    templatename: workspace.template_name,
    templateversion: build.template_version_id,
    templateversionname: build.template_version_name,
    organization: workspace.organization_id,
    organizationname: workspace.organization_id,
    externalauth: 'git',
    notification_template: TEMPLATES.userCreated.id,
  };
});
after(async () => {
  await dev?.stop();
  await server?.stop();
});

/** What a GET route answers, up to `READ_MS` of a stream. */
async function answerOf(key: RouteKey, token: string): Promise<{ status: number; text: string }> {
  const { path } = sampleRequest(
    key,
    new Proxy(things, { get: (all, name) => all[String(name)] ?? crypto.randomUUID() }),
  );
  const headers = { 'Coder-Session-Token': token };
  const response = await fetch(`${server.url}${apiPath(path)}`, { headers, redirect: 'manual' });
  const { stream } = routes[key] as RouteDef;
  if (stream === undefined || response.body === null) return { status: response.status, text: await response.text() };
  let text = '';
  const reader = response.body.getReader();
  const end = setTimeout(() => void reader.cancel(), READ_MS);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text += Buffer.from(value).toString();
  }
  clearTimeout(end);
  return { status: response.status, text };
}

const gets = (Object.keys(routes) as RouteKey[]).filter(
  (key) => key.startsWith('GET ') && routes[key].auth === 'session' && key !== 'GET /events',
);

/** The routes that answered, and the secrets in all answers. */
async function walk(token: string): Promise<{ read: RouteKey[]; found: string[] }> {
  const read: RouteKey[] = [];
  const found: string[] = [];
  for (const key of gets) {
    const { status, text } = await answerOf(key, token);
    assert.ok(status < 500 || status === 503, `${key}: ${status} ${text}`);
    if (status === 200) read.push(key);
    for (const [what, secret] of Object.entries(secrets)) if (text.includes(secret)) found.push(`${key}: ${what}`);
  }
  return { read, found };
}

for (const role of ['use', 'admin']) {
  test(`no route shows a secret of the owner to a person with the role ${role}`, async () => {
    const guest = await insertPerson(server, `guest-${role}`);
    const body = { user_roles: { [guest.id]: role } };
    const shared = await server.api('PATCH', `/workspaces/${dev.workspace.id}/acl`, { token: owner.token, body });
    assert.equal(shared.status, 204);
    const { read, found } = await walk(guest.token);
    for (const key of [
      'GET /workspaces',
      'GET /workspaces/{workspace}',
      'GET /workspaces/{workspace}/watch',
      'GET /workspacebuilds/{workspacebuild}/resources',
      'GET /workspaceagents/{workspaceagent}',
      'GET /workspaceagents/{workspaceagent}/logs',
      'GET /users/{user}/workspace/{workspacename}',
    ] as RouteKey[])
      assert.ok(read.includes(key), key);
    assert.deepEqual(found, []);
  });
}

test('the owner and owners of the site see what the template marks as sensitive, which the walk would find', async () => {
  const boss = await insertPerson(server, 'boss', ['owner']);
  for (const { token } of [owner, boss]) {
    const { text } = await answerOf('GET /workspaces/{workspace}', token);
    for (const what of ['value-of-the-metadata', 'value-of-the-variable']) assert.ok(text.includes(what), text);
  }
});
