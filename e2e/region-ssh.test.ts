import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  addOwner,
  coder,
  eventually,
  freePort,
  PERSON,
  PROGRAM,
  type RunningProgram,
  type ServerProcess,
  startProgram,
} from './harness.ts';
import { startProxyProcess } from './proxy-process.ts';
import { isHealthyRegion, type Region, startRegion } from './region.ts';
import type { SlowLink } from './slow-link.ts';

// Sessions of the command in a region whose server is 100 ms away from everything else. Direct paths are off.
const DELAY_MS = 50;
const MAX_ECHO_MS = 10;
const MIB = 1024 * 1024;
const BULK = 256 * MIB;
/** So many bytes of output have a known checksum. */
const OUTPUT = 400 * MIB;
/** From the end of the proxy to the next byte. */
const MAX_GAP_MS = 5_000;
/** From the last sign of a proxy that hangs to the server. A few seconds, and the time of a busy machine. */
const MAX_RETURN_MS = 10_000;
/** A right that ends is gone within 5 s. The command needs some time to end. */
const MAX_REVOKED_MS = 6_000;

let region: Region;
let server: ServerProcess;
let link: SlowLink;
let proxy: RunningProgram;
let dir: string;
let env: NodeJS.ProcessEnv;

const isHealthy = () => eventually('the proxy is healthy', () => isHealthyRegion(server, 'far'));

async function startProxy(): Promise<void> {
  proxy = startProxyProcess({ dir, ...region.proxy, primaryUrl: link.url, wildcard: '' });
  await isHealthy();
}

before(async () => {
  region = await startRegion(DELAY_MS, { CODER_PROXY_HEALTH_INTERVAL: '1s' });
  ({ server, link, dir } = region);
  await startProxy();
  env = {
    ...server.env,
    CODER_URL: link.url,
    CODER_SESSION_TOKEN: server.token,
    CODER_DISABLE_DIRECT_CONNECTIONS: 'true',
  };
});
after(async () => {
  proxy?.child.kill('SIGKILL');
  await region?.stop();
});

