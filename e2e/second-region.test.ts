import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Guide } from './guide.ts';
import {
  createWorkspace,
  ensureExecutable,
  eventually,
  firstUser,
  freePort,
  makeTemplate,
  type RunningProgram,
  type ServerProcess,
  startCoderServer,
  startProgram,
} from './harness.ts';
import { localExample } from './local.ts';
import { obstacle, run } from './namespaces.ts';
import { isReady } from './pool.ts';
import { isHealthyRegion } from './region.ts';
import { type SlowLink, startSlowLink } from './slow-link.ts';

// The servers are in the namespace of the test. The region has a namespace for its machines (proxy, daemon, workspaces) and
// one for people. Both are near each other, and 100 ms away from the servers.
//
//   servers (10.77.0.1) - slow link - bridge - machines (10.77.0.2), people (10.77.0.3)

const DELAY_MS = 50;
const NET = `r${process.pid % 100_000}`;
const MACHINES = `${NET}m`;
const PEOPLE = `${NET}p`;
const BRIDGE = `${NET}b`;
const SERVERS_ADDRESS = '10.77.0.1';
const PROXY_ADDRESS = '10.77.0.2';
const skip = obstacle(`${NET}x`, '');

let dir: string | undefined;
let server: ServerProcess | undefined;
let link: SlowLink | undefined;
const running: RunningProgram[] = [];
after(async () => {
  for (const { child } of running) child.kill('SIGKILL');
  await Promise.all(running.map(({ ended }) => ended));
  await server?.stop();
  link?.close();
  if (dir) rmSync(dir, { recursive: true, force: true });
  if (skip) return;
  run(`ip link del ${BRIDGE}`);
  for (const namespace of [MACHINES, PEOPLE]) run(`ip netns del ${namespace}`);
});

function connectNamespaces(): void {
  run(`ip link add ${BRIDGE} type bridge`);
  run(`ip addr add ${SERVERS_ADDRESS}/24 dev ${BRIDGE}`);
  run(`ip link set ${BRIDGE} up`);
  for (const [namespace, address] of [
    [MACHINES, PROXY_ADDRESS],
    [PEOPLE, '10.77.0.3'],
  ]) {
    run(`ip netns add ${namespace}`);
    run(`ip -n ${namespace} link set lo up`);
    run(`ip link add ${namespace} type veth peer name eth0 netns ${namespace}`);
    run(`ip link set ${namespace} master ${BRIDGE} up`);
    run(`ip -n ${namespace} addr add ${address}/24 dev eth0`);
    run(`ip -n ${namespace} link set eth0 up`);
  }
}

test('a second region is opened as the guide says', { skip, timeout: 300_000 }, async () => {
  const executable = await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-second-region-'));
  // workspaces have their own user
  chmodSync(dir, 0o711);
  connectNamespaces();
  const port = await freePort();
  link = await startSlowLink(SERVERS_ADDRESS, `http://127.0.0.1:${port}`, DELAY_MS);
  server = await startCoderServer({
    port,
    env: {
      CODER_ACCESS_URL: link.url,
      CODER_PROVISIONER_DAEMONS: '0',
      CODER_PROXY_HEALTH_INTERVAL: '1s',
      CODER_BLOCK_DIRECT: 'true',
    },
  });
  await firstUser(server);
  const bin = join(dir, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'coder'), `#!/bin/sh\nexec ip netns exec ${PEOPLE} ${executable} "$@"\n`, { mode: 0o755 });

  /** Starts the command on a machine of the region. */
  const start = (args: string[], env: NodeJS.ProcessEnv, home: string) => {
    mkdirSync(join(dir!, home));
    const own = {
      PATH: process.env['PATH'],
      HOME: join(dir!, home),
      TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
    };
    const program = startProgram(['ip', 'netns', 'exec', MACHINES, executable], args, { env: { ...own, ...env } });
    running.push(program);
    return program;
  };
  start(['provisioner', 'start'], { CODER_URL: link.url, CODER_SESSION_TOKEN: server.token }, 'daemon');
  const template = await makeTemplate(server, 'local', localExample());
  const { id } = await createWorkspace(server, template, 'dev');
  await isReady(server, id);

  const url = `http://${PROXY_ADDRESS}:8080`;
  const guide = new Guide('second-region.md', dir, { PATH: `${bin}:${process.env['PATH']}` });
  guide.people['admin'] = { CODER_URL: link.url, CODER_SESSION_TOKEN: server.token };
  guide.replace.set('https://coder.example.com', link.url).set('https://eu.example.com', url);

  await guide.section('Create the proxy');
  const token = join(guide.home('admin'), 'token');
  const startProxy = (home: string) =>
    start(
      ['wsproxy', 'server', '--http-address', '0.0.0.0:8080'],
      {
        CODER_PROXY_SESSION_TOKEN: readFileSync(token, 'utf8').trim(),
        CODER_PRIMARY_ACCESS_URL: link!.url,
        CODER_ACCESS_URL: url,
      },
      home,
    );
  const proxy = startProxy('proxy');
  const isHealthy = () => isHealthyRegion(server!, 'eu');
  await eventually('the proxy is healthy', isHealthy);
  await guide.section('See that it works');
  await guide.section('Measure the gain');
  assert.match(proxy.err(), /an agent connected/);

  await guide.section('Replace the token');
  await eventually('the old token is not valid', async () => !(await isHealthy()));
  proxy.child.kill('SIGTERM');
  await proxy.ended;
  startProxy('again');
  await eventually('the proxy is healthy again', isHealthy);
  await guide.section('Remove it');
  guide.ends();
});
