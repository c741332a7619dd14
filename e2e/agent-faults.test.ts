import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { run, sshClient } from '@ropewalk/agent/testing/ssh-client';
import { silentLogger } from '@ropewalk/kit';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { type RunningAgent, runAgent } from '@ropewalk/testkit';
import { startEcho } from '@ropewalk/testkit/echo';
import { processIds } from '@ropewalk/testkit/processes';
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

// Tests an agent that is killed, and many agents during a restart of the server.

const MANY = 50;
let server: ServerProcess;
let sql: Sql;
let dir: string;
let agents: { id: string; name: string; token: string }[];

function template(): string {
  const names = ['lone', ...Array.from({ length: MANY }, (_, n) => `a${n}`)];
  const resources = names.map(
    (name) => `
resource "coder_agent" "${name}" {
  os             = "linux"
  arch           = "amd64"
  startup_script = "echo $CODER_WORKSPACE_AGENT_NAME >> ${dir}/started"
}`,
  );
  return `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
${resources.join('')}
resource "terraform_data" "machine" {
  input = [${names.map((name) => `coder_agent.${name}.id`).join(', ')}]
}
`;
}

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'platform-agents-'));
  chmodSync(dir, 0o755);
  server = await startCoderServer();
  await firstUser(server);
  const templateId = await makeTemplate(server, 'many', { 'main.tf': template() });
  const { latest_build: build } = await createWorkspace(server, templateId, 'many');
  const ended = await buildEnds(server, build.id);
  assert.equal(ended.status, 'running', ended.job.error ?? '');
  sql = connect(server.databaseUrl!, { max: 1 });
  agents = await sql<typeof agents>`SELECT a.id, a.name, a.auth_token AS token FROM workspace_agents a
    JOIN workspace_resources r ON r.id = a.resource_id JOIN workspace_builds b ON b.job_id = r.job_id`;
  assert.equal(agents.length, MANY + 1);
});
after(async () => {
  await sql.end();
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

interface Row {
  connected: number;
  dials: number;
}
const rows = async () => {
  const [row] = await sql<Row[]>`SELECT sum(connection_number)::int AS dials,
    (count(*) FILTER (WHERE last_connected_at > coalesce(disconnected_at, '-infinity')))::int AS connected
    FROM workspace_agents WHERE name <> 'lone'`;
  return row!;
};
const started = () => readFileSync(join(dir, 'started'), 'utf8').trim().split('\n').sort();

test('after a restart of a killed server, fifty agents reconnect within 15 s and do not repeat their scripts', async () => {
  const home = join(dir, 'many');
  const many: RunningAgent[] = [];
  try {
    for (const { token, name } of agents) {
      if (name === 'lone') continue;
      const folder = join(home, name);
      many.push(
        runAgent({
          ...{ url: server.url, token, version: 'v0.1.0', log: silentLogger, scriptDataDir: folder, logDir: dir },
          env: { PATH: process.env['PATH'], HOME: dir },
        }),
      );
    }
    await eventually('all have started', async () => {
      const [row] = await sql<{ n: number }[]>`SELECT count(*)::int AS n FROM workspace_agents
        WHERE lifecycle_state = 'ready'`;
      return row!.n === MANY;
    });
    const before = await rows();
    assert.deepEqual({ ...before }, { connected: MANY, dials: MANY });
    await server.kill();
    await server.restart();
    const from = performance.now();
    await eventually('all have connected again', async () => (await rows()).dials >= 2 * MANY, 15_000);
    await eventually('all are connected', async () => (await rows()).connected === MANY, 15_000);
    const ms = performance.now() - from;
    assert.ok(ms < 15_000, `${ms} ms`);
    assert.equal((await rows()).dials, 2 * MANY, 'each of them once');
    assert.equal(started().length, MANY);
    assert.equal(new Set(started()).size, MANY);
  } finally {
    await Promise.all(many.map((agent) => agent.stop()));
  }
});

interface AgentProcess {
  child: ChildProcess;
  home: string;
  /** Sends SIGKILL, like a machine that runs out of memory. */
  kill(): Promise<void>;
  /** The number of open descriptors without pipes, of which the agent keeps some ready for later programs. */
  descriptors(): number;
  /** The number of ends of pipes. */
  pipes(): number;
  pssKb(): number;
}

function startAgent(): AgentProcess {
  const { token } = agents.find(({ name }) => name === 'lone')!;
  const home = join(dir, 'lone');
  const [file, ...first] = PROGRAM;
  const child = spawn(file!, [...first, 'agent'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      HOME: dir,
      TMPDIR: dir,
      CODER_AGENT_URL: server.url,
      CODER_AGENT_TOKEN: token,
      CODER_AGENT_SCRIPT_DATA_DIR: home,
      CODER_AGENT_LOG_DIR: dir,
    },
  });
  child.stderr!.resume();
  const targets = () =>
    readdirSync(`/proc/${child.pid}/fd`).flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/${child.pid}/fd/${fd}`)];
      } catch {
        return [];
      }
    });
  // also the few of Node.js itself
  const isPipe = (target: string) => target.startsWith('pipe:');
  return {
    child,
    home,
    async kill() {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
    },
    descriptors: () => targets().filter((target) => !isPipe(target)).length,
    pipes: () => targets().filter(isPipe).length,
    pssKb: () => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/smaps_rollup`, 'utf8'))?.[1]),
  };
}

