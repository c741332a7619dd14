// The tailnet of two servers while they fail: a client and an agent, each a node, exchange the bytes of a TCP connection of
// the tailnet over the servers' relays, or directly. Balancers of this test choose the servers of each.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { after, before, beforeEach, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, createClient } from '@ropewalk/client';
import { nodeFetch } from '@ropewalk/client/node-fetch';
import { joinTailnet, type TailnetMember } from '@ropewalk/client/tailnet/member';
import { connect as connectDatabase } from '@ropewalk/server/db/connect';
import { type RequestBalancer, startRequestBalancer } from '@ropewalk/testkit/request-balancer';
import { type Deployment, type Member, startDeployment } from './deployment.ts';
import {
  AGENT_TEMPLATE,
  answers,
  buildEnds,
  createWorkspace,
  eventually,
  makeTemplate,
  PROGRAM,
  type RunningProgram,
  startProgram,
} from './harness.ts';

/** A pause of a connection while a server fails. It is a few seconds, and the time of a busy machine. */
const MAX_PAUSE_MS = 30_000;
/** After a long pause, TCP waits for some seconds more between two attempts. */
const MAX_RETURN_MS = 60_000;
/** Packets of two servers end so long after the servers have lost each other. */
const RIGHTS_MS = 5_000;
/** A connection without a line for so long has stopped. */
const QUIET_MS = 1_500;
/** How long two nodes have no server. */
const ALONE_MS = 8_000;
/** A direct path does not end with the servers. */
const MAX_DIRECT_PAUSE_MS = 5_000;

let deployment: Deployment;
let first: Member;
let second: Member;
/** The ways of the agent and of clients. */
let agentSide: RequestBalancer;
let clientSide: RequestBalancer;
let agent: RunningProgram;
let agentId: string;
let sql: ReturnType<typeof connectDatabase>;
let dir: string;
/** Sends back what it receives. In the workspace, as far as clients are concerned. */
let echo: Server;

