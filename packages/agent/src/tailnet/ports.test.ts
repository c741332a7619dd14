import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import type { TailnetNode } from '@ropewalk/tailnet/node/tailnet-node';
import { connectedStacks } from '@ropewalk/tailnet/testing/stacks';
import { Lifecycle_State } from '@ropewalk/wire/proto/agent';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { createActivity } from '../activity.ts';
import type { Lifecycle } from '../lifecycle.ts';
import { createAgentMetrics } from '../metrics.ts';
import { ptyService } from '../services/pty.ts';
import type { Workspace } from '../workspace.ts';
import { servePorts } from './ports.ts';

/** The agent's ports behind a stack, and a client's stack, connected without a network. */
function setUp(t: TestContext, home = '/') {
  const { addresses, client, stack } = connectedStacks();
  const activity = createActivity(createAgentMetrics());
  const pty = ptyService(activity, { state: Lifecycle_State.READY } as Lifecycle);
  const workspace = {
    account: { home },
    session: (command: string) => ({ file: '/bin/sh', args: ['-c', command], env: {}, cwd: '/' }),
  } as unknown as Workspace;
  pty.setWorkspace(workspace);
  const list = () => ({ containers: [], devcontainers: [] });
  const devcontainers = { list, refresh: async () => {}, onChange: () => () => {}, recreate: () => {} };
  const sessions = new ResumableSessions();
  const stop = servePorts({
    ...{ stack, workspace, log: silentLogger },
    services: { activity, devcontainers, sessions, pty: pty.serve, ssh: { serve: () => {} } },
    node: { node: undefined, status: () => ({ endpoints: [] }), lostMs: () => undefined } as unknown as TailnetNode,
  });
  t.after(() => {
    pty.close();
    stop();
    stack.close();
    client.close();
  });
  const connect = (port: number) => client.connect({ to: addresses[1], port });
  return { client, stack, connect, to: addresses[1] };
}

async function textOf(stream: Readable): Promise<string> {
  let text = '';
  for await (const chunk of stream) text += (chunk as Buffer).toString('latin1');
  return text;
}

