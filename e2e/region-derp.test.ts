import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import { type Client, createClient } from '@ropewalk/client';
import { nodeFetch } from '@ropewalk/client/node-fetch';
import { joinTailnet, type TailnetMember } from '@ropewalk/client/tailnet/member';
import type { TailnetDERPMap } from '@ropewalk/contract';
import { answers, coder, eventually, type RunningProgram, type ServerProcess } from './harness.ts';
import { startProxyProcess } from './proxy-process.ts';
import { agentOfDev, type Region, startRegion } from './region.ts';
import type { SlowLink } from './slow-link.ts';

// Nodes of the tailnet in a region whose server, and so its relay, is 100 ms away from everything else. Direct paths are off.
const DELAY_MS = 50;
const MIB = 1024 * 1024;
const DOWNLOAD = 16 * MIB;
/** From the health check that misses the proxy to the relay of the server: the choice of a home, and a busy machine. */
const MAX_RETURN_MS = 60_000;

let region: Region;
let server: ServerProcess;
let link: SlowLink;
let dir: string;
let client: Client;
let agent: string;

const isInMap = async () => {
  const { body } = await server.api<{ derp_map: TailnetDERPMap }>('GET', '/workspaceagents/connection');
  return Object.values(body.derp_map.Regions).some(({ RegionCode }) => RegionCode === 'coder_far');
};

/** Starts the proxy, and waits until it is in the map. It is killed after the test. */
async function startProxy(t: TestContext): Promise<RunningProgram> {
  await eventually('the map has no earlier process', async () => !(await isInMap()), MAX_RETURN_MS);
  const proxy = startProxyProcess({ dir, ...region.proxy, primaryUrl: link.url, wildcard: '' });
  t.after(() => proxy.child.kill('SIGKILL'));
  await eventually('the proxy is connected', () => answers(`${region.proxy.url}/readyz`));
  await eventually('the proxy is in the map', isInMap, MAX_RETURN_MS);
  return proxy;
}

before(async () => {
  region = await startRegion(DELAY_MS, {
    CODER_PROXY_HEALTH_INTERVAL: '1s',
    CODER_BLOCK_DIRECT: 'true',
    CODER_DERP_SERVER_STUN_ADDRESSES: 'disable',
  });
  ({ server, link, dir } = region);
  agent = await agentOfDev(server);
  client = createClient({ url: link.url, token: server.token, fetch: nodeFetch });
});
after(() => region?.stop());

/** Waits until packets to the agent take this relay, and returns the shortest of some round trips, in ms. */
async function over(member: TailnetMember, relay: string, timeoutMs = 30_000): Promise<number> {
  const ping = () => member.ping().catch(() => undefined);
  await eventually(`packets take the relay ${relay}`, async () => (await ping())?.path === `relay ${relay}`, timeoutMs);
  const times: number[] = [];
  for (let i = 0; i < 10; i++) {
    const answer = await ping();
    if (answer?.path === `relay ${relay}`) times.push(answer.ms);
  }
  return Math.min(...times);
}

test('a client reaches an agent over the relay of the proxy, whose bytes do not cross to the server', {
  timeout: 240_000,
}, async (t) => {
  const source: Server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(Buffer.alloc(DOWNLOAD, 'x')));
  });
  const proxy = await startProxy(t);
  source.listen(0, '127.0.0.1');
  await once(source, 'listening');
  t.after(() => source.close());
  const member = await joinTailnet(client, agent);
  t.after(() => member.close());
  const near = await over(member, 'far');
  const before = link.bytes();
  const stream = await member.connect((source.address() as { port: number }).port);
  stream.write('go');
  let received = 0;
  stream.on('data', (part: Buffer) => {
    received += part.length;
  });
  await once(stream, 'end');
  stream.destroy();
  const crossed = link.bytes() - before;
  t.diagnostic(
    `round trip ${near.toFixed(1)} ms over the proxy, ${crossed} of ${received} bytes crossed to the server`,
  );
  assert.equal(received, DOWNLOAD);
  assert.ok(near < DELAY_MS, `${near} ms`);
  assert.ok(crossed < DOWNLOAD / 50, `${crossed} bytes`);

  // the session of the two outlives the proxy: their home is the server's relay then, and later the proxy's again
  proxy.child.kill('SIGKILL');
  const since = performance.now();
  const far = await over(member, 'Coder Embedded Relay', MAX_RETURN_MS);
  t.diagnostic(`at the relay of the server after ${Math.round(performance.now() - since)} ms: ${far.toFixed(1)} ms`);
  assert.ok(far >= 2 * DELAY_MS - 5, `${far} ms`);
  await startProxy(t);
  await over(member, 'far', MAX_RETURN_MS);
});

test('netcheck measures the relays of the map', { timeout: 120_000 }, async (t) => {
  await startProxy(t);
  const env = { ...server.env, CODER_URL: link.url, CODER_SESSION_TOKEN: server.token };
  const checked = await coder(['netcheck'], { env, cwd: dir });
  assert.equal(checked.code, 0, checked.stderr);
  const { relays } = JSON.parse(checked.stdout) as {
    relays: Record<string, { name: string; latency_ms: number | null; error: string | null }>;
  };
  const found = Object.values(relays);
  assert.deepEqual(
    found.map(({ name, error }) => [name, error]),
    [
      ['Coder Embedded Relay', null],
      ['far', null],
    ],
  );
  const [embedded, far] = found.map(({ latency_ms: ms }) => ms!);
  assert.ok(embedded! >= 2 * DELAY_MS - 5 && far! < DELAY_MS, checked.stdout);
});
