import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Response, User, Workspace } from '@platform/contract';
import { createTestTemplate, startTestServer, type TestServer } from '@platform/testkit';
import { finishBuild } from '../rpc/testing/agents.ts';

// What upstream's programs send and read, where upstream's API document says something else.

let server: TestServer;
let templateId: string;
before(async () => {
  server = await startTestServer();
  templateId = (await createTestTemplate(server, 'base')).id;
});
after(() => server.stop());

async function startedWorkspace(name: string): Promise<Workspace> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', { body: { name, template_id: templateId } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await finishBuild(server, [crypto.randomUUID()]);
  return made.body;
}

test('a workspace that nothing stops cannot be extended, whatever the request says', async () => {
  const workspace = await startedWorkspace('manual');
  const extend = (body: object) => server.api<Response>('PUT', `/workspaces/${workspace.id}/extend`, { body });
  const later = new Date(Date.now() + 3_600_000).toISOString();
  for (const body of [{}, { deadline: '0001-01-01T00:00:00Z' }, { deadline: later }]) {
    const { status, body: answer } = await extend(body);
    assert.equal(status, 409, JSON.stringify(body));
    assert.match(answer.message, /^Workspace shutdown is manual/);
  }
  await server.services.sql`UPDATE workspace_builds SET deadline = now() WHERE workspace_id = ${workspace.id}`;
  const missing = await extend({});
  assert.equal(missing.status, 400);
  assert.deepEqual(missing.body.validations, [{ field: 'deadline', detail: 'is required' }]);
  assert.equal((await extend({ deadline: later })).status, 200);
});

test('accounts for GitHub can be prepared before its sign-in is configured', async () => {
  const create = (login_type: string) =>
    server.api<User>('POST', '/users', {
      body: { username: `of-${login_type}`, email: `${login_type}@example.com`, login_type },
    });
  const github = await create('github');
  assert.equal(github.status, 201, JSON.stringify(github.body));
  assert.equal(github.body.login_type, 'github');
  assert.equal((await create('oidc')).status, 400);
  assert.equal((await create('token')).status, 400);
});
