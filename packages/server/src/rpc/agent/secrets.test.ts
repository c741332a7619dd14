import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Template } from '@ropewalk/contract';
import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { createTestTemplate, eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { startTestWorkspace } from '@ropewalk/testkit/workspace';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent } from '@ropewalk/wire/proto/agent';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { dialAgent, type MadeAgent, makeAgents } from '../testing/agents.ts';

// Which agents get the secrets of a person.

const env = { CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS: Buffer.alloc(32, 3).toString('base64') };
let server: TestServer;
let template: Template;
let ann: { id: string; token: string };
before(async () => {
  server = await startTestServer({ env });
  template = await createTestTemplate(server, 'secretive');
  ann = await insertPerson(server, 'ann');
  await create({ name: 'key', env_name: 'KEY', file_path: '~/key', value: 'of ann' });
  await create({ name: 'off', env_name: 'OFF', value: 'x', enabled: false });
});
after(() => server.stop());

async function create(body: object, token = ann.token): Promise<void> {
  const answer = await server.api('POST', '/users/me/secrets', { token, body });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
}

/** The secrets in the manifest of an agent, as upstream's agents of this version of the protocol connect. */
async function secretsOf({ token }: MadeAgent, version = '2.6'): Promise<string[]> {
  const connection = await dialAgent(server, token, { ours: false, version });
  const session = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false });
  const { secrets } = await createDrpcClient(Agent, () => session.openStream()).getManifest({});
  await session.close();
  return secrets.map(({ envName, filePath, value }) => `${envName} ${filePath} ${Buffer.from(value)}`);
}

test('gives the enabled secrets of a workspace’s owner to its agents, and to no other agent', async () => {
  const of = async (name: string, more: object) => (await makeAgents(server, template, name, more)).agents[0]!;
  const own = await of('own', { token: ann.token });
  assert.deepEqual(await secretsOf(own), ['KEY ~/key of ann']);
  assert.deepEqual(await secretsOf(own, '2.9'), ['KEY ~/key of ann']);
  assert.deepEqual(await secretsOf(await of('admins', {})), []);
  assert.deepEqual(await secretsOf(await of('closed', { token: ann.token, apiKeyScope: 'no_user_data' })), []);
});

test('gives none to an unclaimed workspace, nor before its new owner has begun a build', async () => {
  const { sql } = server.services;
  const { workspace, agents } = await makeAgents(server, template, 'pooled', { token: ann.token });
  const begin = (id: string) =>
    sql`UPDATE workspace_builds SET initiator_id = ${id} WHERE workspace_id = ${workspace.id}`;
  await sql`UPDATE workspaces SET owner_id = ${PREBUILDS_USER_ID} WHERE id = ${workspace.id}`;
  await begin(PREBUILDS_USER_ID);
  assert.deepEqual(await secretsOf(agents[0]!), []);
  await sql`UPDATE workspaces SET owner_id = ${ann.id} WHERE id = ${workspace.id}`;
  assert.deepEqual(await secretsOf(agents[0]!), []);
  await begin(ann.id);
  assert.deepEqual(await secretsOf(agents[0]!), ['KEY ~/key of ann']);
});

test('leaves out a secret that was changed in the database, and gives the others', async () => {
  const { token } = await insertPerson(server, 'broken');
  await create({ name: 'a', env_name: 'A', value: 'x' }, token);
  await create({ name: 'b', env_name: 'B', value: 'y' }, token);
  await server.services.sql`UPDATE user_secrets SET value = overlay(value placing 'AAAA' from 40) WHERE name = 'a'`;
  const { agents } = await makeAgents(server, template, 'partly', { token });
  assert.deepEqual(await secretsOf(agents[0]!), ['B  y']);
});

test('a running workspace gets new secrets without a restart', async () => {
  const script = { displayName: 'start', script: 'printf "%s" "$KEY" > ~/seen', runOnStart: true, timeoutSeconds: 30 };
  const dev = await startTestWorkspace(server, 'dev', { token: ann.token, agent: { scripts: [script] as never } });
  const other = await startTestWorkspace(server, 'other');
  try {
    assert.equal(readFileSync(join(dev.home, 'seen'), 'utf8'), 'of ann');
    assert.equal(readFileSync(join(dev.home, 'key'), 'utf8'), 'of ann');
    await create({ name: 'late', file_path: '~/late', value: 'one' });
    await eventually('the new file', async () => existsSync(join(dev.home, 'late')));
    await server.api('PATCH', '/users/me/secrets/late', { token: ann.token, body: { value: 'two' } });
    await eventually('the new value', async () => readFileSync(join(dev.home, 'late'), 'utf8') === 'two');
    assert.ok(!existsSync(join(other.home, 'late')));
  } finally {
    await dev.stop();
    await other.stop();
  }
});

test('a running workspace gets secrets that were created, changed and disabled on another server', async () => {
  const { token } = await insertPerson(server, 'rotating');
  const other = await startTestServer({ joins: server, env });
  const dev = await startTestWorkspace(server, 'rotated', { token });
  try {
    const path = join(dev.home, 'rotated');
    const change = async (method: string, to: string, body: object) => {
      const answer = await other.api(method, `/users/me/secrets${to}`, { token, body });
      assert.ok(answer.status < 300, JSON.stringify(answer.body));
    };
    const becomes = (value: string) =>
      eventually(value, () => existsSync(path) && readFileSync(path, 'utf8') === value);
    await change('POST', '', { name: 'rotated', file_path: '~/rotated', value: 'one' });
    await becomes('one');
    await change('PATCH', '/rotated', { value: 'two' });
    await becomes('two');
    await change('PATCH', '/rotated', { enabled: false });
    await change('PATCH', '/rotated', { value: 'three', enabled: true });
    await becomes('three');
  } finally {
    await dev.stop();
    await other.stop();
  }
});

test('a running workspace gets a secret although the announcement of the change was lost', async () => {
  const { sql } = server.services;
  const { token } = await insertPerson(server, 'unheard');
  await create({ name: 'lost', file_path: '~/lost', value: 'found', enabled: false }, token);
  const dev = await startTestWorkspace(server, 'unheard', { token });
  try {
    // no server announces this
    await sql`UPDATE user_secrets SET enabled = true, updated_at = now() WHERE name = 'lost'`;
    // the database ends the connection that listens
    await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND query ILIKE 'listen%' AND pid <> pg_backend_pid()`;
    const path = join(dev.home, 'lost');
    await eventually('the secret', () => existsSync(path) && readFileSync(path, 'utf8') === 'found');
  } finally {
    await dev.stop();
  }
});
