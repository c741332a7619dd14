import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import {
  coderOutput,
  ensureExecutable,
  eventually,
  freePort,
  type RunningProgram,
  type ServerProcess,
  startCoderServer,
  startFirstWorkspace,
} from './harness.ts';
import { startProxyProcess } from './proxy-process.ts';
import { type SlowLink, startSlowLink } from './slow-link.ts';

// A region whose server is 100 ms away from everything else: the bytes of its people stay in the region.
const DELAY_MS = 50;
const MIB = 1024 * 1024;
const DOWNLOAD = 256 * MIB;

let server: ServerProcess;
let link: SlowLink;
let proxy: RunningProgram;
let app: Server;
let dir: string;
let proxyUrl: string;
let agent: string;

before(async () => {
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-region-'));
  // workspaces run as another user
  chmodSync(dir, 0o755);
  const [port, own] = [await freePort(), await freePort()];
  link = await startSlowLink('127.0.0.1', `http://127.0.0.1:${port}`, DELAY_MS);
  server = await startCoderServer({ port, env: { CODER_ACCESS_URL: link.url } });
  await startFirstWorkspace(server, dir);
  const run = (...args: string[]) => coderOutput(args, { env: server.env, cwd: dir });
  const token = (await run('wsproxy', 'create', '--name', 'far', '--only-token')).trim();
  proxyUrl = `http://127.0.0.1:${own}`;
  proxy = startProxyProcess({ dir, token, primaryUrl: link.url, url: proxyUrl, wildcard: '*.far.test' });
  await eventually('the proxy is connected', () => /registered at the server/.test(proxy.err()));
  const { body } = await server.api<{ latest_build: { resources: { agents?: { id: string }[] }[] } }>(
    'GET',
    '/users/me/workspace/dev',
  );
  agent = body.latest_build.resources.flatMap(({ agents = [] }) => agents)[0]!.id;
  app = createServer((_request, response) => {
    response.writeHead(200, { 'Content-Length': DOWNLOAD });
    const part = Buffer.alloc(64 * 1024, 'x');
    let left = DOWNLOAD;
    const send = () => {
      while (left > 0) {
        left -= part.length;
        if (!response.write(part)) return void response.once('drain', send);
      }
      response.end();
    };
    send();
  });
  app.listen(0, '127.0.0.1');
  await once(app, 'listening');
});
after(async () => {
  proxy?.child.kill('SIGKILL');
  await server?.stop();
  link?.close();
  app?.closeAllConnections();
  app?.close();
  rmSync(dir, { recursive: true, force: true });
});

/** The median time from a key to its echo in a terminal at this address, in ms. */
async function echoOf(url: string): Promise<number> {
  const query = new URLSearchParams({ reconnect: crypto.randomUUID(), width: '80', height: '24', command: 'cat' });
  const { connection } = await dialWebSocket(
    `${url.replace('http', 'ws')}/api/v2/workspaceagents/${agent}/pty?${query}`,
    { headers: { 'Coder-Session-Token': server.token } },
  );
  const press = async (key: string) => {
    const started = performance.now();
    connection.sendBinary(Buffer.from(JSON.stringify({ data: key })));
    for (;;) {
      const [shown] = (await once(connection, 'binary')) as [Buffer];
      if (shown.includes(key)) return performance.now() - started;
    }
  };
  await press('#');
  const times: number[] = [];
  for (const key of 'abcdefghijklmnopqrstu') times.push(await press(key));
  connection.close();
  return times.sort((a, b) => a - b)[10]!;
}

test('a key echoes as if the server were near', async (t) => {
  const far = await echoOf(link.url);
  const near = await echoOf(proxyUrl);
  t.diagnostic(`echo through the proxy ${near.toFixed(1)} ms, through the server ${far.toFixed(1)} ms`);
  assert.match(proxy.err(), /an agent connected/);
  // four times over the link, whose timers may be a little early
  assert.ok(far > 3.5 * DELAY_MS, `${far} ms`);
  assert.ok(near < far / 10, `${near} ms of ${far} ms`);
});

test('the bytes of an app stay in the region', async (t) => {
  const label = `${(app.address() as AddressInfo).port}--dev--admin`;
  const download = async () => {
    const { hostname, port } = new URL(proxyUrl);
    const headers = { Host: `${label}.far.test:${port}`, 'Coder-Session-Token': server.token };
    const asking = request({ hostname, port, headers, agent: false });
    asking.end();
    const [answer] = await once(asking, 'response');
    assert.equal(answer.statusCode, 200);
    let bytes = 0;
    for await (const part of answer) bytes += part.length;
    return bytes;
  };
  // the permit for this port arrives with the first request, whose bytes may still cross the server
  await download();
  const before = link.bytes();
  const started = performance.now();
  assert.equal(await download(), DOWNLOAD);
  const seconds = (performance.now() - started) / 1_000;
  const crossed = link.bytes() - before;
  t.diagnostic(`${(DOWNLOAD / MIB / seconds).toFixed(0)} MiB/s, ${crossed} bytes crossed to the server`);
  assert.ok(crossed < DOWNLOAD / 100, `${crossed} bytes`);
});
