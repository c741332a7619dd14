import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@ropewalk/kit';
import { connect } from '@ropewalk/server/db/connect';
import { type RunningAgent, runAgent } from '@ropewalk/testkit';
import { type Echo, startEcho } from '@ropewalk/testkit/echo';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { type DaemonProcess, gates, makeKey, startDaemon, startGatedBuild } from './daemon-process.ts';
import { type Deployment, type Member, startDeployment } from './deployment.ts';
import {
  buildEnds,
  createWorkspace,
  ensureExecutable,
  eventually,
  freePort,
  makeTemplate,
  PROGRAM,
  type RunningProgram,
  startProgram,
  type Workspace,
} from './harness.ts';
import { agentsOf } from './pool.ts';

// Servers that are stopped one after the other behind a balancer, as an update does, with agents, a daemon in the middle of a
// build, and sessions of people. The servers' logs have the times.

const AGENTS = 20;
/** The longest time from a server's signal to the connection of each agent and daemon to another server. */
const MOVE_MS = 2_000;
/** Longer than the balancer needs to notice, and than this test needs to look. */
const SHUTDOWN_DELAY = '8s';

interface Line {
  ts: string;
  msg: string;
  agent_id?: string;
  daemon?: string;
}

let deployment: Deployment;
let dir: string;
const agents: RunningAgent[] = [];
let daemon: DaemonProcess | undefined;
let workspace: string;
let agentIds: string[];
/** A server in the workspace. */
let echo: Echo;
const ending = new AbortController();
const { gate, remove } = gates();

const logOf = (n: number) => join(dir, `server-${n}.json`);

/** Adds a server without daemons, which logs all its starts to a file. */
const addServer = () =>
  deployment.add({
    env: {
      CODER_PROVISIONER_DAEMONS: '0',
      CODER_SHUTDOWN_DELAY: SHUTDOWN_DELAY,
      CODER_LOGGING_JSON: logOf(deployment.members.length),
    },
  });

