import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { coder, createWorkspace, type ServerProcess, startSignedInServer, type Workspace } from './harness.ts';
import { isReady, localPool, makePool, poolIsReady, poolOfSeveralAgents } from './pool.ts';

let server: ServerProcess;
before(async () => {
  server = await startSignedInServer();
});
after(() => server.stop());

async function inside(workspace: string, command: string): Promise<string> {
  const done = await coder(['ssh', workspace, '--', command], { env: server.env });
  assert.equal(done.code, 0, done.stderr);
  return done.stdout.trim();
}

test('a person gets a running workspace, whose agent starts over for its owner', { timeout: 240_000 }, async () => {
  const pool = await makePool(server, 'pool', localPool(1));
  const [prebuilt] = await poolIsReady(server, 1, 'pool');
  const mine = await createWorkspace(server, pool.templateId, 'mine', { template_version_preset_id: pool.presetId });
  assert.equal(mine.id, prebuilt!.id);
  const ready = await isReady(server, mine.id);
  assert.equal(ready.latest_build.status, 'running');
  assert.equal(
    await inside('mine', 'echo $OWNER_BY_TEMPLATE $CODER_WORKSPACE_OWNER_NAME $CODER_WORKSPACE_NAME'),
    'admin admin mine',
  );
  // the start scripts ran for the pool and for the owner, in the same process of the workspace
  assert.equal(await inside('mine', 'cat starts'), 'started\nstarted');
  assert.match(await inside('mine', 'pwd'), /\/workspaces\/prebuilds\/prebuild-/);
  // the pool has another one, and the claimed workspace can be stopped and deleted like any other
  const [next] = await poolIsReady(server, 1, 'pool');
  assert.notEqual(next!.id, mine.id);
  for (const command of [['stop'], ['start'], ['delete']]) {
    const done = await coder([...command, 'mine', '-y'], { env: server.env });
    assert.equal(done.code, 0, done.stdout + done.stderr);
  }
});

test('a claim starts over each agent of the workspace, and is ready when all of them are', {
  timeout: 240_000,
}, async () => {
  const names = ['both', 'left', 'main', 'nested', 'right'];
  const pool = await makePool(server, 'several', poolOfSeveralAgents(1));
  const agentsOf = ({ latest_build: { resources } }: Workspace) => resources.flatMap(({ agents = [] }) => agents);
  const [prebuilt] = await poolIsReady(server, 1, 'several');
  assert.deepEqual(
    agentsOf(prebuilt!)
      .map(({ name }) => name)
      .sort(),
    names,
  );
  const mine = await createWorkspace(server, pool.templateId, 'several', { template_version_preset_id: pool.presetId });
  assert.equal(mine.id, prebuilt!.id);
  const ready = await isReady(server, mine.id);
  assert.equal(agentsOf(ready).length, names.length);
  for (const name of names) {
    assert.equal(
      await inside(`several.${name}`, 'echo $OWNER_BY_TEMPLATE $CODER_WORKSPACE_OWNER_NAME $CODER_WORKSPACE_NAME'),
      'admin admin several',
      name,
    );
    assert.equal(await inside(`several.${name}`, 'cat starts'), 'started\nstarted', name);
  }
  const done = await coder(['delete', 'several', '-y'], { env: server.env });
  assert.equal(done.code, 0, done.stdout + done.stderr);
});