async function listen(t: TestContext, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

test('forwards a port, and ends both directions when one ends', async (t) => {
  const { connect, stack } = setUp(t);
  let ends = 0;
  const port = await listen(
    t,
    createServer({ allowHalfOpen: true }, (socket) => {
      socket.resume().on('end', () => ends++);
      socket.write('x'.repeat(300_000));
    }),
  );
  const stream = await connect(port);
  let length = 0;
  stream.on('data', (chunk: Buffer) => {
    length += chunk.length;
  });
  await eventually(() => length === 300_000, 'all bytes');
  // the program keeps its direction open
  stream.end();
  await once(stream, 'close');
  await eventually(() => ends === 1, 'the end of the program');
  await eventually(() => stack.stats.connections === 0, 'the end of the connection');
  const greeting = await listen(
    t,
    createServer((socket) => socket.end('bye')),
  );
  assert.equal(await textOf(await connect(greeting)), 'bye');
});

test('refuses closed and reserved ports', async (t) => {
  const { connect } = setUp(t);
  const server = createServer();
  const port = await listen(t, server);
  server.close();
  await once(server, 'close');
  for (const refused of [port, 5, 7, 8]) await assert.rejects(connect(refused), { code: 'ECONNREFUSED' });
});

test('forwards datagrams in both directions, and takes none from another port', async (t) => {
  const { client, to } = setUp(t);
  const socket = createSocket('udp4').bind(0, '127.0.0.1');
  const other = createSocket('udp4').bind(0, '127.0.0.1');
  await Promise.all([once(socket, 'listening'), once(other, 'listening')]);
  t.after(() => [socket, other].map((open) => open.close()));
  socket.on('message', (datagram, { port }) => {
    other.send('forged', port, '127.0.0.1', () => socket.send(`re: ${datagram}`, port, '127.0.0.1'));
  });
  const received: string[] = [];
  const flow = client.openUdp(to, socket.address().port, { onMessage: (payload) => received.push(payload.toString()) });
  flow.send(Buffer.from('one'));
  flow.send(Buffer.from('two'));
  await eventually(() => received.length >= 2, 'both answers');
  assert.deepEqual(received.toSorted(), ['re: one', 're: two']);
});

test('answers the HTTP API', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'agent-api-'));
  t.after(() => rmSync(home, { recursive: true }));
  mkdirSync(join(home, 'folder'));
  writeFileSync(join(home, 'file'), '');
  const { connect } = setUp(t, home);
  const ask = async (line: string, body = '') => {
    const stream = await connect(4);
    stream.write(`${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    const [head, answer] = (await textOf(stream)).split('\r\n\r\n') as [string, string];
    return { status: Number(head.split(' ')[1]), body: JSON.parse(answer) as Record<string, unknown> };
  };
  assert.deepEqual((await ask('GET /')).body, { message: 'Hello from the agent!' });
  assert.ok(Array.isArray((await ask('GET /api/v0/listening-ports')).body['ports']));
  assert.equal((await ask('GET /api/v0/netcheck')).body['severity'], 'ok');
  assert.deepEqual((await ask('GET /api/v0/containers')).body, { containers: [], devcontainers: [] });
  const listed = await ask('POST /api/v0/list-directory', '{"path":[],"relativity":"home"}');
  assert.equal(listed.body['absolute_path_string'], home);
  const contents = listed.body['contents'] as { name: string; is_dir: boolean }[];
  assert.deepEqual(contents.map(({ name, is_dir: isDir }) => `${name} ${isDir}`).toSorted(), [
    'file false',
    'folder true',
  ]);
  assert.equal((await ask('POST /api/v0/list-directory', '{"path":["no"],"relativity":"home"}')).status, 404);
  for (const wrong of [
    '{',
    '[]',
    '{"path":"x","relativity":"home"}',
    '{"path":[],"relativity":"x"}',
    `{"a":"${'x'.repeat(70_000)}"}`,
  ])
    assert.equal((await ask('POST /api/v0/list-directory', wrong)).status, 400, wrong.slice(0, 40));
  assert.equal((await ask('GET /debug/manifest')).status, 404);
});

test('opens terminals, and reports what is wrong with a request', async (t) => {
  const { connect } = setUp(t);
  const open = async (request: unknown, more = '') => {
    const json = Buffer.from(typeof request === 'string' ? request : JSON.stringify(request));
    const head = Buffer.alloc(2);
    head.writeUInt16LE(json.length);
    const stream = await connect(2);
    stream.write(Buffer.concat([head, json, Buffer.from(more)]));
    return textOf(stream);
  };
  const request = { ID: crypto.randomUUID(), Height: 31, Width: 91, Command: 'read x; stty size; echo got $x' };
  const text = await open(request, '{"data":"ke"}{"data":"ys\\r"}');
  assert.match(text, /31 91/);
  assert.match(text, /got keys/);
  assert.match(await open({ ...request, ID: 'x' }), /must be a UUID/);
  assert.match(await open({ ...request, Container: '--help' }), /Invalid container name/);
  assert.match(await open('{'), /JSON/);
});

test('measures the throughput in both directions, and rejects other requests', async (t) => {
  const { connect } = setUp(t);
  const begin = async (request: object) => {
    const stream = await connect(3);
    stream.write(`${JSON.stringify(request)}\n`);
    return stream;
  };
  const down = await textOf(await begin({ version: 2, time: 50e6, direction: 0 }));
  assert.ok(down.startsWith('{}\n'));
  assert.ok(down.length > 100_000, `${down.length} bytes`);
  const up = await begin({ version: 2, time: 50e6, direction: 1 });
  up.end(Buffer.alloc(300_000));
  assert.equal(await textOf(up), '{}\n');
  for (const wrong of [
    { version: 3, time: 1e6, direction: 0 },
    { version: 2, time: -1, direction: 0 },
    { version: 2, time: 1e6, direction: 7 },
  ])
    assert.match(await textOf(await begin(wrong)), /^\{"error":/);
});