const lone = () => agents.find(({ name }) => name === 'lone')!.id;
const status = async () => {
  const [row] = await sql<{ key: string; up: boolean; number: number }[]>`SELECT ssh_host_key AS key,
    connection_number AS number, coalesce(last_connected_at > coalesce(disconnected_at, '-infinity'), false) AS up
    FROM workspace_agents WHERE id = ${lone()}`;
  return row!;
};
async function way(path: string) {
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${lone()}/${path}`, {
    headers: { 'Coder-Session-Token': server.token },
  });
  return byteStream(connection);
}
/** The processes of this test's sessions, which have this mark in their environment. */
function marked(mark: string): number[] {
  return processIds().filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(mark);
    } catch {
      return false;
    }
  });
}

test('200 SSH sessions and 200 connections to a port do not change descriptors and memory of the agent', async () => {
  const agent = startAgent();
  const echo = await startEcho();
  try {
    await eventually('it is connected', async () => (await status()).up);
    const round = async (count: number) => {
      for (let n = 0; n < count; n += 10) {
        await Promise.all(
          Array.from({ length: 10 }, async () => {
            const client = await sshClient(await way('tunnel?service=ssh'));
            assert.equal((await run(client, 'echo here')).stdout, 'here\n');
            client.end();
            const stream = await way(`tunnel?service=tcp&port=${echo.port}`);
            stream.write('x');
            await new Promise((resolve) => stream.once('data', resolve));
            stream.destroy();
          }),
        );
      }
      await eventually('no connection is left', async () => echo.connections() === 0);
    };
    await round(20);
    const [before, pss] = [agent.descriptors(), agent.pssKb()];
    await round(200);
    await eventually('descriptors as before', async () => Math.abs(agent.descriptors() - before) <= 5);
    assert.ok(agent.pipes() <= 64, `${agent.pipes()} ends of pipes are kept`);
    const grown = agent.pssKb() - pss;
    assert.ok(grown < 48 * 1024, `${grown} KiB more`);
    assert.ok(agent.pssKb() < 180 * 1024, `${agent.pssKb()} KiB`);
  } finally {
    await agent.kill();
    echo.close();
  }
});

test('a killed agent restarts with the same key, its sessions end with a reason, and nothing is left in the workspace', async () => {
  let agent = startAgent();
  const mark = `mark-${crypto.randomUUID()}`;
  try {
    const { number } = await status();
    await eventually('it is connected', async () => (await status()).up && (await status()).number > number);
    const { key } = await status();
    const client = await sshClient(await way('tunnel?service=ssh'));
    const ended = new Promise<void>((resolve) => client.once('close', () => resolve()));
    const running = run(client, `export MARK=${mark}; sh -c 'while echo tick; do sleep 0.2; done'`);
    const reconnect = crypto.randomUUID();
    const terminal = await way(`pty?reconnect=${reconnect}&width=80&height=24`);
    let seen = '';
    terminal.on('data', (chunk: Buffer) => {
      seen += chunk;
    });
    terminal.write(JSON.stringify({ data: `export MARK=${mark}; X=kept; sh -c 'echo be-\${MARK%%-*}; sleep 1000'\r` }));
    await eventually('the terminal runs', async () => seen.includes('be-mark'));
    await eventually('both run', async () => marked(mark).length >= 2);
    await agent.kill();
    await ended;
    // a state as after a kill while a socket was being forwarded
    const namespace = /\d+/.exec(readlinkSync('/proc/self/ns/pid'))![0];
    mkdirSync(join(dir, `agent-forward-${namespace}-${agent.child.pid}-killed`), { mode: 0o700 });
    assert.notEqual((await running).code, 0);
    const refused = await way('tunnel?service=ssh').catch((err: Error & { status?: number; body?: string }) => err);
    if ('body' in refused) assert.match(refused.body!, /agent .*(not connected|does not answer)/);
    agent = startAgent();
    const next = number + 2;
    await eventually('it is back', async () => (await status()).up && (await status()).number >= next);
    assert.equal((await status()).key, key);
    const again = await way(`pty?reconnect=${reconnect}&width=80&height=24`);
    let fresh = '';
    again.on('data', (chunk: Buffer) => {
      fresh += chunk;
    });
    again.write(JSON.stringify({ data: 'echo "x=$X."\r' }));
    await eventually('a new shell', async () => fresh.includes('x=.'));
    assert.ok(!fresh.includes('be-mark'), 'the previous terminal is gone');
    again.destroy();
    await eventually('no process is left', async () => marked(mark).length === 0, 5_000);
    await eventually('no file is left', async () => {
      const left = globSync(`${dir}/agent-forward-*`).concat(globSync(`${dir}/lone/**/script-*`));
      return left.length === 0;
    });
  } finally {
    for (const pid of marked(mark)) process.kill(pid, 'SIGKILL');
    await agent.kill();
  }
});
