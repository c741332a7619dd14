// `coder exp sync` against a real agent.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

const dir = mkdtempSync(join(tmpdir(), 'sync-'));
const path = join(dir, 'agent.sock');
let server: TestServer;
let workspace: TestWorkspace;
before(async () => {
  server = await startTestServer();
  workspace = await startTestWorkspace(server, 'sync', { socketPath: path });
});
after(async () => {
  await workspace.stop();
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

const sync = (...argv: string[]) => invoke(['exp', 'sync', ...argv], { CODER_AGENT_SOCKET_PATH: path });
const out = async (...argv: string[]) => {
  const { code, stdout, stderr } = await sync(...argv);
  assert.equal(code, 0, stderr);
  return stdout;
};

test('orders units as the scripts of registry modules do', async () => {
  assert.equal(await out('ping'), 'Success\n');
  assert.equal(await out('list'), 'No units registered\n');
  // upstream's flag of the group
  const placed = await invoke(['exp', 'sync', '--socket-path', path, 'ping'], { CODER_AGENT_SOCKET_PATH: '/nowhere' });
  assert.deepEqual([placed.code, placed.stdout], [0, 'Success\n'], placed.stderr);
  assert.equal(
    await out('want', 'start', 'install', 'clone'),
    'Unit "start" declared dependencies: [install, clone]\n',
  );
  let soFar = '';
  let finished = false;
  const waiting = invoke(['exp', 'sync', 'start', 'start'], { CODER_AGENT_SOCKET_PATH: path }, '', (text) => {
    soFar = text;
  }).then((outcome) => {
    finished = true;
    return outcome;
  });
  for (const unit of ['clone', 'install']) {
    assert.equal(await out('start', unit), `Unit "${unit}" started with no dependencies\n`);
    assert.equal(finished, false);
    assert.equal(await out('complete', unit), 'Success\n');
  }
  const { code, stdout } = await waiting;
  assert.equal(code, 0);
  assert.match(soFar, /^Unit "start" is waiting for dependencies to be satisfied: \[/);
  assert.match(stdout, /\nUnit "start" finished waiting for dependencies: \[.*\]\n$/);
  await out('want', 'late', 'clone');
  assert.equal(
    await out('start', 'late'),
    'Unit "late" started immediately, dependencies already satisfied: [clone]\n',
  );
  assert.deepEqual(JSON.parse(await out('list', '-o', 'json')), [
    { unit_name: 'clone', status: 'completed', is_ready: true },
    { unit_name: 'install', status: 'completed', is_ready: true },
    { unit_name: 'late', status: 'started', is_ready: true },
    { unit_name: 'start', status: 'started', is_ready: true },
  ]);
});

test('shows a unit, gives up after the time limit, and says what is wrong', async () => {
  await out('want', 'held', 'never');
  const text = await out('status', 'held');
  assert.match(text, /^Unit: held\nStatus: pending\nReady: false\n\nDependencies:\n/);
  assert.match(text, /never +completed +not registered +false/);
  assert.match(await out('status', 'unheard'), /Status: not registered\nReady: true\n\nDependencies:\nNo dependencies/);
  assert.deepEqual(JSON.parse(await out('status', 'held', '-o', 'json')), {
    unit_name: 'held',
    status: 'pending',
    is_ready: false,
    dependencies: [{ depends_on: 'never', required_status: 'completed', current_status: '', is_satisfied: false }],
  });
  const late = await sync('start', 'held', '--timeout', '300ms');
  assert.equal(late.code, 1);
  assert.match(late.stderr, /timeout waiting for dependencies of unit "held": \[never\]/);
  const cycle = await sync('want', 'never', 'held');
  assert.match(cycle.stderr, /Unit "never" cannot want "held": cycle/);
  const nowhere = await invoke(['exp', 'sync', 'ping', '--socket-path', join(dir, 'none.sock')]);
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.stderr, /Cannot reach the workspace agent at .*none\.sock \(ENOENT\)/);
});

test('gives scripts and sessions of the workspace the path of the socket', async () => {
  const printed = await invoke(['ssh', 'sync', '--', 'echo $CODER_AGENT_SOCKET_PATH'], {
    CODER_URL: server.url,
    CODER_SESSION_TOKEN: server.adminToken,
  });
  assert.equal(printed.stdout.trim(), path, printed.stderr);
});
