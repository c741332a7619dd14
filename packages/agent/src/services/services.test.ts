import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { DatagramReader } from '@ropewalk/wire/datagrams';
import { type RunningAgent, runAgent } from '../agent.ts';
import { startTestServer, type TestServer, TOKEN } from '../testing/server.ts';
import { parseListening } from './ports.ts';

describe('small services', () => {
  let server: TestServer;
  let agent: RunningAgent;
  before(async () => {
    server = await startTestServer();
    agent = runAgent({ url: server.url, token: TOKEN, version: 'v1.2.3', log: silentLogger });
    await server.until('ready', () => server.received.lifecycles.includes('READY'));
  });
  after(async () => {
    await agent.stop();
    await server.close();
  });

  test('ping echoes its input', async () => {
    const stream = await server.tunnel('ping');
    stream.write('12345678');
    const [back] = (await once(stream, 'data')) as [Buffer];
    assert.equal(String(back), '12345678');
    stream.end();
  });

  test('speedtest sends for the requested time, and counts received bytes', async () => {
    const ask = async (direction: string, ms: number) => {
      const stream = await server.tunnel('speedtest');
      const asked = Buffer.from([direction.charCodeAt(0), 0, 0, 0, 0]);
      asked.writeUInt32BE(ms, 1);
      for (const byte of asked) stream.write(Buffer.from([byte]));
      stream.on('error', () => {});
      return stream;
    };
    let got = 0;
    for await (const chunk of await ask('d', 200)) got += (chunk as Buffer).length;
    assert.ok(got > 1_000_000, `${got}`);
    const up = await ask('u', 1_000);
    up.write(Buffer.alloc(300_000));
    for (let counted = 0n; counted !== 300_000n; ) {
      const [report] = (await once(up, 'data')) as [Buffer];
      counted = report.readBigUInt64BE(report.length - 8);
    }
    up.end();
    for (const [direction, ms] of [
      ['x', 5],
      ['d', 0],
    ] as const) {
      const refused = await ask(direction, ms);
      refused.resume();
      await new Promise((resolve) => refused.once('close', resolve));
    }
  });

  test('UDP datagrams keep their boundaries', async (t) => {
    const app = createSocket('udp4', (message, from) => app.send(`<${message}>`, from.port, from.address));
    app.bind(0, '127.0.0.1');
    await once(app, 'listening');
    t.after(() => app.close());
    const stream = await server.tunnel('udp', { port: (app.address() as AddressInfo).port });
    const reader = new DatagramReader();
    const got: string[] = [];
    stream.on('data', (chunk: Buffer) => got.push(...reader.write(chunk).map(String)));
    for (const byte of Buffer.from('\0\x03one\0\x05three\0\0')) stream.write(Buffer.from([byte]));
    await server.until('all answers', () => got.length === 3);
    assert.deepEqual(got.sort(), ['<>', '<one>', '<three>']);
    stream.end();
  });

  test('lists listening ports with the names of their programs', async (t) => {
    const code =
      "require('net').createServer().listen(0, '127.0.0.1', function () { console.log(this.address().port) })";
    const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => child.kill());
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const { ports } = JSON.parse(await text(await server.tunnel('ports'))) as {
      ports: { port: number; process_name: string; network: string }[];
    };
    const found = ports.find(({ port }) => port === Number(line));
    assert.equal(found?.network, 'tcp');
    assert.match(found.process_name, /node|MainThread/);
    assert.ok(ports.every(({ port }) => port >= 1_024));
    assert.ok(!ports.some(({ port }) => server.url.endsWith(`:${port}`)), "excludes the agent's own ports");
  });

  test('reads only listening sockets from a table', () => {
    const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0000000000000000 100
   1: 0100007F:1F91 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 4243 1 0000000000000000 100
`;
    assert.deepEqual(parseListening(table), [{ port: 8080, inode: '4242' }]);
  });
});
