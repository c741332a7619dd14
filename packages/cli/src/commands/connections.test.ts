import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import {
  eventually,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { invoke } from '../testing/invoke.ts';

let server: TestServer;
let dev: TestWorkspace;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'dev');
});
after(async () => {
  await dev.stop();
  await server.stop();
});

const env = () => ({ CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken });
const run = (...argv: string[]) => invoke(argv, env());

/** A command that runs until it is interrupted. */
function start(...argv: string[]) {
  const interrupt = new AbortController();
  const running = {
    said: '',
    done: Promise.resolve({ code: -1, stdout: '', stderr: '' }),
    stop: () => interrupt.abort(),
  };
  running.done = invoke(
    argv,
    env(),
    '',
    (soFar) => {
      if (soFar.length > 0) running.said = soFar;
    },
    interrupt.signal,
  );
  return running;
}

test('forwards TCP with half-close, and UDP, until Ctrl+C', async (t) => {
  const app = createServer({ allowHalfOpen: true }, (socket) => {
    const parts: Buffer[] = [];
    socket.on('data', (part: Buffer) => parts.push(part));
    socket.on('end', () => socket.end(`<${Buffer.concat(parts)}>`));
  });
  app.listen(0, '127.0.0.1');
  await once(app, 'listening');
  t.after(() => app.close());
  const dns = createSocket('udp4', (message, from) => dns.send(`<${message}>`, from.port, from.address));
  dns.bind(0, '127.0.0.1');
  await once(dns, 'listening');
  t.after(() => dns.close());
  const tcp = (app.address() as AddressInfo).port;
  const udp = dns.address().port;
  const forward = start('port-forward', 'dev', '-p', `0:${tcp},0:1`, '--udp', `127.0.0.1:0:${udp}`);
  t.after(() => forward.stop());
  await eventually('it is ready', async () => forward.said.includes('Ready!'));
  const [first, dead, datagrams] = [...forward.said.matchAll(/127\.0\.0\.1:(\d+) ->/g)].map(([, port]) => Number(port));
  const ask = async (port: number, host = '127.0.0.1') => {
    const socket = connect({ port, host, allowHalfOpen: true });
    socket.end('half-closed');
    return text(socket);
  };
  assert.equal(await ask(first!), '<half-closed>');
  const many = await Promise.all(Array.from({ length: 20 }, () => ask(first!)));
  assert.deepEqual(new Set(many), new Set(['<half-closed>']));
  await assert.rejects(ask(dead!), /ECONNRESET/);
  await eventually('the reason is on the screen', async () => /Port 1: .*nothing listens there/.test(forward.said));

  const peer = createSocket('udp4');
  t.after(() => peer.close());
  const got: string[] = [];
  peer.on('message', (message) => got.push(String(message)));
  for (const one of ['a', '', 'ccc']) peer.send(one, datagrams!, '127.0.0.1');
  await eventually('all came back', async () => got.length === 3);
  assert.deepEqual(got.sort(), ['<>', '<a>', '<ccc>']);

  forward.stop();
  const { code } = await forward.done;
  assert.equal(code, 0);
  await assert.rejects(ask(first!), /ECONNREFUSED/);
});

test('continues a forwarded connection after the agent lost its own', async (t) => {
  const app = createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
  await once(app, 'listening');
  t.after(() => app.close());
  const forward = start('port-forward', 'dev', '-p', `0:${(app.address() as AddressInfo).port}`);
  t.after(() => forward.stop());
  await eventually('it is ready', async () => forward.said.includes('Ready!'));
  const port = Number(/127\.0\.0\.1:(\d+) ->/.exec(forward.said)![1]);
  const socket = connect(port, '127.0.0.1');
  let got = '';
  socket.on('data', (part: Buffer) => {
    got += part;
  });
  socket.write('before,');
  await eventually('the echo', async () => got === 'before,');
  // the server drops the agent as if another connection of it were newer
  const { sql, events } = server.services;
  const [row] = await sql<
    { n: number }[]
  >`SELECT connection_number AS n FROM workspace_agents WHERE id = ${dev.agentId}`;
  await events.publish(sql, 'agent_connected', { agent_id: dev.agentId, number: row!.n + 1 });
  socket.write('meanwhile,');
  await eventually('it goes on', async () => got === 'before,meanwhile,');
  socket.end('after');
  await once(socket, 'close');
  assert.equal(got, 'before,meanwhile,after');
  const other = connect(port, '127.0.0.1');
  other.end('another');
  assert.equal(await text(other), 'another');
});

test('rejects addresses that port-forward cannot listen on, and invalid ports', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  t.after(() => taken.close());
  const { port } = taken.address() as AddressInfo;
  const refused = await run('port-forward', 'dev', '--tcp', `${port}:80`);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, new RegExp(`Could not listen on 127.0.0.1:${port}: another program uses this port`));
  assert.match((await run('port-forward', 'dev')).stderr, /Missing ports/);
  assert.match((await run('port-forward', 'dev', '-p', 'x')).stderr, /Invalid port "x"/);
  assert.match((await run('port-forward', 'none', '-p', '80')).stderr, /Workspace "none" not found/);
});

test('port-forward is not ready while the agent does not answer', async (t) => {
  const gone = await startTestWorkspace(server, 'gone');
  await gone.stop();
  await eventually('the server notes the end', async () => (await gone.look()).status === 'disconnected');
  t.after(() => server.services.sql`DELETE FROM workspace_agents WHERE id = ${gone.agentId}`);
  // as after a crash of the server that held its connection
  await server.services.sql`UPDATE workspace_agents SET disconnected_at = NULL, last_connected_at = now(),
    lifecycle_state = 'ready' WHERE id = ${gone.agentId}`;
  const { code, stderr } = await run('port-forward', 'gone', '-p', '0:80');
  assert.equal(code, 1);
  assert.doesNotMatch(stderr, /Ready!/);
  assert.match(stderr, /error: Cannot reach the agent main: .*\. Check it with: coder ping\n$/s);
});

test('measures round trips with ping', async () => {
  const { code, stdout } = await run('ping', 'dev', '-n', '3', '--wait', '1ms', '--time', '--utc');
  assert.equal(code, 0);
  const pongs = stdout.match(/^\d{4}-\d\d-\d\d [\d:.]{12} pong from dev in [\d.]+ms via the server$/gm);
  assert.equal(pongs?.length, 3, stdout);
  assert.match(stdout, /3 sent, 3 received, minimum/);
});

test('measures the throughput in both directions', async () => {
  for (const direction of ['down', 'up']) {
    const { code, stdout } = await run('speedtest', 'dev', '--time', '1s', '--direction', direction, '-o', 'json');
    assert.equal(code, 0);
    const { overall, intervals } = JSON.parse(stdout) as { overall: { throughput_mbits: number }; intervals: object[] };
    assert.ok(overall.throughput_mbits > 0, `${direction}: ${overall.throughput_mbits}`);
    assert.ok(intervals.length > 0);
  }
  const shown = await run('speedtest', 'dev', '-t', '50ms');
  assert.match(shown.stdout, /^INTERVAL\s+THROUGHPUT\n[\s\S]*total 0\.00-\d+\.\d\d sec\s+[\d.]+ Mbits\/sec/);
});
