// Two servers behind a balancer, and two processes of a workspace proxy behind another one, in a region that is far from the
// servers. One of the four is always about to fail while people work in the region. Nothing may be lost, doubled or ended.
// KILL_TEST_SECONDS sets how long.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Backend, type Balancer, checkHealth, startBalancer } from './balancer.ts';
import { type Deployment, startDeployment } from './deployment.ts';
import { coderOutput, ensureExecutable, eventually, freePort, PROGRAM, type RunningProgram } from './harness.ts';
import { invitePeople, type People, work } from './people.ts';
import { startProxyProcess } from './proxy-process.ts';
import { isHealthyRegion } from './region.ts';
import { type SlowLink, startSlowLink } from './slow-link.ts';

const SECONDS = Number(process.env['KILL_TEST_SECONDS'] ?? 50);
const FAULT_EVERY_MS = 10_000;
/** Between people and the servers, in each direction. Sessions move to the region because it is clearly nearer. */
const DELAY_MS = 100;
/** Longer than a session waits for an answer through a proxy. */
const STOPPED_MS = 6_000;

interface ProxyMember extends Backend {
  start(): RunningProgram;
  process: RunningProgram;
}

let deployment: Deployment;
let region: Balancer;
let link: SlowLink;
let people: People;
let dir: string;
const proxies: ProxyMember[] = [];
const ending = new AbortController();

before(async () => {
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-region-kills-'));
  // workspaces run as another user
  chmodSync(dir, 0o755);
  deployment = await startDeployment();
  for (let n = 0; n < 2; n += 1) await deployment.add({ env: { CODER_PROXY_HEALTH_INTERVAL: '1s' } });
  link = await startSlowLink('127.0.0.1', deployment.url, DELAY_MS);
  region = await startBalancer();
  const create = ['wsproxy', 'create', '--name', 'far', '--only-token'];
  const token = (await coderOutput(create, { env: deployment.env(), cwd: dir })).trim();
  for (let n = 0; n < 2; n += 1) {
    const port = await freePort();
    const start = () =>
      startProxyProcess({ dir, token, primaryUrl: link.url, url: region.url, port, wildcard: '', name: `proxy-${n}` });
    proxies.push({ server: { url: `http://127.0.0.1:${port}` }, healthy: false, start, process: start() });
  }
  void checkHealth(region, proxies, ending.signal);
  for (const proxy of proxies) await eventually('the balancer uses the proxy', () => proxy.healthy);
  await eventually('the region is healthy', () => isHealthyRegion(deployment.site, 'far'));
  const logs = join(dir, 'ssh');
  mkdirSync(logs);
  const env = () => ({
    ...deployment.env(),
    CODER_URL: link.url,
    CODER_DISABLE_DIRECT_CONNECTIONS: 'true',
    CODER_SSH_LOG_DIR: logs,
  });
  people = await invitePeople({ ...deployment, env }, PROGRAM);
});
after(async () => {
  ending.abort();
  people?.end();
  for (const { process } of proxies) process.child.kill('SIGKILL');
  region?.close();
  link?.close();
  await deployment?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** How often the SSH session has moved to the region. */
const moves = () =>
  readdirSync(join(dir, 'ssh'))
    .map((file) => readFileSync(join(dir, 'ssh', file), 'utf8').match(/ moved path="proxy far"/g)?.length ?? 0)
    .reduce((sum, one) => sum + one, 0);

async function restart(proxy: ProxyMember, signal: NodeJS.Signals): Promise<void> {
  proxy.process.child.kill(signal);
  await proxy.process.ended;
  proxy.process = proxy.start();
}

/** One after the other, again and again. */
const FAULTS: readonly (readonly [string, () => Promise<void>])[] = [
  ['kill proxy 0', () => restart(proxies[0]!, 'SIGKILL')],
  [
    'kill server 0',
    async () => {
      const { server } = deployment.members[0]!;
      await server.kill();
      await server.restart();
    },
  ],
  ['terminate proxy 1', () => restart(proxies[1]!, 'SIGTERM')],
  [
    'terminate server 1',
    async () => {
      const { server } = deployment.members[1]!;
      await server.terminate();
      await server.restart();
    },
  ],
  [
    'stop proxy 0',
    async () => {
      proxies[0]!.process.child.kill('SIGSTOP');
      await delay(STOPPED_MS);
      proxies[0]!.process.child.kill('SIGCONT');
    },
  ],
];

test('nothing is lost, doubled or ended while servers and proxies of a region fail', async (t) => {
  const { violations, changes, summary } = await work(people, SECONDS, async (report) => {
    await eventually('the session is in the region', () => moves() > 0, 60_000);
    const until = performance.now() + SECONDS * 1_000;
    for (let n = 0; performance.now() < until; n += 1) {
      const [text, fault] = FAULTS[n % FAULTS.length]!;
      const next = delay(FAULT_EVERY_MS);
      report(text);
      await fault();
      report(`${text} is over`);
      await eventually('all are in use', () => [...deployment.members, ...proxies].every(({ healthy }) => healthy));
      await next;
    }
    await eventually('the session returns to the region', () => moves() > 1, 90_000);
  });
  t.diagnostic(`${summary}; ${moves()} moves to the region`);
  assert.deepEqual(violations, [], changes);
});
