import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkspaceBuild } from '@ropewalk/contract';
import { connect } from '@ropewalk/server/db/connect';
import {
  AGENT_TEMPLATE,
  addOwner,
  buildEnds,
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  PERSON,
  PROGRAM,
  type RunningProgram,
  type ServerProcess,
  startCoderServer,
  startProgram,
} from './harness.ts';
import { obstacle, run } from './namespaces.ts';
import { type SlowLink, startSlowLink } from './slow-link.ts';

// Sessions of the command in its own network namespace. The server is far away: a proxy delays its bytes. The agent is near,
// if UDP reaches it.
//
//   command (10.213.7.2) - veth - (10.213.7.1) proxy - server - agent, whose UDP sockets are also at 10.213.7.1

const PREFIX = `dp${process.pid}`;
const NEAR = '10.213.7.2';
const FAR = '10.213.7.1';
const DELAY_MS = 25;
/** From the loss of UDP to the server. A few seconds, and the time of a busy machine. */
const MAX_RETURN_MS = 10_000;
/** A right that ends is gone within 5 s. The command needs some time to end. */
const MAX_REVOKED_MS = 6_000;

/** What the namespace does with UDP. Packets above 1,280 bytes are those that carry full packets of the tailnet. */
type Udp = 'accept' | 'drop' | 'drop long packets';

/** The counter counts what the command sends. */
const rules = (udp: Udp) => `flush ruleset
table inet link {
  counter sent { }
  chain out {
    type filter hook output priority 0
    meta l4proto udp counter name sent ${actionOf(udp)}
  }
  chain in {
    type filter hook input priority 0
    meta l4proto udp ${actionOf(udp)}
  }
}
`;
const actionOf = (udp: Udp) => (udp === 'drop long packets' ? 'meta length > 1280 drop' : udp);
const setUdp = (udp: Udp) => run(`ip netns exec ${PREFIX} nft -f -`, rules(udp));
const datagrams = () =>
  Number(/packets (\d+)/.exec(run(`ip netns exec ${PREFIX} nft list counter inet link sent`))![1]);

const skip = obstacle(`${PREFIX}x`, rules('accept'));
let dir: string;
/** More than the direct path carries in some seconds. */
const BULK_BYTES = 300_000_000;
let server: ServerProcess;
let link: SlowLink;
let agent: RunningProgram;