const urlsOf = (...members: Member[]) => members.map(({ server }) => server.url);

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'platform-tailnet-'));
  deployment = await startDeployment();
  const env = { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable', CODER_PROVISIONER_DAEMONS: '1' };
  first = await deployment.add({ env });
  second = await deployment.add({ env });
  [agentSide, clientSide] = [await startRequestBalancer(), await startRequestBalancer()];
  agentSide.use(urlsOf(second));
  clientSide.use(urlsOf(first));
  const template = await makeTemplate(deployment.site, 'tailnet', AGENT_TEMPLATE);
  const { latest_build: build } = await createWorkspace(deployment.site, template, 'dev');
  assert.equal((await buildEnds(deployment.site, build.id)).status, 'running');
  sql = connectDatabase(first.server.databaseUrl!, { max: 1 });
  const [row] = await sql<{ id: string; token: string }[]>`SELECT a.id, a.auth_token AS token FROM workspace_agents a
    JOIN workspace_resources r ON r.id = a.resource_id JOIN workspace_builds b ON b.job_id = r.job_id`;
  agentId = row!.id;
  agent = startProgram(PROGRAM, ['agent'], {
    env: { ...first.server.env, HOME: dir, CODER_AGENT_URL: agentSide.url, CODER_AGENT_TOKEN: row!.token },
  });
  echo = createServer((socket) => socket.on('error', () => {}).pipe(socket));
  echo.listen(0, '127.0.0.1');
  await once(echo, 'listening');
});
after(async () => {
  agent?.child.kill('SIGKILL');
  echo?.close();
  await agentSide?.close();
  await clientSide?.close();
  await sql?.end();
  await deployment?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** After a test that failed, a server may be down, or cut off from the other one. */
beforeEach(async () => {
  for (const { server, peers } of [first, second]) {
    peers.mend();
    if (server.child.exitCode !== null || server.child.signalCode !== null) await server.restart();
  }
});

/** Moves the agent's connections to these servers. The function chooses by the path of the request. */
async function moveAgent(to: Member, servers: Parameters<RequestBalancer['use']>[0] = urlsOf(to)): Promise<void> {
  agentSide.use(servers);
  agentSide.disconnect();
  const address = `http://127.0.0.1:${to.peers.port}`;
  await eventually('the agent is connected to the server', async () => {
    const [found] = await sql`SELECT FROM workspace_agents a JOIN replicas r ON r.id = a.replica_id
      WHERE a.id = ${agentId} AND r.relay_address = ${address}`;
    return found;
  });
}

/** A node of a client that goes through `clientSide`. */
async function joined(t: TestContext, { blocksDirect = true, url = clientSide.url } = {}): Promise<TailnetMember> {
  const client: Client = createClient({ url, token: deployment.site.token, fetch: nodeFetch, blocksDirect });
  const member = await joinTailnet(client, agentId);
  t.after(() => member.close());
  return member;
}

const dialEcho = (member: TailnetMember, signal?: AbortSignal): Promise<Duplex> =>
  member.connect((echo.address() as AddressInfo).port, signal);

/** Asserts that a new connection to the agent works. */
async function reaches(member: TailnetMember): Promise<void> {
  const stream = await dialEcho(member, AbortSignal.timeout(MAX_PAUSE_MS));
  stream.write('hello');
  const [data] = await once(stream, 'data', { signal: AbortSignal.timeout(MAX_PAUSE_MS) });
  assert.equal(String(data), 'hello');
  stream.destroy();
}

/** Numbered lines that go to the agent and back over one connection, until the test ends. */
class Traffic {
  readonly #stream: Duplex;
  readonly #timer: NodeJS.Timeout;
  #sent = 0;
  #text = '';
  #problem: string | undefined;
  /** Lines that came back. */
  lines = 0;
  longestPauseMs = 0;
  #lastAt = performance.now();

  constructor(t: TestContext, stream: Duplex) {
    this.#stream = stream;
    this.#timer = setInterval(() => stream.write(`${this.#sent++}\n`), 20);
    stream.on('data', (data: Buffer) => this.#receive(data));
    stream.on('error', (err) => this.#fail(`the connection failed: ${err.message}`));
    stream.on('close', () => this.#fail('the connection ended'));
    t.after(() => this.stop());
  }

  /** Ends the connection. Fails if a line was lost, doubled or changed, or if the connection ended before. */
  stop(): void {
    clearInterval(this.#timer);
    const problem = this.#problem;
    this.#stream.removeAllListeners('close').destroy();
    assert.equal(problem, undefined);
  }

  /** Waits until lines come back that were sent after this call. */
  async goesOn(what: string, timeoutMs: number): Promise<void> {
    const from = this.#sent;
    await eventually(`${what}: lines come back`, () => this.#problem ?? this.lines > from, timeoutMs);
    assert.equal(this.#problem, undefined, what);
  }

  #receive(data: Buffer): void {
    const now = performance.now();
    this.longestPauseMs = Math.max(this.longestPauseMs, now - this.#lastAt);
    this.#lastAt = now;
    const lines = (this.#text + data).split('\n');
    this.#text = lines.pop()!;
    for (const line of lines) if (line !== `${this.lines++}`) this.#fail(`line ${this.lines - 1} is "${line}"`);
  }

  #fail(problem: string): void {
    this.#problem ??= problem;
  }
}

async function startTraffic(t: TestContext, member: TailnetMember): Promise<Traffic> {
  const traffic = new Traffic(t, await dialEcho(member));
  await traffic.goesOn('at the beginning', MAX_PAUSE_MS);
  return traffic;
}

const report = (t: TestContext, what: string, { longestPauseMs }: Traffic) =>
  t.diagnostic(`${what}: a pause of ${Math.round(longestPauseMs)} ms`);

test('a connection survives kill -9 of the server of its agent, and of its client, and new ones work', {
  timeout: 240_000,
}, async (t) => {
  await moveAgent(second);
  clientSide.use(urlsOf(first));
  for (const victim of ['agent', 'client'] as const) {
    const member = await joined(t);
    const traffic = await startTraffic(t, member);
    assert.match((await member.ping()).path, /^relay /);
    // both go to the first server then, as with a balancer that checks the health
    agentSide.use(urlsOf(first));
    clientSide.use(urlsOf(first));
    await second.server.kill();
    await traffic.goesOn(`without the server of the ${victim}`, MAX_PAUSE_MS);
    await reaches(member);
    await reaches(await joined(t));
    report(t, `without the server of the ${victim}`, traffic);
    traffic.stop();
    await second.server.restart();
    clientSide.use(urlsOf(second));
  }
});

for (const [what, fault] of [
  ['break', 'cut'],
  ['hang', 'stall'],
] as const)
  test(`connections between servers that ${what}: each serves its own clients, and the rest goes on afterwards`, {
    timeout: 240_000,
  }, async (t) => {
    await moveAgent(second);
    clientSide.use(urlsOf(first));
    const member = await joined(t);
    const traffic = await startTraffic(t, member);
    for (const { peers } of [first, second]) peers[fault]();
    const stopped = performance.now();
    let before = -1;
    while (before !== traffic.lines) {
      before = traffic.lines;
      await delay(QUIET_MS);
    }
    t.diagnostic(`packets stopped after ${Math.round(performance.now() - stopped - QUIET_MS)} ms`);
    assert.ok(performance.now() - stopped < RIGHTS_MS + 2 * QUIET_MS);
    // what works: the API of both, and the agent for clients of its server
    const at = await joined(t, { url: second.server.url });
    await reaches(at);
    for (const { server } of [first, second]) assert.equal((await server.api('GET', '/workspaces')).status, 200);
    // what does not, and says so
    const ports = await first.server.api<{ message: string }>('GET', `/workspaceagents/${agentId}/listening-ports`);
    assert.deepEqual(
      [ports.status, ports.body.message],
      [503, 'The server that the agent is connected to cannot be reached.'],
    );
    const refused = dialEcho(member, AbortSignal.timeout(1_000));
    await assert.rejects(refused);

    for (const { peers } of [first, second]) peers.mend();
    await traffic.goesOn('afterwards', MAX_RETURN_MS);
    await reaches(member);
    await reaches(await joined(t));
    await reaches(at);
    report(t, `while connections ${what}`, traffic);
    traffic.stop();
  });

test('a connection over the relay of one server goes on when the coordinator of the other is killed', {
  timeout: 120_000,
}, async (t) => {
  const divided = (path: string) => urlsOf(path.startsWith('/derp') ? second : first);
  await moveAgent(first, divided);
  clientSide.use(divided);
  const member = await joined(t);
  const traffic = await startTraffic(t, member);
  agentSide.use(urlsOf(second));
  clientSide.use(urlsOf(second));
  await first.server.kill();
  await traffic.goesOn('with another coordinator', MAX_PAUSE_MS);
  await reaches(await joined(t));
  report(t, 'with another coordinator', traffic);
  traffic.stop();
  await first.server.restart();
});

test('a direct connection goes on without any server, and new ones begin when one is back', {
  timeout: 180_000,
}, async (t) => {
  await moveAgent(second);
  clientSide.use(urlsOf(first));
  const member = await joined(t, { blocksDirect: false });
  await eventually('a direct path', async () =>
    (await member.ping().catch(() => undefined))?.path.startsWith('direct '),
  );
  const traffic = await startTraffic(t, member);
  for (const { server } of [first, second]) await server.kill();
  for (const until = performance.now() + ALONE_MS; performance.now() < until; ) {
    await traffic.goesOn('without servers', MAX_DIRECT_PAUSE_MS);
    await delay(100);
  }
  await reaches(member);
  assert.equal(await answers(`${first.server.url}/readyz`), false);
  for (const { server } of [first, second]) await server.restart();
  await moveAgent(second);
  await reaches(await joined(t));
  await traffic.goesOn('with servers again', MAX_DIRECT_PAUSE_MS);
  report(t, 'without servers', traffic);
  traffic.stop();
});
