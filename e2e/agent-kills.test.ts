import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import {
  buildEnds,
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  PROGRAM,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// Kills an agent while a person and scripts use it, and starts it again, as a container's engine does.

const SIGNALS = ['SIGKILL', 'SIGTERM'] as const;
let server: ServerProcess;
let sql: Sql;
let dir: string;
let agents: { id: string; name: string; token: string }[];

const template = () => `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
${SIGNALS.map(
  (name) => `
resource "coder_agent" "${name.toLowerCase()}" {
  os             = "linux"
  arch           = "amd64"
  startup_script = "echo begun; echo $$ >> ${dir}/${name}.pids; while [ ! -e ${dir}/${name}.go ]; do sleep 0.05; done; echo done"
}`,
).join('\n')}
resource "terraform_data" "machine" {
  input = [${SIGNALS.map((name) => `coder_agent.${name.toLowerCase()}.id`).join(', ')}]
}
`;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'platform-killed-'));
  chmodSync(dir, 0o755);
  server = await startCoderServer();
  await firstUser(server);
  writeFileSync(join(server.configDir, 'session'), server.token);
  writeFileSync(join(server.configDir, 'url'), server.url);
  const { latest_build } = await createWorkspace(
    server,
    await makeTemplate(server, 'kills', { 'main.tf': template() }),
    'dev',
  );
  const ended = await buildEnds(server, latest_build.id);
  assert.equal(ended.status, 'running', ended.job.error ?? '');
  sql = connect(server.databaseUrl!, { max: 1 });
  agents = await sql<typeof agents>`SELECT a.id, a.name, a.auth_token AS token FROM workspace_agents a
    JOIN workspace_resources r ON r.id = a.resource_id JOIN workspace_builds b ON b.job_id = r.job_id`;
});
after(async () => {
  await sql?.end();
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

interface Watched {
  child: ChildProcess;
  out(): string;
  ended: Promise<number | null>;
}

function start(file: string, args: readonly string[], env: NodeJS.ProcessEnv): Watched {
  const child = spawn(file, args, { env, cwd: dir, stdio: ['pipe', 'pipe', 'pipe'] });
  let out = '';
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (data: Buffer) => {
      out += data;
    });
  child.stdin!.on('error', () => {});
  return { child, out: () => out, ended: once(child, 'exit').then(([code]) => code as number | null) };
}
const coder = (...args: string[]) => start(PROGRAM[0]!, [...PROGRAM.slice(1), ...args], server.env);

function startAgent({ name, token }: { name: string; token: string }): Watched {
  const home = join(dir, name);
  mkdirSync(home, { recursive: true });
  return start(PROGRAM[0]!, [...PROGRAM.slice(1), 'agent'], {
    PATH: process.env['PATH'],
    HOME: home,
    TMPDIR: home,
    SHELL: '/bin/sh',
    CODER_AGENT_URL: server.url,
    CODER_AGENT_TOKEN: token,
    CODER_AGENT_LOG_DIR: home,
  });
}

/** False for a process that has ended and that nobody has waited for. */
const isRunning = (pid: number) => {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
};
const row = async (id: string) => {
  const [found] = await sql<{ state: string; number: number }[]>`SELECT lifecycle_state AS state,
    connection_number AS number FROM workspace_agents WHERE id = ${id}`;
  return found!;
};
const linesOf = async (id: string) =>
  (await sql<{ output: string }[]>`SELECT output FROM workspace_agent_logs WHERE agent_id = ${id} ORDER BY id`).map(
    ({ output }) => output,
  );
const pidsOf = (name: string): number[] => {
  try {
    return readFileSync(join(dir, `${name}.pids`), 'utf8')
      .trim()
      .split('\n')
      .map(Number);
  } catch {
    return [];
  }
};

test('an agent is killed during its scripts, and during sessions: nothing is left, each client ends with the reason', {
  concurrency: true,
}, async (t) => {
  await Promise.all(
    SIGNALS.map((signal) =>
      t.test(signal, async () => {
        const agent = agents.find(({ name }) => name === signal.toLowerCase())!;
        let running = startAgent(agent);
        const kill = async () => {
          running.child.kill(signal);
          await running.ended;
        };
        const sockets: Socket[] = [];
        const program = createServer((socket) => void sockets.push(socket.on('error', () => {}))).listen(
          0,
          '127.0.0.1',
        );
        try {
          await eventually('its script runs', () => pidsOf(signal).length === 1);
          await eventually('its log arrived', async () => (await linesOf(agent.id)).includes('begun'));
          await kill();
          if (signal === 'SIGTERM') assert.equal((await row(agent.id)).state, 'off');
          running = startAgent(agent);
          await eventually('the script runs again', () => pidsOf(signal).length === 2);
          assert.equal(isRunning(pidsOf(signal)[0]!), false, 'the first script has ended');
          writeFileSync(join(dir, `${signal}.go`), '');
          await eventually('it is ready', async () => (await row(agent.id)).state === 'ready');
          await eventually('no line is lost', async () =>
            isDeepStrictEqual(await linesOf(agent.id), ['begun', 'begun', 'done']),
          );

          const target = `dev.${agent.name}`;
          const session = coder('ssh', target, '--', 'echo begun-$$; exec sleep 1000');
          const stdio = start(
            'ssh',
            [
              ...['-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null', '-tt'],
              ...[
                '-o',
                `ProxyCommand=${PROGRAM.join(' ')} ssh --stdio ${target}`,
                'host',
                'echo begun-$$; exec sleep 1000',
              ],
            ],
            { ...process.env, ...server.env },
          );
          const forward = coder('port-forward', target, '-p', `0:${(program.address() as AddressInfo).port}`);
          await eventually('it forwards', () => forward.out().includes('Ready!'));
          const localPort = Number(/127\.0\.0\.1:(\d+) ->/.exec(forward.out())![1]);
          const socket = dial(localPort, '127.0.0.1');
          socket.on('error', () => {}).write('x');
          const closed = new Promise((resolve) => socket.once('close', resolve));
          await eventually('the port is open', () => sockets.length === 1);
          const { connection } = await dialWebSocket(
            `${server.url}/api/v2/workspaceagents/${agent.id}/pty?reconnect=${crypto.randomUUID()}&width=80&height=24`,
            { headers: { 'Coder-Session-Token': server.token } },
          );
          const terminal = byteStream(connection);
          let seen = '';
          terminal.on('data', (chunk: Buffer) => {
            seen += chunk;
          });
          terminal.on('error', () => {});
          const terminalEnds = new Promise((resolve) => terminal.once('close', resolve));
          terminal.write(JSON.stringify({ data: 'echo begun-$$; exec sleep 1000\r' }));
          const pid = (text: string) => Number(/begun-(\d+)/.exec(text)?.[1] ?? 0);
          await eventually('all have begun', () => pid(session.out()) && pid(stdio.out()) && pid(seen));
          const programs = [pid(session.out()), pid(stdio.out()), pid(seen)];
          const { number } = await row(agent.id);
          await kill();
          running = startAgent(agent);
          await eventually('it is back', async () => (await row(agent.id)).number > number);
          assert.deepEqual(await Promise.all([session.ended, stdio.ended]), [1, 255]);
          assert.match(session.out(), /^error: The connection to the workspace was lost\.$/m);
          assert.match(stdio.out(), /^Connection to host closed|Broken pipe/m);
          await Promise.all([closed, terminalEnds]);
          await eventually('the programs have ended', () => !programs.some(isRunning), 5_000);
          const next = dial(localPort, '127.0.0.1');
          next.on('error', () => {}).write('x');
          await eventually('the port is forwarded again', () => sockets.length === 2);
          next.destroy();
          forward.child.kill('SIGKILL');
          const again = coder('ssh', target, '--', 'echo again');
          assert.equal(await again.ended, 0, again.out());
          await eventually('it is ready again', async () => (await row(agent.id)).state === 'ready');
        } finally {
          running.child.kill('SIGKILL');
          program.close();
        }
      }),
    ),
  );
});
