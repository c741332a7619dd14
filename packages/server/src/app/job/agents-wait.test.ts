import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { startTestWorkspace } from '@ropewalk/testkit/workspace';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

async function logOfStart(name: string): Promise<string> {
  const workspace = await startTestWorkspace(server, name);
  await workspace.stop();
  const path = `/workspacebuilds/${workspace.workspace.latest_build.id}/logs`;
  const logs = await server.api<{ output: string }[]>('GET', path);
  return logs.body.map(({ output }) => output).join('\n');
}

test('a build log says that its agent waits for the executable', async () => {
  assert.doesNotMatch(await logOfStart('at-once'), /still building/);
  server.services.agentsWait = () => true;
  assert.match(await logOfStart('waits'), /still building the coder executable/);
});
