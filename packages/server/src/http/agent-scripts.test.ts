import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { WorkspaceAgentLog } from '@platform/contract';
import { eventually, startTestServer, startTestWorkspace, type TestServer } from '@platform/testkit';

let server: TestServer;
const dir = mkdtempSync(join(tmpdir(), 'platform-scripts-'));
before(async () => {
  server = await startTestServer();
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

const logsOf = async (agentId: string) =>
  (await server.api<WorkspaceAgentLog[]>('GET', `/workspaceagents/${agentId}/logs`)).body;

test('a dev container is started after the other scripts by the devcontainer command', async () => {
  const bin = join(dir, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'devcontainer'), `#!/bin/sh\ncat ${dir}/cloned\nprintf '<%s>' "$@"; echo\n`);
  chmodSync(join(bin, 'devcontainer'), 0o755);
  const dev = await startTestWorkspace(server, 'contained', {
    env: { PATH: `${bin}:${process.env['PATH']}` },
    agent: {
      scripts: [{ displayName: 'Clone', script: `sleep 0.3; echo cloned > ${dir}/cloned`, runOnStart: true }],
      devcontainers: [{ name: 'app', workspaceFolder: "/src/it's; exit 9", configPath: '/src/.devcontainer/x.json' }],
    },
  });
  const { scripts, log_sources: sources, lifecycle_state: state } = await dev.look();
  assert.equal(state, 'ready');
  assert.deepEqual(
    scripts.map(({ display_name: name }) => name),
    ['Clone', 'Dev Container (app)'],
  );
  const source = sources.find(({ display_name: name }) => name === 'Dev Container (app)')!;
  const lines = await eventually('its log', async () => {
    const found = (await logsOf(dev.agentId)).filter(({ source_id: id }) => id === source.id);
    return found.length === 2 && found.map(({ output }) => output);
  });
  assert.deepEqual(lines, [
    'cloned',
    "<up><--workspace-folder></src/it's; exit 9><--config></src/.devcontainer/x.json>",
  ]);
  await dev.stop();
});

test('without the command its log says so, and nothing fails', async () => {
  const dev = await startTestWorkspace(server, 'uncontained', {
    env: { PATH: '/usr/bin:/bin' },
    agent: { devcontainers: [{ name: 'app', workspaceFolder: '~/app' }] },
  });
  assert.equal((await dev.look()).lifecycle_state, 'ready');
  const line = await eventually('its log', async () => (await logsOf(dev.agentId))[0]);
  assert.equal(line.level, 'error');
  assert.match(line.output, /no "devcontainer" command/);
  await dev.stop();
});
