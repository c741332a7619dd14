import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { type Family, parseMetrics, sampleOf } from '@ropewalk/server/metrics/testing';
import { type Balancer, startBalancer } from './balancer.ts';
import { gates } from './daemon-process.ts';
import {
  buildEnds,
  coder,
  commandTemplate,
  createWorkspace,
  ensureExecutable,
  eventually,
  firstUser,
  freePort,
  makeTemplate,
  PROGRAM,
  type ServerProcess,
  startCoderServer,
  startProgram,
} from './harness.ts';
import { localExample } from './local.ts';
import { agentsOf, isReady } from './pool.ts';

// Several servers of one deployment, on one database behind a balancer.

let balancer: Balancer;
let servers: ServerProcess[] = [];
const { gate, remove } = gates();
/** Of each server. */
const metricsPorts: number[] = [];
/** The agent of the workspace `dev`. */
let agent: string;

const env = (server: { url: string }) => ({
  ...servers[0]!.env,
  CODER_URL: server.url,
  CODER_SESSION_TOKEN: servers[0]!.token,
});

before(async () => {
  await ensureExecutable();
  balancer = await startBalancer();
  const optionsOf = async () => {
    metricsPorts.push(await freePort());
    const metrics = { CODER_PROMETHEUS_ENABLE: 'true', CODER_PROMETHEUS_ADDRESS: `127.0.0.1:${metricsPorts.at(-1)}` };
    return { env: { CODER_ACCESS_URL: balancer.url, ...metrics } };
  };
  const first = await startCoderServer(await optionsOf());
  servers = [first];
  balancer.use(first);
  await firstUser(first);
  servers.push(await startCoderServer({ ...(await optionsOf()), joins: first }));
  const template = await makeTemplate(first, 'local', localExample());
  const { id } = await createWorkspace(first, template, 'dev');
  agent = agentsOf(await isReady(first, id))[0]!.id;
});
after(async () => {
  for (const server of servers.toReversed()) await server.stop();
  balancer.close();
  remove();
});

test('a client of each server reaches the agent: shell, ports', async () => {
  for (const server of servers) {
    const done = await coder(['ssh', 'dev', '--', 'echo', 'hello'], { env: env(server) });
    assert.equal(done.code, 0, done.stderr);
    assert.equal(done.stdout, 'hello\n');
    const ports = await server.api<{ ports: unknown[] }>('GET', `/workspaceagents/${agent}/listening-ports`);
    assert.equal(ports.status, 200, JSON.stringify(ports.body));
  }
});

test('a session continues on the other server when the server of its client and agent is killed', async () => {
  // the client's connection and the agent's are both with the first server
  const counter = 'i=0; while [ $i -lt 100 ]; do echo "line $i"; i=$((i+1)); sleep 0.05; done; cat; exit 7';
  const session = startProgram(PROGRAM, ['ssh', 'dev', '--', counter], { env: env(balancer) });
  await eventually('it counts', async () => session.out().includes('line 10\n'));
  balancer.use(...servers);
  await servers[0]!.kill();
  await eventually('it counts to the end', async () => session.out().includes('line 99\n'), 60_000);
  session.child.stdin.end('typed\n');
  assert.equal(await session.ended, 7, session.err());
  assert.equal(session.out(), `${Array.from({ length: 100 }, (_, n) => `line ${n}\n`).join('')}typed\n`);

  // the first server comes back, and its clients reach the agent, which is with the other one
  await servers[0]!.restart();
  const done = await coder(['ssh', 'dev', '--', 'echo', 'again'], { env: env(servers[0]!) });
  assert.deepEqual([done.code, done.stdout], [0, 'again\n'], done.stderr);
});

/** The second server of a host gives its daemons longer names. */
const isOfSecond = (daemon: string): boolean => /-[0-9a-f]{6}-\d+$/.test(daemon);

test('each server has its own built-in daemons in the list', async () => {
  await eventually('the daemons of both servers are online', async () => {
    const { body } = await servers[1]!.api<{ name: string; status: string }[]>(
      'GET',
      '/organizations/default/provisionerdaemons',
    );
    const online = body.filter(({ status }) => status !== 'offline').map(({ name }) => name);
    const ofSecond = online.filter(isOfSecond);
    return ofSecond.length > 0 && online.length === 2 * ofSecond.length && body.length === online.length;
  });
});

for (const [when, held] of [
  ['while Terraform works', true],
  ['before Terraform works', false],
] as const)
  test(`a build continues with another server when its server is killed ${when}`, async () => {
    const { command, begun, open } = gate(`go-on-${held}`);
    const template = await makeTemplate(servers[1]!, `go-on-${held}`, commandTemplate(command));
    if (!held) open();
    const { latest_build } = await createWorkspace(servers[1]!, template, `go-on-${held}`);
    const name = await eventually('a daemon has the build', async () => {
      const { body } = await servers[1]!.api<{ job: { worker_name?: string } }>(
        'GET',
        `/workspacebuilds/${latest_build.id}`,
      );
      return body.job.worker_name;
    });
    if (held) await eventually('the apply has begun', () => begun() > 0);
    const [killed, other] = isOfSecond(name) ? [servers[1]!, servers[0]!] : [servers[0]!, servers[1]!];
    await killed.kill();
    open();
    const build = await buildEnds(other, latest_build.id);
    assert.equal(build.status, 'running', build.job.error ?? '');
    await killed.restart();
  });

async function scrape(port: number): Promise<Map<string, Family>> {
  return parseMetrics(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
}

test('metrics about the deployment are the same on both servers, and counters of both add up', async () => {
  const scrapes = () => Promise.all(metricsPorts.map(scrape));
  const count = async (family: string, isCounted: (sample: Family['samples'][number]) => boolean) => {
    const samples = (await scrapes()).flatMap((families) => families.get(family)?.samples ?? []);
    return samples.filter(isCounted).reduce((sum, { value }) => sum + value, 0);
  };
  const counts = () =>
    Promise.all([
      count('coderd_api_requests_processed_total', ({ labels }) => labels['path'] === '/api/v2/users/{user}'),
      count('coderd_workspace_builds_total', () => true),
      count('coderd_provisionerd_workspace_build_timings_seconds', ({ name }) => name.endsWith('_count')),
    ]);
  const before = await counts();
  for (const [n, server] of [servers[0]!, servers[1]!, servers[1]!].entries()) {
    const { body } = await server.api<{ id: string }>('GET', '/users/me/workspace/go-on-true');
    const made = await server.api<{ id: string }>('POST', `/workspaces/${body.id}/builds`, {
      transition: n % 2 === 0 ? 'stop' : 'start',
    });
    await buildEnds(server, made.body.id);
    assert.equal((await server.api('GET', '/users/me')).status, 200);
  }
  let more: number[] = [];
  await eventually('each request, build and timing is counted once', async () => {
    more = (await counts()).map((value, at) => value - before[at]!);
    return more.every((each) => each >= 3);
  }).catch((err: Error) => {
    throw new Error(`${err.message}: ${more.join()}`);
  });
  assert.deepEqual(more, [3, 3, 3]);
  await eventually('both report the same of the deployment', async () => {
    const [one, other] = (await scrapes()) as [Map<string, Family>, Map<string, Family>];
    const sharedOf = (families: Map<string, Family>) =>
      [...families].filter(([, { help }]) => help.includes('each server reports the same value')).sort();
    assert.ok(sharedOf(one).length >= 14, [...one.keys()].join());
    return isDeepStrictEqual(sharedOf(one), sharedOf(other)) && sampleOf(one, 'coderd_replicas') === 2;
  });
});
