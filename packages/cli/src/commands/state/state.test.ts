import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { WorkspaceBuild } from '@ropewalk/contract';
import {
  insertPerson,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let dev: TestWorkspace;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'dev');
});
after(async () => {
  await dev.stop();
  await server.stop();
});

const coder = (words: string[], stdin = '', token = server.adminToken) =>
  invoke(words, { CODER_URL: server.url, CODER_SESSION_TOKEN: token }, stdin);
const stateOf = (serial: number, lineage = 'pushed') =>
  JSON.stringify({ version: 4, terraform_version: '1.9.0', serial, lineage, outputs: {}, resources: [] });
const builds = async () =>
  (await server.api<WorkspaceBuild[]>('GET', `/workspaces/${dev.workspace.id}/builds`)).body.length;

test('replaces the state of a build without a new build, and the next build begins with it', async () => {
  const before = await builds();
  const push = ['state', 'push', 'dev', '-', '--no-build'];
  const done = { code: 0, stdout: 'The state of build 1 of dev has been replaced.\n', stderr: '' };
  assert.deepEqual(await coder(push, stateOf(9)), done);
  assert.equal((await coder(['state', 'pull', 'dev'])).stdout, stateOf(9));
  // of any lineage and serial, as a person wants it
  assert.deepEqual(await coder(['state', 'push', 'dev', '-', '-n', '--build', '1'], stateOf(3, 'other')), done);
  assert.equal(await builds(), before);

  const partial = await coder(push, '{"version": 4');
  assert.deepEqual([partial.code, partial.stdout], [1, '']);
  assert.match(partial.stderr, /^error: Invalid state: it must be a complete Terraform state file/);
  const { token } = await insertPerson(server, 'member', ['template-admin']);
  const mayPush = await coder(['state', 'push', 'admin/dev', '-', '-n'], stateOf(4), token);
  assert.equal(mayPush.code, 0, mayPush.stderr);
  const owner = await insertPerson(server, 'other');
  const path = `/workspacebuilds/${dev.workspace.latest_build.id}/state`;
  const body = { state: Buffer.from(stateOf(5)).toString('base64') };
  assert.equal((await server.api('PUT', path, { token: owner.token, body })).status, 404);

  const next = await server.api<WorkspaceBuild>('POST', `/workspaces/${dev.workspace.id}/builds`, {
    body: { transition: 'stop' },
  });
  assert.equal(next.status, 201);
  assert.equal((await coder(['state', 'pull', 'dev', '-b', '2'])).stdout, stateOf(4));
  const running = await coder(push, stateOf(10));
  assert.deepEqual([running.code, running.stdout], [1, '']);
  assert.match(running.stderr, /^error: The build has not ended\. Wait for its end, or cancel it\.\n/);
});
