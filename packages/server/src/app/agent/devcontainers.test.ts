import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type {
  Workspace,
  WorkspaceAgent,
  WorkspaceAgentListContainersResponse,
  WorkspaceAgentLog,
} from '@ropewalk/contract';
import {
  createPerson,
  eventually,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { startTestDocker, type TestDocker, writeDevcontainer } from '@ropewalk/testkit/docker/index';
import { processIds } from '@ropewalk/testkit/processes';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';

// The agent, its sub-agents, the devcontainer command and the server are real. Docker is a stand-in.

let server: TestServer;
let docker: TestDocker;
let dev: TestWorkspace;
const folder = mkdtempSync(join(tmpdir(), 'platform-devcontainers-'));
const app = join(folder, 'app');
let config: string;
/** Is in the environment of a process that never ends. */
const HANGS = `HANGS=${crypto.randomUUID()}`;

before(async () => {
  docker = startTestDocker();
  server = await startTestServer();
  config = writeDevcontainer(app, {
    postCreateCommand: 'echo created > created.txt',
    customizations: {
      coder: {
        displayApps: { vscode: false },
        apps: [{ slug: 'docs', displayName: 'Docs', url: 'http://localhost:8080' }],
      },
    },
  });
  // a start script clones the repository of another one
  const tool = join(folder, 'tool');
  mkdirSync(join(tool, 'ignored'), { recursive: true });
  for (const place of ['.', 'ignored'])
    writeFileSync(join(tool, place, '.devcontainer.json'), '{ "image": "example/base:1" }');
  writeFileSync(join(tool, '.gitignore'), 'ignored\n');
  execFileSync('git', ['init', '--quiet', tool]);
  const slow = join(folder, 'slow');
  writeDevcontainer(slow, { initializeCommand: `${HANGS} sleep 86399` });
  execFileSync('git', ['init', '--quiet', slow]);
  dev = await startTestWorkspace(server, 'contained', {
    env: { PATH: `${docker.bin}:${process.env['PATH']}` },
    executable: docker.coder,
    agent: {
      scripts: [{ displayName: 'Clone', script: `cp -r ${tool} ~/tool; cp -r ${slow} ~/slow`, runOnStart: true }],
      devcontainers: [{ name: 'app', workspaceFolder: app, configPath: '' }],
    },
  });
});
after(async () => {
  await dev?.stop();
  await server?.stop();
  docker?.close();
  rmSync(folder, { recursive: true, force: true });
});

type List = WorkspaceAgentListContainersResponse;
type Devcontainer = List['devcontainers'][number];

const containersOf = (agentId: string) => `/workspaceagents/${agentId}/containers`;
const list = async () => (await server.api<List>('GET', containersOf(dev.agentId))).body;
const change = (method: 'POST' | 'DELETE', id: string, token = server.adminToken) =>
  server.api<{ message: string }>(
    method,
    `${containersOf(dev.agentId)}/devcontainers/${id}${method === 'POST' ? '/recreate' : ''}`,
    { token },
  );

const named = (name: string, holds: (one: Devcontainer) => boolean) =>
  eventually(`the dev container ${name}`, async () =>
    (await list()).devcontainers.find((one) => one.name === name && holds(one)),
  );

async function agents(): Promise<WorkspaceAgent[]> {
  const { body } = await server.api<Workspace>('GET', `/workspaces/${dev.workspace.id}`);
  return body.latest_build.resources.flatMap(({ agents: all }) => all ?? []);
}

const ready = (id: string) =>
  eventually('the sub-agent is ready', async () =>
    (await agents()).find((agent) => agent.id === id && agent.lifecycle_state === 'ready'),
  );

/** What a command prints in a terminal of an agent. */
async function shell(agentId: string, command: string, more: Record<string, string> = {}): Promise<string> {
  const query = new URLSearchParams({ reconnect: crypto.randomUUID(), command, ...more });
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${agentId}/pty?${query}`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  let text = '';
  const stream = byteStream(connection).on('data', (chunk: Buffer) => {
    text += chunk;
  });
  await connection.closed;
  stream.destroy();
  return text;
}

/** The commands of the processes that have this variable. */
function processesWith(variable: string): string[] {
  return processIds().flatMap((pid) => {
    try {
      const has = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(variable);
      return has ? [readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')] : [];
    } catch {
      // no process, or one that has ended
      return [];
    }
  });
}

test('starts the dev container of a template, with an agent in it that people reach', async () => {
  assert.equal((await dev.look()).lifecycle_state, 'ready');
  assert.ok(existsSync(join(app, 'created.txt')), 'the command of the configuration ran');
  const one = await named('app', ({ agent }) => agent !== undefined);
  assert.deepEqual([one.status, one.dirty, one.error, one.workspace_folder], ['running', false, undefined, app]);
  assert.equal(one.config_path, config);
  assert.equal(one.container?.image, 'example/base:1');
  assert.deepEqual(one.agent, { id: one.agent?.id, name: 'app', directory: app });
  assert.equal(one.subagent_id, null, 'the template declares no agent of it');

  const sub = await ready(one.agent!.id);
  assert.equal(sub.parent_id, dev.agentId);
  assert.ok(!sub.display_apps.includes('vscode') && sub.display_apps.includes('web_terminal'), `${sub.display_apps}`);
  assert.deepEqual(
    sub.apps.map(({ display_name: name, url }) => [name, url]),
    [['Docs', 'http://localhost:8080']],
  );
  const text = await shell(sub.id, 'echo "$STAND_IN_CONTAINER $PWD $CODER_WORKSPACE_AGENT_NAME"');
  assert.equal(text.trim(), `${one.container!.id} ${app} app`);
  assert.doesNotMatch(docker.log(), /CODER_AGENT_TOKEN=/, 'the token is in no argument');

  // without its agent
  const { name, id } = one.container!;
  for (const container of [name, id.slice(0, 12)]) {
    const inside = await shell(dev.agentId, 'echo "in $STAND_IN_CONTAINER"', { container, container_user: 'root' });
    assert.equal(inside.trim(), `in ${id}`);
  }
  assert.match(docker.log(), /"exec","--interactive","--tty","--user","root"/);
  assert.match(await shell(dev.agentId, 'true', { container: 'missing' }), /No such container/);
  await assert.rejects(shell(dev.agentId, 'true', { container: '--help' }), { status: 400 });

  const source = (await dev.look()).log_sources.find(({ display_name: name }) => name === 'Dev Container (app)');
  await eventually('its log', async () => {
    const { body } = await server.api<WorkspaceAgentLog[]>('GET', `/workspaceagents/${dev.agentId}/logs`);
    const lines = body.filter(({ source_id: id }) => id === source?.id).map(({ output }) => output);
    return lines.some((line) => line.includes('docker run')) && lines.some((line) => line.includes('agent "app" runs'));
  });
});

test('lists only containers with each label of the query', async () => {
  const { container } = await named('app', ({ container: one }) => one !== undefined);
  const [first, second] = Object.entries(container!.labels).map((pair) => pair.join('='));
  const ids = async (...labels: string[]) => {
    const query = new URLSearchParams(labels.map((label) => ['label', label]));
    const { status, body } = await server.api<List>('GET', `${containersOf(dev.agentId)}?${query}`);
    return status === 200 ? body.containers.map(({ id }) => id) : status;
  };
  assert.deepEqual(await ids(first!), [container!.id]);
  assert.deepEqual(await ids(first!, second!), [container!.id]);
  assert.deepEqual(await ids(first!, 'nobody=has'), []);
  assert.deepEqual(await ids('constructor='), []);
  assert.equal(await ids('no-value'), 400);
});

test('reports a changed configuration, and builds the container again on request', async () => {
  const before = await named('app', ({ agent }) => agent !== undefined);
  const { connection } = await dialWebSocket(`${server.url}/api/v2${containersOf(dev.agentId)}/watch`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  const seen: Devcontainer[] = [];
  connection.on('text', (text: string) => {
    const one = (JSON.parse(text) as List).devcontainers.find(({ name }) => name === 'app');
    if (one) seen.push(one);
  });
  await eventually('the present state', async () => seen.length > 0);
  const later = new Date(Date.now() + 60_000);
  utimesSync(config, later, later);
  await eventually('the change', async () => seen.at(-1)?.dirty);
  utimesSync(config, new Date(0), new Date(0));

  const fellow = await createPerson(server, 'fellow');
  assert.equal((await change('POST', before.id, fellow.token)).status, 404);
  assert.equal((await change('POST', crypto.randomUUID())).status, 404);
  assert.equal((await change('POST', before.id)).status, 202);
  const second = await change('POST', before.id);
  assert.deepEqual([second.status, /is starting/.test(second.body.message)], [409, true]);
  await eventually('the start', async () => seen.some(({ status }) => status === 'starting'));
  const after = await named('app', ({ agent }) => agent !== undefined && agent.id !== before.agent!.id);
  assert.notEqual(after.container!.id, before.container!.id);
  await eventually('the end', async () => seen.at(-1)?.agent?.id === after.agent!.id && !seen.at(-1)!.dirty);
  connection.close(1000, '');
  assert.deepEqual((await agents()).map(({ name }) => name).sort(), ['app', 'main']);
  await ready(after.agent!.id);
});

test('discovers dev containers, follows a container that ends, and removes one', async () => {
  const found = await named('tool', ({ status }) => status === 'stopped');
  assert.equal(found.config_path, join(dev.home, 'tool/.devcontainer.json'));
  assert.ok(!(await list()).devcontainers.some(({ name }) => name === 'ignored'), 'Git ignores it');
  assert.equal((await change('DELETE', found.id)).status, 409, 'it has no container');

  const app = await named('app', ({ agent }) => agent !== undefined);
  docker.docker('stop', app.container!.id);
  await named('app', ({ status, agent }) => status === 'stopped' && agent === undefined);
  await eventually('the sub-agent is gone', async () => (await agents()).length === 1);
  assert.equal((await change('DELETE', app.id)).status, 204);
  const removed = await named('app', () => true);
  assert.deepEqual([removed.status, removed.container], ['stopped', undefined]);
  assert.equal(docker.docker('ps', '-a', '-q'), '');
});

test('says why a dev container did not start', async () => {
  const one = await named('app', ({ status }) => status === 'stopped');
  writeFileSync(config, '{ "image": ');
  assert.equal((await change('POST', one.id)).status, 202);
  const { error } = await named('app', ({ status }) => status === 'error');
  assert.match(error!, /"devcontainer up" failed/);
});

test('a start that hangs can be canceled, and leaves no process behind', async () => {
  const found = await named('slow', () => true);
  assert.equal((await change('POST', found.id)).status, 202);
  await eventually('it hangs', () => processesWith(HANGS).length > 0);
  const again = await change('POST', found.id);
  assert.deepEqual(
    [again.status, again.body.message],
    [409, 'The dev container "slow" is starting. Try again when that is done.'],
  );
  assert.equal((await change('DELETE', found.id)).status, 204);
  assert.deepEqual(processesWith(HANGS), []);
  const after = await named('slow', ({ status }) => status === 'stopped');
  assert.deepEqual([after.error, after.container], [undefined, undefined]);
  assert.equal((await change('DELETE', found.id)).status, 409, 'there is nothing to remove');
});

test('ends the agent in a container with its parent', async () => {
  const one = await named('app', ({ status }) => status === 'error');
  writeDevcontainer(app);
  assert.equal((await change('POST', one.id)).status, 202);
  const { container, agent } = await named('app', (now) => now.agent !== undefined);
  await ready(agent!.id);
  const inContainer = () => processesWith(`STAND_IN_CONTAINER=${container!.id}`);
  assert.ok(inContainer().some((command) => command.includes('agent')));
  await dev.stop();
  await eventually('the agent is gone', async () => !inContainer().some((command) => command.includes('agent')));
  assert.ok(inContainer().length > 0, 'the container itself runs on');
});