const linesOf = (member: Member): Line[] =>
  readFileSync(logOf(deployment.members.indexOf(member)), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

const template = `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
${Array.from({ length: AGENTS }, (_, n) => `resource "coder_agent" "a${n}" {\n  os = "linux"\n  arch = "amd64"\n}`).join('\n')}
resource "terraform_data" "machine" {
  input = [${Array.from({ length: AGENTS }, (_, n) => `coder_agent.a${n}.id`).join(', ')}]
}
`;

before(async () => {
  // a server that builds it would not answer soon
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-moves-'));
  deployment = await startDeployment();
  const first = await addServer();
  const { site, url } = deployment;
  const key = await makeKey(first.server, 'outside');
  daemon = await startDaemon(first.server, {
    name: 'outside',
    env: { CODER_URL: url, CODER_PROVISIONER_DAEMON_KEY: key },
  });
  const { id, latest_build } = await createWorkspace(
    site,
    await makeTemplate(site, 'many', { 'main.tf': template }),
    'many',
  );
  workspace = id;
  assert.equal((await buildEnds(site, latest_build.id)).status, 'running');
  const sql = connect(first.server.databaseUrl!, { max: 1 });
  const found = await sql<{ id: string; name: string; token: string }[]>`
    SELECT a.id, a.name, a.auth_token AS token FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id ORDER BY a.name`;
  await sql.end();
  agentIds = found.map((agent) => agent.id);
  for (const { name, token } of found) {
    const home = join(dir, name);
    mkdirSync(home);
    const env = { PATH: process.env['PATH'], HOME: home, SHELL: '/bin/sh' };
    const where = { url, token, scriptDataDir: home, logDir: home, env };
    agents.push(runAgent({ ...where, version: 'v0.1.0', log: silentLogger }));
  }
  await eventually('all agents are ready', async () =>
    (await statuses()).every((status) => status === 'connected ready'),
  );
  echo = await startEcho();
});
after(async () => {
  ending.abort();
  await Promise.all(agents.map((agent) => agent.stop()));
  await daemon?.kill();
  // nobody uses them any more: the second signal ends the delay
  for (const { server } of deployment?.members ?? []) server.child.kill('SIGTERM');
  await deployment?.stop();
  echo?.close();
  remove();
  if (existsSync(dir)) rmSync(dir, { recursive: true, force: true });
});

async function statuses(): Promise<string[]> {
  const { body } = await deployment.site.api<Workspace>('GET', `/workspaces/${workspace}`);
  return agentsOf(body).map(({ status, lifecycle_state: state }) => `${status} ${state}`);
}

const startCoder = (...args: string[]): RunningProgram => startProgram(PROGRAM, args, { env: deployment.env() });

/** A terminal as the dashboard's: it attaches to its shell again when its connection ends. */
function openTerminal(agent: string) {
  const reconnect = crypto.randomUUID();
  let output = '';
  let connections = 0;
  let send: (text: string) => void = () => {};
  const attach = async () => {
    while (!ending.signal.aborted) {
      const url = `${deployment.url}/api/v2/workspaceagents/${agent}/pty?reconnect=${reconnect}&width=80&height=24`;
      const headers = { 'Coder-Session-Token': deployment.site.token };
      const dialed = await dialWebSocket(url, { headers, timeoutMs: 5_000 }).catch(() => undefined);
      if (dialed) {
        const { connection } = dialed;
        connections += 1;
        connection.on('binary', (data: Buffer) => (output += data.toString()));
        send = (text) => connection.sendBinary(Buffer.from(JSON.stringify({ data: text })));
        ending.signal.addEventListener('abort', () => connection.destroy(), { once: true });
        await connection.closed;
      }
      await delay(100);
    }
  };
  void attach();
  return {
    connections: () => connections,
    /** Types a command until its output appears. A key may get lost with a connection. */
    shows: (command: string, text: string) =>
      eventually(text, async () => {
        send(`${command}\n`);
        await delay(200);
        return output.includes(text);
      }),
  };
}

/** Stops a server like an update, and returns after how many ms each agent and the daemon were with the other one. */
async function stop(leaving: Member, other: Member): Promise<number[]> {
  const seen = linesOf(other).length;
  const exited = leaving.server.terminate();
  const arrivals = () => linesOf(other).slice(seen);
  const gone: string[] = [];
  const arrived = await eventually('all have moved', async () => {
    gone.push(...(await statuses().catch(() => [])).filter((status) => status !== 'connected ready'));
    const lines = arrivals();
    const times = agentIds.map(
      (id) => lines.find((line) => line.msg === 'agent connected' && line.agent_id === id)?.ts,
    );
    times.push(lines.find((line) => line.msg === 'provisioner daemon connected' && line.daemon === 'outside')?.ts);
    return times.every((ts) => ts !== undefined) && times;
  });
  assert.deepEqual(gone, [], 'each agent is connected all the time');
  assert.equal(leaving.server.child.exitCode, null, 'the server still runs');
  const signal = linesOf(leaving).findLast(({ msg }) => msg === 'stopping')!.ts;
  assert.equal(await exited, 0);
  return arrived.map((ts) => Date.parse(ts) - Date.parse(signal)).sort((a, b) => a - b);
}

test('a stopping server moves agents and daemons to the other one within 2 s, and no session ends', async (t) => {
  const { members, site } = deployment;
  const [first] = members as [Member];
  const waiting = gate('waiting');
  const building = await startGatedBuild(site, waiting, 'waiting');
  const session = startCoder('ssh', 'many.a0', '--', 'i=0; while :; do echo "line $i"; i=$((i+1)); sleep 0.05; done');
  t.after(() => session.child.kill());
  const port = await freePort();
  const forward = startCoder('port-forward', 'many.a1', '--tcp', `${port}:${echo.port}`);
  t.after(() => forward.child.kill());
  await eventually('the port is forwarded', () => /Ready!/.test(forward.out() + forward.err()));
  const forwarded = connectTcp(port, '127.0.0.1');
  t.after(() => forwarded.destroy());
  let echoed = '';
  forwarded.on('data', (data: Buffer) => (echoed += data.toString()));
  const typing = setInterval(() => forwarded.write('x'), 50);
  t.after(() => clearInterval(typing));
  const terminal = openTerminal(agentIds[2]!);
  await terminal.shows('X=kept', 'X=kept');
  await eventually('it counts', () => session.out().includes('line 10\n') && echoed.length > 10);
  // until now, all are with the first server
  const second = await addServer();

  const times: number[][] = [];
  for (const [leaving, other] of [
    [first, second],
    [second, first],
  ] as const) {
    times.push(await stop(leaving, other));
    const [lines, characters] = [session.out().length, echoed.length];
    await eventually('sessions continue', () => session.out().length > lines + 100 && echoed.length > characters + 10);
    await terminal.shows('echo is-$X', 'is-kept');
    await leaving.server.restart();
    await eventually('the balancer uses both', () => members.every(({ healthy }) => healthy));
  }
  for (const each of times) {
    // a busy machine may delay the last ones
    const most = each[Math.floor(each.length * 0.9)]!;
    assert.ok(most < MOVE_MS && each.at(-1)! < 2 * MOVE_MS, `${each.join(', ')} ms`);
  }

  assert.deepEqual([session.child.exitCode, forward.child.exitCode], [null, null], session.err() + forward.err());
  const seen = session.out().split('\n').slice(0, -1);
  assert.deepEqual(
    seen,
    seen.map((_, n) => `line ${n}`),
  );
  assert.equal(forwarded.destroyed, false);
  assert.match(echoed, /^x+$/);
  waiting.open();
  assert.equal((await buildEnds(site, building.latest_build.id)).status, 'running');
  assert.equal(waiting.begun(), 1);
});