/** A session of `coder ssh`, and the paths in its log. */
function startSession(
  t: TestContext,
  name: string,
  command: string,
  more: { flags?: string[]; target?: string; token?: string } = {},
) {
  const { flags = [], target = 'dev', token } = more;
  const logs = join(dir, name);
  mkdirSync(logs);
  const session = startProgram(PROGRAM, ['ssh', target, '--log-dir', logs, ...flags, '--', command], {
    env: { ...env, ...(token ? { CODER_SESSION_TOKEN: token } : {}) },
    cwd: dir,
  });
  t.after(() => session.child.kill('SIGKILL'));
  const moves = () =>
    readdirSync(logs)
      .flatMap((file) => [...readFileSync(join(logs, file), 'utf8').matchAll(/ moved path=(?:"([^"]*)"|(\S+))/g)])
      .map(([, quoted, plain]) => quoted ?? plain)
      .join();
  return { session, moves };
}

/** The median time from a key to its echo, and the shortest one, which other work on this machine delays least. In ms. */
async function echoOf({ session: { child, out } }: ReturnType<typeof startSession>) {
  const times: number[] = [];
  for (let i = 0; i < 15; i++) {
    const before = out().length;
    const started = performance.now();
    child.stdin.write('k\n');
    while (out().length < before + 2) await once(child.stdout, 'data');
    times.push(performance.now() - started);
  }
  times.sort((a, b) => a - b);
  return { median: times[7]!, shortest: times[0]! };
}

test('a key echoes through the proxy as if the server were near', { timeout: 120_000 }, async (t) => {
  const one = startSession(t, 'echo', 'cat');
  one.session.child.stdin.write('begin\n');
  await eventually('it is open', () => one.session.out().includes('begin'), 30_000);
  await eventually('it is in the region', () => one.moves() === 'proxy far', 30_000);
  const near = await echoOf(one);
  const other = startSession(t, 'primary', 'cat', { flags: ['--connection-region', 'primary'] });
  other.session.child.stdin.write('begin\n');
  await eventually('it is open', () => other.session.out().includes('begin'), 30_000);
  const far = await echoOf(other);
  t.diagnostic(
    `echo through the proxy ${near.median.toFixed(1)} ms (at best ${near.shortest.toFixed(1)}), through the server ${far.median.toFixed(1)} ms`,
  );
  assert.ok(far.shortest > 3.5 * DELAY_MS, `${far.shortest} ms`);
  assert.ok(near.shortest <= MAX_ECHO_MS, `${near.shortest} ms`);
  assert.ok(near.median < far.median / 2, `${near.median} ms`);
  for (const { session } of [one, other]) {
    session.child.stdin.end();
    assert.equal(await session.ended, 0, session.err());
  }
  assert.equal(other.moves(), '');
});

test('a session continues at the same byte when the proxy dies in the middle of a transfer', {
  timeout: 300_000,
}, async (t) => {
  const begin = join(dir, 'begin');
  // a known sequence: lost, repeated and exchanged bytes change the checksum
  const command = `while [ ! -e '${begin}' ]; do sleep 0.1; done; yes 0123456789abcde | head -c ${OUTPUT}`;
  const logs = join(dir, 'transfer');
  mkdirSync(logs);
  const session = startProgram(PROGRAM, ['ssh', 'dev', '--log-dir', logs, '--', command], { env, cwd: dir });
  t.after(() => session.child.kill('SIGKILL'));
  session.child.stdout.removeAllListeners('data');
  const hash = createHash('sha256');
  let bytes = 0;
  let at = 0;
  let gap = 0;
  session.child.stdout.on('data', (part: Buffer) => {
    hash.update(part);
    bytes += part.length;
    const now = performance.now();
    if (at > 0) gap = Math.max(gap, now - at);
    at = now;
  });
  const log = () =>
    readdirSync(logs)
      .map((file) => readFileSync(join(logs, file), 'utf8'))
      .join('');
  await eventually('it is in the region', () => / moved path="proxy far"/.test(log()), 30_000);
  writeFileSync(begin, '');
  await eventually('it carries bytes', () => bytes > 20 * MIB, 30_000);
  assert.ok(bytes < OUTPUT, 'the transfer goes on');
  proxy.child.kill('SIGKILL');
  assert.equal(await session.ended, 0, session.err());
  t.diagnostic(`longest gap ${Math.round(gap)} ms`);
  assert.equal(bytes, OUTPUT);
  const expected = createHash('sha256');
  const line = Buffer.from('0123456789abcde\n'.repeat(MIB / 16));
  for (let i = 0; i < OUTPUT / MIB; i++) expected.update(line);
  assert.equal(hash.digest('hex'), expected.digest('hex'));
  assert.ok(gap < MAX_GAP_MS, `${gap} ms`);
  assert.match(log(), / moved path=server/);
  await startProxy();
});

test('a session leaves a proxy that hangs', { timeout: 120_000 }, async (t) => {
  const { session, moves } = startSession(t, 'hangs', 'cat');
  const echo = async (text: string) => {
    session.child.stdin.write(`${text}\n`);
    await eventually(`${text} comes back`, () => session.out().includes(`${text}\n`), 30_000);
  };
  await echo('begin');
  await eventually('it is in the region', () => moves() === 'proxy far', 30_000);
  proxy.child.kill('SIGSTOP');
  t.after(() => proxy.child.kill('SIGCONT'));
  const since = performance.now();
  session.child.stdin.write('meanwhile\n');
  await eventually('it is at the server', () => moves() === 'proxy far,server', MAX_RETURN_MS);
  t.diagnostic(`back after ${Math.round(performance.now() - since)} ms`);
  await echo('after');
  session.child.stdin.end();
  assert.equal(await session.ended, 0, session.err());
  assert.equal(session.out(), 'begin\nmeanwhile\nafter\n');
  proxy.child.kill('SIGCONT');
  await isHealthy();
});

const PROBE = Buffer.alloc(32 * 1024, 'x');

/** Echoes what each client sends until the word `go`, and then sends many bytes. */
async function startSource(t: TestContext): Promise<number> {
  const part = Buffer.alloc(64 * 1024, 'x');
  const source: Server = createServer((socket) => {
    let left = BULK;
    const send = () => {
      while (left > 0) {
        left -= part.length;
        if (!socket.write(part)) return void socket.once('drain', send);
      }
      socket.end();
    };
    socket.on('error', () => {});
    socket.on('data', (sent: Buffer) => (sent.includes('go') ? send() : socket.write(sent)));
  });
  source.listen(0, '127.0.0.1');
  await once(source, 'listening');
  t.after(() => source.close());
  return (source.address() as { port: number }).port;
}

test('the bytes of a forwarded port stay in the region', { timeout: 300_000 }, async (t) => {
  const [remote, local] = [await startSource(t), await freePort()];
  const forward = startProgram(PROGRAM, ['port-forward', 'dev', '--tcp', `${local}:${remote}`], { env, cwd: dir });
  t.after(() => forward.child.kill('SIGTERM'));
  const client = await eventually('the port is open', async () => {
    const socket = connect(local, '127.0.0.1');
    return (await once(socket, 'connect').catch(() => undefined)) ? socket : undefined;
  });
  let received = 0;
  client.on('data', (part: Buffer) => {
    received += part.length;
  });
  const ended = once(client, 'end');
  // it begins through the server, and moves
  await eventually('it is in the region', async () => {
    const [before, wanted] = [link.bytes(), received + PROBE.length];
    client.write(PROBE);
    await eventually('the probe is back', () => received === wanted);
    return link.bytes() - before < PROBE.length;
  });
  const [before, start] = [link.bytes(), received];
  const started = performance.now();
  client.write('go');
  await ended;
  const bytes = received - start;
  const seconds = (performance.now() - started) / 1_000;
  const crossed = link.bytes() - before;
  t.diagnostic(`${(BULK / MIB / seconds).toFixed(0)} MiB/s, ${crossed} bytes crossed to the server`);
  assert.equal(bytes, BULK);
  assert.ok(crossed < BULK / 100, `${crossed} bytes`);
});

test('a person who loses the right for it loses the session in the region', { timeout: 120_000 }, async (t) => {
  const { token, setRoles } = await addOwner(server, 'boss');
  const { session, moves } = startSession(t, 'revoked', 'cat', { token, target: `${PERSON.username}/dev` });
  await eventually('it is in the region', () => moves() === 'proxy far', 30_000);
  const since = performance.now();
  await setRoles([]);
  const ended = await Promise.race([session.ended, delay(MAX_REVOKED_MS, 'too late')]);
  t.diagnostic(`ended after ${Math.round(performance.now() - since)} ms`);
  assert.equal(ended, 1, session.err());
});

test('ping and netcheck name the ways', { timeout: 120_000 }, async (t) => {
  const ping = startProgram(PROGRAM, ['ping', 'dev', '--wait', '500ms'], { env, cwd: dir });
  t.after(() => ping.child.kill('SIGKILL'));
  await eventually('an answer through the proxy', () => ping.out().includes('via proxy far'));
  ping.child.kill('SIGINT');
  await ping.ended;
  const lines = ping.out().trimEnd().split('\n');
  assert.match(lines[0]!, /^pong from dev in [2-9]\d\d\.\dms via the server$/);
  const [last, sum, title, near, far, ...more] = lines.slice(-5);
  assert.match(last!, /^pong from dev in \d+\.\d+ms via proxy far$/);
  assert.match(sum!, /^\d+ sent, \d+ received, minimum /);
  assert.equal(title, 'Shortest round trip of each path:');
  assert.match(near!, /^ +\d+\.\d+ms via proxy far$/);
  assert.match(far!, /^ +[2-9]\d\d\.\dms via the server$/);
  assert.deepEqual(more, []);
  for (const line of lines) assert.ok(line.length <= 80, line);
  const checked = await coder(['netcheck'], { env, cwd: dir });
  assert.equal(checked.code, 0, checked.stderr);
  const { regions } = JSON.parse(checked.stdout) as {
    regions: { name: string; latency_ms: number; usable: boolean }[];
  };
  const [primary, proxied] = ['primary', 'far'].map((name) => regions.find((region) => region.name === name)!);
  assert.ok(primary!.latency_ms >= 2 * DELAY_MS - 5, checked.stdout);
  assert.ok(proxied!.usable && proxied!.latency_ms < DELAY_MS, checked.stdout);
});
