import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { WorkspaceAgentLog } from '@ropewalk/contract';
import { eventually, startTestServer, startTestWorkspace, type TestServer } from '@ropewalk/testkit';
import { askToReinit } from './reinit.ts';

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

test('starts a dev container after the other scripts with the devcontainer command', async () => {
  const bin = join(dir, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'devcontainer'), `#!/bin/sh\nexec >&2; cat ${dir}/cloned\nprintf '<%s>' "$@"; echo\n`);
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

test('says in the log that the command is missing, and fails nothing', async () => {
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

test('makes the agents of a claimed workspace start over, and says so once in upstream’s stream', async () => {
  const dev = await startTestWorkspace(server, 'claimed', {
    agent: { scripts: [{ displayName: 'Count', script: `echo ran >> ${dir}/count`, runOnStart: true }] },
  });
  const [row] = await server.services.sql<{ auth_token: string }[]>`
    SELECT auth_token FROM workspace_agents WHERE id = ${dev.agentId}`;
  const answer = await fetch(`${server.url}/api/v2/workspaceagents/me/reinit`, {
    headers: { 'Coder-Session-Token': row!.auth_token },
  });
  assert.equal(answer.headers.get('content-type'), 'text/event-stream');
  const { id, owner_id } = dev.workspace;
  await askToReinit(server.services, server.services.sql, { workspace_id: id, owner_id });
  // the stream ends after the one event
  const data = /^event: data\ndata: (.*)\n\n$/.exec(await answer.text())?.[1];
  assert.deepEqual(JSON.parse(data ?? 'null'), {
    WorkspaceID: id,
    workspace_id: id,
    owner_id,
    reason: 'prebuild_claimed',
  });
  await eventually('the scripts ran again', async () => readFileSync(join(dir, 'count'), 'utf8') === 'ran\nran\n');
  await eventually('it is ready', async () => (await dev.look()).lifecycle_state === 'ready');
  await dev.stop();
});