before(async () => {
  if (skip) return;
  run(`ip netns add ${PREFIX}`);
  run(`ip link add ${PREFIX} type veth peer name eth0 netns ${PREFIX}`);
  run(`ip addr add ${FAR}/30 dev ${PREFIX}`);
  run(`ip link set ${PREFIX} up`);
  run(`ip -n ${PREFIX} addr add ${NEAR}/30 dev eth0`);
  run(`ip -n ${PREFIX} link set eth0 up`);
  run(`ip -n ${PREFIX} link set lo up`);
  dir = mkdtempSync(join(tmpdir(), 'platform-direct-'));
  server = await startCoderServer({ env: { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable' } });
  link = await startSlowLink(FAR, server.url, DELAY_MS);
  await firstUser(server);
  const templateId = await makeTemplate(server, 'direct', AGENT_TEMPLATE);
  const { latest_build: build } = await createWorkspace(server, templateId, 'dev');
  const ended = await buildEnds(server, build.id);
  assert.equal(ended.status, 'running', ended.job.error ?? '');
  const sql = connect(server.databaseUrl!, { max: 1 });
  const [row] = await sql<{ token: string }[]>`SELECT a.auth_token AS token FROM workspace_agents a
    JOIN workspace_resources r ON r.id = a.resource_id JOIN workspace_builds b ON b.job_id = r.job_id`;
  await sql.end();
  agent = startProgram(PROGRAM, ['agent'], {
    env: { ...server.env, HOME: dir, CODER_AGENT_URL: server.url, CODER_AGENT_TOKEN: row!.token },
  });
  await eventually('the agent is ready', async () => {
    const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${build.id}`);
    return body.resources.some(({ agents }) => agents?.some(({ lifecycle_state: state }) => state === 'ready'));
  });
});
after(async () => {
  if (skip) return;
  agent?.child.kill('SIGKILL');
  link?.close();
  await server?.stop();
  run(`ip netns del ${PREFIX}`);
  rmSync(dir, { recursive: true, force: true });
});

/** What a command logged in this folder, and the paths that its session moved to. */
function readLogs(logs: string) {
  const log = () =>
    readdirSync(logs)
      .map((file) => readFileSync(join(logs, file), 'utf8'))
      .join('');
  const moves = () => [...log().matchAll(/ moved path=("?)(direct|server)/g)].map(([, , path]) => path);
  return { log, moves };
}

/** A session that counts lines until `end` is called, and the lines of its log. */
async function startCounter(
  t: TestContext,
  name: string,
  flags: string[] = [],
  as = { token: server.token, target: 'dev' },
) {
  const logs = join(dir, name);
  mkdirSync(logs);
  const stop = join(dir, `${name}-stop`);
  const counter = `i=0; while [ ! -e '${stop}' ]; do echo "line $i"; i=$((i+1)); sleep 0.01; done; exit 7`;
  const inside = ['ip', 'netns', 'exec', PREFIX, ...PROGRAM];
  const session = startProgram(inside, ['ssh', as.target, '--log-dir', logs, ...flags, '--', counter], {
    env: { ...server.env, CODER_URL: link.url, CODER_SESSION_TOKEN: as.token },
    cwd: dir,
  });
  t.after(() => session.child.kill('SIGKILL'));
  const { log, moves } = readLogs(logs);
  await eventually('it counts', async () => session.out().includes('line 10\n'), 30_000).catch((err) => {
    throw new Error(`${(err as Error).message}\n${session.err()}\n${log()}\n${agent.err()}`);
  });
  return {
    log,
    session,
    moves,
    count: () => session.out().split('\n').length,
    /** Ends the counter. Fails if a line is lost or doubled. */
    async end() {
      writeFileSync(stop, '');
      assert.equal(await session.ended, 7, session.err());
      const lines = session.out().trimEnd().split('\n');
      assert.deepEqual(
        lines,
        lines.map((_, i) => `line ${i}`),
      );
      assert.equal(session.err(), '');
      return lines.length;
    },
  };
}

for (const [name, fault] of [
  ['UDP is cut', 'drop'],
  ['full packets are lost', 'drop long packets'],
] as const)
  test(`a session moves to the direct path, and back when ${name}`, { skip, timeout: 300_000 }, async (t) => {
    setUdp('accept');
    const session = await startCounter(t, `moves-${fault.length}`);
    await eventually('it is direct', async () => session.moves().join() === 'direct', 60_000);
    const direct = session.count();
    await eventually('it counts on', async () => session.count() > direct + 100);
    assert.ok(datagrams() > 50, `${datagrams()} datagrams`);
    setUdp(fault);
    const since = performance.now();
    await eventually('it is back', async () => session.moves().join() === 'direct,server', MAX_RETURN_MS);
    t.diagnostic(`back after ${Math.round(performance.now() - since)} ms`);
    const back = session.count();
    await eventually('it counts on', async () => session.count() > back + 100);
    const lines = await session.end();
    t.diagnostic(`${lines} lines`);
    assert.doesNotMatch(session.log(), / lost| resumed/);
  });

test('a session that begins to carry much goes back to the server', { skip, timeout: 120_000 }, async (t) => {
  setUdp('accept');
  const logs = join(dir, 'bulk');
  mkdirSync(logs);
  const begin = join(dir, 'begin');
  const command = `while [ ! -e '${begin}' ]; do sleep 0.1; done; head -c ${BULK_BYTES} /dev/zero`;
  const words = [...PROGRAM, 'ssh', 'dev', '--log-dir', logs, '--', command].map((word) => `"${word}"`);
  const session = startProgram(['ip', 'netns', 'exec', PREFIX, 'sh', '-c'], [`${words.join(' ')} | wc -c`], {
    env: { ...server.env, CODER_URL: link.url, CODER_SESSION_TOKEN: server.token },
    cwd: dir,
  });
  t.after(() => session.child.kill('SIGKILL'));
  const moves = () => readLogs(logs).moves().join();
  await eventually('it is direct', () => moves() === 'direct', 60_000);
  const since = performance.now();
  writeFileSync(begin, '');
  await eventually('it is back', () => moves() === 'direct,server', 20_000);
  t.diagnostic(`back after ${Math.round(performance.now() - since)} ms`);
  assert.equal(await session.ended, 0, session.err());
  assert.equal(Number(session.out()), BULK_BYTES);
  assert.equal(moves(), 'direct,server');
});

test('a person who loses the role for it loses the direct path', { skip, timeout: 120_000 }, async (t) => {
  setUdp('accept');
  const { token, setRoles } = await addOwner(server, 'boss');
  const counter = await startCounter(t, 'revoked', [], { token, target: `${PERSON.username}/dev` });
  await eventually('it is direct', async () => counter.moves().join() === 'direct', 60_000);
  const since = performance.now();
  await setRoles([]);
  const ended = await Promise.race([counter.session.ended, delay(MAX_REVOKED_MS, 'too late')]);
  t.diagnostic(`ended after ${Math.round(performance.now() - since)} ms`);
  assert.equal(ended, 1, counter.session.err());
});

test('ping names the path of each answer', { skip, timeout: 120_000 }, async (t) => {
  setUdp('accept');
  const ping = startProgram(['ip', 'netns', 'exec', PREFIX, ...PROGRAM], ['ping', 'dev', '--wait', '500ms'], {
    env: { ...server.env, CODER_URL: link.url, CODER_SESSION_TOKEN: server.token },
  });
  t.after(() => ping.child.kill('SIGKILL'));
  await eventually('a direct answer', async () => ping.out().includes(' direct '), 60_000);
  const lines = ping.out().trimEnd().split('\n');
  const direct = lines.findIndex((line) => line.includes(' direct '));
  assert.ok(direct > 1, ping.out());
  for (const [i, line] of lines.entries()) {
    const [, took, path] = /^pong from dev in ([\d.]+)ms (via the server|direct \S+:\d+)$/.exec(line)!;
    assert.equal(path === 'via the server', i < direct, line);
    // both directions of the link
    if (i < direct) assert.ok(Number(took) >= 2 * DELAY_MS, line);
    assert.ok(line.length < 80, line);
  }
});

test('a network without UDP notices nothing', { skip, timeout: 120_000 }, async (t) => {
  setUdp('drop');
  const session = await startCounter(t, 'blocked');
  await eventually('it has tried', async () => datagrams() > 1, 40_000);
  const tried = session.count();
  await eventually('it counts on', async () => session.count() > tried + 500, 30_000);
  await session.end();
  assert.doesNotMatch(session.log(), / moved| lost| resumed/);
});

test('--disable-direct-connections sends no UDP', { skip, timeout: 120_000 }, async (t) => {
  setUdp('accept');
  const session = await startCounter(t, 'disabled', ['--disable-direct-connections']);
  // longer than any session needs to begin with it
  await eventually('it counts on', async () => session.count() > 800, 60_000);
  await session.end();
  assert.doesNotMatch(session.log(), / moved/);
  assert.equal(datagrams(), 0);
});
