import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { eventually, type RunningProgram } from './harness.ts';
import { startProxyProcess } from './proxy-process.ts';
import { agentOfDev, type Region, startRegion } from './region.ts';

// A region whose server is 100 ms away from everything else: the bytes of its people stay in the region.
const DELAY_MS = 50;
const MIB = 1024 * 1024;
const DOWNLOAD = 256 * MIB;

let region: Region;
let proxy: RunningProgram;
let app: Server;
let agent: string;

before(async () => {
  region = await startRegion(DELAY_MS);
  const { server, link, dir } = region;
  proxy = startProxyProcess({ dir, ...region.proxy, primaryUrl: link.url, wildcard: '*.far.test' });
  await eventually('the proxy is connected', () => /registered at the server/.test(proxy.err()));
  agent = await agentOfDev(server);
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
  await region?.stop();
  app?.closeAllConnections();
  app?.close();
});

/** The median time from a key to its echo in a terminal at this address, in ms. */
async function echoOf(url: string): Promise<number> {
  const query = new URLSearchParams({ reconnect: crypto.randomUUID(), width: '80', height: '24', command: 'cat' });
  const { connection } = await dialWebSocket(
    `${url.replace('http', 'ws')}/api/v2/workspaceagents/${agent}/pty?${query}`,
    { headers: { 'Coder-Session-Token': region.server.token } },
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
  const far = await echoOf(region.link.url);
  const near = await echoOf(region.proxy.url);
  t.diagnostic(`echo through the proxy ${near.toFixed(1)} ms, through the server ${far.toFixed(1)} ms`);
  assert.match(proxy.err(), /an agent connected/);
  // four times over the link, whose timers may be a little early
  assert.ok(far > 3.5 * DELAY_MS, `${far} ms`);
  assert.ok(near < far / 10, `${near} ms of ${far} ms`);
});

test('the bytes of an app stay in the region', async (t) => {
  const label = `${(app.address() as AddressInfo).port}--dev--admin`;
  const download = async () => {
    const { hostname, port } = new URL(region.proxy.url);
    const headers = { Host: `${label}.far.test:${port}`, 'Coder-Session-Token': region.server.token };
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
  const before = region.link.bytes();
  const started = performance.now();
  assert.equal(await download(), DOWNLOAD);
  const seconds = (performance.now() - started) / 1_000;
  const crossed = region.link.bytes() - before;
  t.diagnostic(`${(DOWNLOAD / MIB / seconds).toFixed(0)} MiB/s, ${crossed} bytes crossed to the server`);
  assert.ok(crossed < DOWNLOAD / 100, `${crossed} bytes`);
});
