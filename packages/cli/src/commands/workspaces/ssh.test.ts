import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { WorkspaceAgentListContainersResponse } from '@ropewalk/contract';
import {
  eventually,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { startTestDocker, writeDevcontainer } from '@ropewalk/testkit/docker/index';
import { invoke } from '../../testing/invoke.ts';

const untilThere = (file: string) => `while [ ! -e ${file} ]; do sleep 0.05; done`;

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
const env = () => ({ CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken });

test('rejects unsupported flags before it connects', async () => {
  // nothing listens there: a later check would fail with another error
  const away = { CODER_URL: 'http://127.0.0.1:1', CODER_SESSION_TOKEN: 'none' };
  const cases: [string[], NodeJS.ProcessEnv, RegExp][] = [
    [['--container-user', 'root'], {}, /--container-user requires --container/],
    [['--container', 'web', '--stdio'], {}, /--container cannot be used with --stdio/],
    [['-G'], {}, /--forward-gpg .*is not supported yet/],
    [['--forward-gpg', '--stdio'], {}, /--forward-gpg/],
    [[], { CODER_SSH_FORWARD_GPG: 'true' }, /CODER_SSH_FORWARD_GPG/],
    [['-R', 'bad'], {}, /--remote-forward "bad": write it as remote_port:local_address:local_port/],
    [['--env', 'bad'], {}, /--env "bad": write it as NAME=value/],
  ];
  for (const [flags, more, message] of cases) {
    const { code, stdout, stderr } = await invoke(['ssh', ...flags, 'dev', 'true'], { ...away, ...more });
    assert.match(stderr, message);
    assert.match(stderr, /^error: [^\n]+\.\n$/);
    assert.deepEqual([code, stdout], [1, '']);
  }
  const allowed = await invoke(['ssh', '--forward-gpg=false', 'dev', 'true'], away);
  assert.match(allowed.stderr, /Could not reach/);
});

test('runs a command in a terminal with --tty, also where it has none itself', async () => {
  const command = ['--', 'test -t 1 && echo terminal || echo none'];
  const without = await invoke(['ssh', 'dev', ...command], env());
  assert.deepEqual(without, { code: 0, stdout: 'none\n', stderr: '' });
  const withFlag = await invoke(['ssh', '-t', 'dev', ...command], env());
  assert.deepEqual([withFlag.code, withFlag.stdout], [0, 'terminal\r\n']);
  const withVariable = await invoke(['ssh', 'dev', ...command], { ...env(), CODER_SSH_TTY: 'true' });
  assert.equal(withVariable.stdout, 'terminal\r\n');
});

test('writes the events of a connection to a file in --log-dir', async (t) => {
  const dir = join(dev.home, 'logs', 'ssh');
  const go = join(dev.home, 'go');
  const ended = invoke(['ssh', '--log-dir', dir, '-e', 'HIDDEN=topsecret', 'dev', `${untilThere(go)}; exit 7`], env());
  const log = () => {
    const [name] = existsSync(dir) ? readdirSync(dir) : [];
    return name === undefined ? '' : readFileSync(join(dir, name), 'utf8');
  };
  await eventually('it is connected', async () => log().includes(' connected'));
  // the server drops the agent as if another connection of it were newer
  const { sql, events } = server.services;
  const [row] = await sql<
    { n: number }[]
  >`SELECT connection_number AS n FROM workspace_agents WHERE id = ${dev.agentId}`;
  await events.publish(sql, 'agent_connected', { agent_id: dev.agentId, number: row!.n + 1 });
  await eventually('it goes on', async () => log().includes(' resumed'));
  writeFileSync(go, '');
  const { code, stderr } = await ended;
  assert.deepEqual([code, stderr], [7, '']);

  const [name, ...others] = readdirSync(dir);
  assert.deepEqual(others, []);
  assert.match(name!, /^coder-ssh-\d{8}-\d{6}-[a-z]{5}\.log$/);
  assert.equal(statSync(join(dir, name!)).mode & 0o777, 0o600);
  const lines = log().trimEnd().split('\n');
  for (const line of lines) assert.match(line, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z /);
  const names = lines.map((line) => line.split(' ')[1]);
  assert.deepEqual(names, ['dialing', 'connected', 'lost', 'resumed', 'ended']);
  assert.match(lines[0]!, /workspace=dev .*server=127\.0\.0\.1:\d+/);
  assert.match(lines.at(-1)!, /ended code=7$/);
  assert.doesNotMatch(log(), /topsecret|exit/);
  assert.ok(!log().includes(server.adminToken));

  await t.test('names the file by the process ID of its parent', async () => {
    const editors = join(dev.home, 'editors');
    await invoke(['ssh', '--stdio', '-l', editors, 'dev'], env());
    const [found] = readdirSync(editors);
    assert.match(found!, new RegExp(`^coder-ssh-\\d{8}-\\d{6}-[a-z]{5}-${process.ppid}\\.log$`));
  });

  await t.test('records errors', async () => {
    const failures = join(dev.home, 'failures');
    const { code: failed } = await invoke(['ssh', '--log-dir', failures, 'nowhere'], env());
    assert.equal(failed, 1);
    assert.match(readFileSync(join(failures, readdirSync(failures)[0]!), 'utf8'), / ended code=1 error=not_found\n$/);
  });

  await t.test('warns of a directory that it cannot write, and continues the session', async () => {
    const impossible = join(go, 'below-a-file');
    const session = await invoke(['ssh', '--log-dir', impossible, 'dev', 'echo here'], env());
    assert.deepEqual([session.code, session.stdout], [0, 'here\n']);
    assert.match(session.stderr, /^Warning: could not write the connection log: [^\n]+below-a-file[^\n]+\.\n$/);
  });
});

test('exits with 128 and the number of the signal that ended it', async () => {
  for (const [name, number] of [
    ['USR1', 10],
    ['ALRM', 14],
    ['KILL', 9],
  ] as const) {
    const { code, stderr } = await invoke(['ssh', 'dev', '--', `kill -${name} $$`], env());
    assert.deepEqual([code, stderr], [128 + number, ''], name);
  }
});

test('forwards a socket of the workspace with -R', async (t) => {
  const [there, here] = [join(dev.home, 'r.sock'), join(dev.home, 'l.sock')];
  const local = createServer((socket) => socket.end('from here')).listen(here);
  await once(local, 'listening');
  t.after(() => local.close());
  const ask = `'${process.execPath}' -e 'require("net").connect("${there}").pipe(process.stdout)'`;
  const { code, stdout, stderr } = await invoke(['ssh', '-R', `${there}:${here}`, 'dev', '--', ask], env());
  assert.deepEqual([code, stdout, stderr], [0, 'from here', '']);
});

test('checks the agent at --workspace-poll-interval', async (t) => {
  const script = { displayName: 'Slow', script: untilThere('"$HOME/go"'), runOnStart: true, startBlocksLogin: true };
  const slow = await startTestWorkspace(server, 'slow', { agent: { scripts: [script] }, ready: false });
  t.after(() => slow.stop());
  let finishedAt = 0;
  const { code } = await invoke(
    ['ssh', '--wait', 'yes', '--workspace-poll-interval', '2s', 'slow', 'true'],
    env(),
    '',
    (soFar) => {
      if (finishedAt !== 0 || !soFar.includes('startup scripts')) return;
      finishedAt = performance.now();
      writeFileSync(join(slow.home, 'go'), '');
    },
  );
  assert.equal(code, 0);
  assert.ok(performance.now() - finishedAt > 1_500, 'it looked again before the interval had passed');

  const zero = await invoke(['ssh', '--workspace-poll-interval', '0s', 'slow', 'true'], env());
  assert.deepEqual([zero.code, zero.stderr], [1, 'error: --workspace-poll-interval must be greater than 0.\n']);
});

test('enters a container by its name or ID, through the agent in it or by docker', async () => {
  const docker = startTestDocker();
  const folder = join(dev.home, 'boxed');
  writeDevcontainer(folder);
  const boxed = await startTestWorkspace(server, 'boxed', {
    env: { PATH: `${docker.bin}:${process.env['PATH']}` },
    executable: docker.coder,
    agent: { devcontainers: [{ name: 'app', workspaceFolder: folder, configPath: '' }] },
  });
  try {
    const one = await eventually('the agent in the container', async () => {
      const path = `/workspaceagents/${boxed.agentId}/containers`;
      const { body } = await server.api<WorkspaceAgentListContainersResponse>('GET', path);
      return body.devcontainers.find(({ agent }) => agent !== undefined);
    });
    const { id, name } = one.container!;
    const command = 'echo "$STAND_IN_CONTAINER $CODER_WORKSPACE_AGENT_NAME $GREETING"; exit 3';
    const run = (...flags: string[]) => invoke(['ssh', ...flags, '-e', "GREETING=it's 5%", 'boxed', command], env());
    const inside = await run('--container', 'app');
    assert.deepEqual([inside.code, inside.stdout], [3, `${id} app it's 5%\n`], inside.stderr);
    const byDocker = /"exec","--interactive","--user","root","--env"/;
    assert.doesNotMatch(docker.log(), byDocker, 'the agent runs it');
    for (const wanted of ['app', name, id.slice(0, 12)]) {
      const { code, stdout, stderr } = await run('--container', wanted, '--container-user', 'root');
      assert.deepEqual([code, stdout, stderr], [3, `${id}  it's 5%\n`, ''], wanted);
    }
    assert.match(docker.log(), byDocker);
    const missing = await run('--container', 'web');
    assert.match(missing.stderr, /^error: Container "web" not found\. These run in the workspace: app/);
    docker.docker('rm', '-f', id);
    const none = await run('--container', 'app');
    assert.match(none.stderr, /^error: Container "app" not found\. No container runs in the workspace\./);
  } finally {
    await boxed.stop();
    docker.close();
  }
});
