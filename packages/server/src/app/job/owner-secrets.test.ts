import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Template, User, Workspace } from '@ropewalk/contract';
import {
  createPerson,
  finishImport,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
  tarOf,
} from '@ropewalk/testkit';
import { ownerSecretsNamedIn } from '../evaluate/owner-secrets.ts';
import { acquiredJobMessage } from './message.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const owner = 'data.coder_workspace_owner.me';
const cases: [text: string, sessionToken: boolean, sshKey: boolean, oidcToken?: boolean][] = [
  ['# nothing', false, false],
  [`x = ${owner}.name`, false, false],
  [`x = ${owner}.session_token`, true, false],
  [`x = ${owner}.oidc_access_token`, false, false, true],
  [`x = ${owner}.ssh_private_key`, false, true],
  [`x = ${owner}.ssh_public_key`, false, true],
  [`x = ${owner}["session_token"]`, true, true, true],
  [`x = ${owner}[*].name`, true, true, true],
  [`x = jsonencode(${owner})`, true, true, true],
  [`x = ${owner}`, true, true, true],
  [`command = "echo $CODER_WORKSPACE_OWNER_SESSION_TOKEN"`, true, false],
  [`command = "echo $CODER_WORKSPACE_OWNER_SSH_PRIVATE_KEY"`, false, true],
  [`${owner}.id `.repeat(10_001), true, true, true],
];
for (const [text, sessionToken, sshKey, oidcToken = false] of cases) {
  test(`finds the secrets named in ${text.slice(0, 60)}`, async () => {
    assert.deepEqual(ownerSecretsNamedIn(Buffer.from(text)), { sessionToken, sshKey, oidcToken });
    assert.deepEqual(ownerSecretsNamedIn(await tarOf({ 'main.tf': text })), { sessionToken, sshKey, oidcToken });
  });
}

test('searches 20 MiB without blocking the server', () => {
  const data = Buffer.alloc(20 << 20, 'session_toke coder_workspace_owner ssh_');
  const started = performance.now();
  ownerSecretsNamedIn(data);
  assert.ok(performance.now() - started < 10_000);
});

let turn = 0;
/** The secrets that a daemon gets for a workspace with these module files. `undefined`: no files were uploaded. */
async function sent(modules: Uint8Array | undefined, token: string, source = 'registry.test/a/b/c') {
  const version = await pendingVersion(server);
  const own = await takeJob(server);
  const message = await acquiredJobMessage(server.services, own.job);
  assert.ok(message.type.case === 'templateImport');
  const { workspaceOwnerSessionToken, workspaceOwnerSshPrivateKey } = message.type.value.metadata!;
  assert.deepEqual([workspaceOwnerSessionToken, workspaceOwnerSshPrivateKey], ['', ''], 'an import gets no secrets');
  const startModules = [{ key: 'm', source, version: '' }];
  await finishImport(server, own, { startModules, ...(modules ? { moduleFiles: modules } : {}) });
  const template = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name: `t${++turn}`, template_version_id: version.id },
  });
  const workspace = await server.api<Workspace>('POST', '/users/me/workspaces', {
    token,
    body: { name: `w${turn}`, template_id: template.body.id },
  });
  assert.equal(workspace.status, 201, JSON.stringify(workspace.body));
  const { type } = await acquiredJobMessage(server.services, (await takeJob(server)).job);
  assert.ok(type.case === 'workspaceBuild');
  const metadata = type.value.metadata!;
  return {
    token: metadata.workspaceOwnerSessionToken !== '',
    ssh: metadata.workspaceOwnerSshPublicKey.startsWith('ssh-ed25519 ') && metadata.workspaceOwnerSshPrivateKey !== '',
    oidc: metadata.workspaceOwnerOidcAccessToken,
  };
}

test('a build gets the secrets that fetched modules name', async () => {
  const { token } = await createPerson(server, 'ada');
  const module = (text: string) => tarOf({ '.terraform/modules/m/main.tf': text });
  assert.deepEqual(await sent(await module('# nothing'), token), { token: false, ssh: false, oidc: '' });
  assert.deepEqual(await sent(await module(`x = ${owner}.session_token`), token), {
    token: true,
    ssh: false,
    oidc: '',
  });
  assert.deepEqual(await sent(await module(`x = ${owner}.ssh_public_key`), token), {
    token: false,
    ssh: true,
    oidc: '',
  });
});

test('a build gets all secrets if the server cannot search its fetched modules, and none without such modules', async () => {
  const { token } = await createPerson(server, 'bob');
  assert.deepEqual(await sent(undefined, token), { token: true, ssh: true, oidc: '' });
  assert.deepEqual(await sent(undefined, token, './inner'), { token: false, ssh: false, oidc: '' });
});

test('every user has a git SSH key from the start, and a user without one gets it with a build', async () => {
  const { sql } = server.services;
  const { token } = await createPerson(server, 'eve');
  const without = await sql`SELECT username FROM users u WHERE NOT is_system
    AND NOT EXISTS (SELECT 1 FROM git_ssh_keys k WHERE k.user_id = u.id)`;
  assert.deepEqual([...without], []);
  const { body } = await server.api<User>('GET', '/users/eve');
  await sql`DELETE FROM git_ssh_keys WHERE user_id = ${body.id}`;
  assert.deepEqual(await sent(undefined, token), { token: true, ssh: true, oidc: '' });
});

test('a build gets the access token of the identity provider while it is valid', async () => {
  const { sql } = server.services;
  const { id, token } = await createPerson(server, 'ola');
  await sql`INSERT INTO user_links (user_id, login_type, linked_id, access_token, refresh_token, claims)
    VALUES (${id}, 'oidc', 'ola', 'of-the-provider', '', '{}')`;
  const module = (text: string) => tarOf({ '.terraform/modules/m/main.tf': text });
  const named = await module(`x = ${owner}.oidc_access_token`);
  assert.equal((await sent(named, token)).oidc, 'of-the-provider');
  assert.equal((await sent(await module('# nothing'), token)).oidc, '');
  await sql`UPDATE user_links SET expires_at = now() - interval '1 second' WHERE user_id = ${id}`;
  assert.equal((await sent(named, token)).oidc, '');
});
