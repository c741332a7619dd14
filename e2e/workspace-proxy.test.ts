import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ask } from '@ropewalk/server/http/apps/testing/ask';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import {
  coderOutput,
  ensureExecutable,
  eventually,
  freePort,
  PROGRAM,
  type RunningProgram,
  type ServerProcess,
  startCoderServer,
  startFirstWorkspace,
  startProgram,
} from './harness.ts';
import { startProxyProcess } from './proxy-process.ts';
import { agentOfDev } from './region.ts';

// The whole way of a region: its proxy is created by the command, runs as a process without a database, and serves a port and
// a terminal of a workspace that Terraform built.
let server: ServerProcess;
let dir: string;
let token: string;
let port: number;
let proxy: RunningProgram;
const run = (...args: string[]) => coderOutput(args, { env: server.env, cwd: dir });
const url = () => `http://127.0.0.1:${port}`;

const startProxy = (listen = port) =>
  startProxyProcess({ dir, token, primaryUrl: server.url, url: url(), port: listen, wildcard: '*.eu.test' });

const statusIs = (wanted: string) =>
  eventually(`the proxy is ${wanted}`, async () => {
    const { regions } = JSON.parse(`{"regions":${await run('wsproxy', 'ls', '-o', 'json')}}`) as {
      regions: { name: string; status: { status: string } }[];
    };
    return regions.find(({ name }) => name === 'eu')?.status.status === wanted;
  });

before(async () => {
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-proxy-'));
  // workspaces run as another user
  chmodSync(dir, 0o755);
  port = await freePort();
  server = await startCoderServer({ env: { CODER_PROXY_HEALTH_INTERVAL: '2s' } });
  await startFirstWorkspace(server, dir);
  token = (await run('wsproxy', 'create', '--name', 'eu', '--only-token')).trim();
  proxy = startProxy();
  await statusIs('ok');
});
after(async () => {
  proxy?.child.kill('SIGKILL');
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

async function terminal() {
  const agent = await agentOfDev(server);
  const query = new URLSearchParams({ reconnect: crypto.randomUUID(), width: '80', height: '24', command: 'sh' });
  const { connection } = await dialWebSocket(
    `${url().replace('http', 'ws')}/api/v2/workspaceagents/${agent}/pty?${query}`,
    { headers: { 'Coder-Session-Token': server.token } },
  );
  let shown = '';
  connection.on('binary', (bytes) => {
    shown += bytes.toString();
  });
  return {
    connection,
    type: (data: string) => connection.sendBinary(Buffer.from(JSON.stringify({ data }))),
    shows: (text: string) => eventually(`the terminal shows ${text}`, () => shown.includes(text)),
  };
}

test('a port of a workspace opens at the proxy', async (t) => {
  const app = createServer((_request, response) => response.end('from the workspace'));
  app.listen(0, '127.0.0.1');
  await once(app, 'listening');
  t.after(() => app.close());
  const label = `${(app.address() as AddressInfo).port}--dev--admin`;
  const host = `${label}.eu.test:${port}`;
  const answer = await ask(url(), { host, path: '/', headers: { 'Coder-Session-Token': server.token } });
  assert.deepEqual([answer.status, answer.body], [200, 'from the workspace']);
  assert.equal((await ask(url(), { host, path: '/' })).status, 401);
});

test('a terminal at the proxy works while the server is killed, and after its restart', async () => {
  const shell = await terminal();
  shell.type('x=4; echo is-$((x+1))\r');
  await shell.shows('is-5');
  assert.match(proxy.err(), /an agent connected/);
  await server.kill();
  await eventually('the proxy notices', () => /no connection to the server/.test(proxy.err()));
  shell.type('echo still-$((x+2))\r');
  await shell.shows('still-6');
  const page = await ask(url(), { path: '/@admin/dev/apps/x/', headers: { 'Coder-Session-Token': server.token } });
  assert.equal(page.status, 503);
  await server.restart();
  shell.type('echo again-$((x+3))\r');
  await shell.shows('again-7');
  shell.type('exit\r');
  assert.equal((await shell.connection.closed).code, 1000);
  await statusIs('ok');
});

test('two processes serve one region, and one that stops is forgotten', async () => {
  const second = startProxy(await freePort());
  const live = () => run('wsproxy', 'ls', '-o', 'text');
  await eventually('the second process registers', () => /registered at the server/.test(second.err()));
  second.child.kill('SIGTERM');
  assert.equal(await second.ended, 0, second.err());
  await statusIs('ok');
  proxy.child.kill('SIGTERM');
  assert.equal(await proxy.ended, 0, proxy.err());
  await eventually('the list has the reason', async () => /cannot reach|No process/.test(await live()));
  proxy = startProxy();
  await statusIs('ok');
});

test('explains options that cannot be right, without the token', async () => {
  for (const [env, words] of [
    [{ CODER_PROXY_SESSION_TOKEN: '' }, /Set --proxy-session-token/],
    [{ CODER_PROXY_SESSION_TOKEN: 'secret-text' }, /must be the id of the proxy and its secret/],
    [{ CODER_PRIMARY_ACCESS_URL: '' }, /Set --primary-access-url/],
    [{ CODER_ACCESS_URL: server.url }, /not that of the server/],
    [{ CODER_WILDCARD_ACCESS_URL: 'eu' }, /must be a pattern/],
  ] as const) {
    const failed = startProgram(PROGRAM, ['wsproxy', 'server'], {
      env: {
        PATH: process.env['PATH'],
        HOME: dir,
        CODER_PROXY_SESSION_TOKEN: token,
        CODER_PRIMARY_ACCESS_URL: server.url,
        CODER_ACCESS_URL: url(),
        ...env,
      },
    });
    assert.equal(await failed.ended, 1);
    assert.match(failed.err(), words);
    assert.doesNotMatch(failed.err() + failed.out(), new RegExp(`secret-text|${token.split(':')[1]}`));
  }
});
