import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  coder,
  coderOutput,
  eventually,
  killTree,
  makeTemplate,
  type RunningProgram,
  type ServerProcess,
  startProgram,
  startSignedInServer,
  type Workspace,
} from './harness.ts';

// External workspaces: a person runs one command on a machine that no template creates, here an unprivileged account.

const arch = process.arch === 'arm64' ? 'arm64' : 'amd64';
const PROVIDER = 'terraform {\n  required_providers {\n    coder = { source = "coder/coder" }\n  }\n}\n';
const AGENT = `resource "coder_agent" "main" {\n  os   = "linux"\n  arch = "${arch}"\n}\n`;
const OUTSIDE = `${PROVIDER}${AGENT}
resource "coder_external_agent" "machine" {
  agent_id = coder_agent.main.id
}
`;
/** The account "nobody", if this process may change to it. */
const ACCOUNT = process.getuid?.() === 0 ? 65_534 : undefined;

interface Credentials {
  workspace_name: string;
  agent_name: string;
  auth_type: string;
  auth_token: string;
  init_script: string;
}

let server: ServerProcess;
let home: string;
const machines: RunningProgram[] = [];
before(async () => {
  home = mkdtempSync(join(tmpdir(), 'machine-'));
  server = await startSignedInServer();
});
after(async () => {
  for (const { child } of machines) killTree(child.pid!);
  await server.stop();
  rmSync(home, { recursive: true, force: true });
});

const run = (...args: string[]) => coderOutput(args, { env: server.env });

/** Runs a command in a shell of the machine, as a person pastes it. */
function paste(command: string): RunningProgram {
  const own = join(home, String(machines.length));
  mkdirSync(own);
  chmodSync(home, 0o755);
  if (ACCOUNT !== undefined) chownSync(own, ACCOUNT, ACCOUNT);
  const account =
    ACCOUNT === undefined ? [] : ['setpriv', `--reuid=${ACCOUNT}`, `--regid=${ACCOUNT}`, '--clear-groups'];
  const env = { PATH: process.env['PATH'], HOME: own, TMPDIR: own };
  const machine = startProgram([...account, 'sh', '-c'], [command], { env, cwd: own });
  machines.push(machine);
  return machine;
}

const credentials = async (workspace: string) =>
  JSON.parse(await run('external-workspaces', 'agent-instructions', workspace, '-o', 'json')) as Credentials;

const agentOf = async (workspace: string) => {
  const { body } = await server.api<Workspace>('GET', `/users/me/workspace/${workspace}`);
  return body.latest_build.resources.flatMap(({ agents = [] }) => agents)[0]!;
};

/** What the server answers to an agent with this token. */
const asAgent = async (token: string) => {
  const headers = { 'Coder-Session-Token': token };
  return (await fetch(`${server.url}/api/v2/workspaceagents/me/gitsshkey`, { headers })).status;
};

test('connects a machine with one command, and shuts it out when the workspace stops', {
  timeout: 400_000,
}, async () => {
  await makeTemplate(server, 'outside', { 'main.tf': OUTSIDE });
  await makeTemplate(server, 'inside', { 'main.tf': `${PROVIDER}${AGENT}` });
  const rejected = await coder(['external-workspaces', 'create', 'no', '-t', 'inside', '-y'], { env: server.env });
  assert.equal(rejected.code, 1);
  assert.match(rejected.stderr, /has no external agent/);

  const began = Date.now();
  const created = await run('external-workspaces', 'create', 'dev', '--template', 'outside', '--yes');
  assert.ok(Date.now() - began < 60_000, 'waits for no agent');
  const first = await credentials('dev');
  assert.deepEqual([first.workspace_name, first.agent_name, first.auth_type], ['dev', 'main', 'token']);
  assert.ok(created.includes(`\n${first.init_script}\n`), created);
  assert.equal(
    first.init_script,
    `curl -fsSL "${server.url}/api/v2/init-script/linux/${arch}" | CODER_AGENT_TOKEN="${first.auth_token}" sh`,
  );
  assert.equal((await agentOf('dev')).status, 'connecting');
  const list = await run('external-workspaces', 'list');
  assert.match(list, /^WORKSPACE +TEMPLATE +STATUS +HEALTHY +LAST BUILT +CURRENT VERSION +OUTDATED *\n/);
  assert.match(list, /\nadmin\/dev +outside +Started/);

  const machine = paste(first.init_script);
  const connected = async (workspace: string, by: RunningProgram) =>
    eventually(
      'the agent is ready',
      async () => {
        assert.equal(by.child.exitCode, null, by.err());
        const agent = await agentOf(workspace);
        return agent.status === 'connected' && agent.lifecycle_state === 'ready';
      },
      120_000,
    );
  await connected('dev', machine);
  const shell = await run('ssh', 'dev', 'id -u; pwd');
  assert.equal(shell, `${ACCOUNT ?? process.getuid!()}\n${join(home, '0')}\n`);

  await run('stop', 'dev', '--yes');
  assert.equal(await asAgent(first.auth_token), 401);
  const stopped = await coder(['ssh', '--disable-autostart', 'dev', 'true'], { env: server.env });
  assert.notEqual(stopped.code, 0);

  await run('start', 'dev', '--yes');
  const second = await credentials('dev');
  assert.notEqual(second.auth_token, first.auth_token);
  assert.equal(await asAgent(first.auth_token), 401);
  assert.equal((await agentOf('dev')).status, 'connecting', 'the machine has the old token');
  await connected('dev', paste(second.init_script));
  assert.equal(await run('ssh', 'dev', 'pwd'), `${join(home, '1')}\n`);
});
