import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { after, before, mock, test } from 'node:test';
import type { Template } from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  insertPerson,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { encodeHello, type ResumeHello } from '@ropewalk/wire/resume/hello';
import { acceptTunnel } from '@ropewalk/wire/tunnel';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession, type YamuxStream } from '@ropewalk/wire/yamux';
import { dialAgent, makeAgents, refusal } from '../testing/agents.ts';
import { memory } from '../testing/peer.ts';

// Clients that ask for a tunnel without permission, wrongly, or maliciously, and malicious agents at its end.

const MIB = 1024 * 1024;

let server: TestServer;
let template: Template;
let dev: TestWorkspace;
let owner: { id: string; token: string };
let echo: Server;
let port: number;
const echoed = new Set<Socket>();
before(async () => {
  server = await startTestServer();
  owner = await insertPerson(server, 'owner');
  echo = createServer({ allowHalfOpen: true }, (socket) => {
    echoed.add(socket);
    socket.on('error', () => {}).on('close', () => echoed.delete(socket));
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
  ({ port } = echo.address() as AddressInfo);
  dev = await startTestWorkspace(server, 'dev', { token: owner.token });
  template = await createTestTemplate(server, 'tunnels');
});
after(async () => {
  await dev.stop();
  echo.close();
  await server.stop();
});

type Query = Record<string, string | number>;

async function tunnel(query: Query, token = owner.token, agentId = dev.agentId): Promise<Duplex> {
  const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${agentId}/tunnel?${search}`, {
    headers: { 'Coder-Session-Token': token },
  });
  return byteStream(connection);
}

/** A malicious agent. It passes each tunnel that the server opens to `take`. */
async function badAgent(name: string, take: (stream: YamuxStream) => void) {
  const { agents } = await makeAgents(server, template, name, { token: owner.token });
  const connection = await dialAgent(server, agents[0]!.token);
  const session = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false, onStream: take });
  const look = async () =>
    (await server.api<{ status: string }>('GET', `/workspaceagents/${agents[0]!.id}`)).body.status === 'connected';
  await eventually('it is connected', look);
  return { id: agents[0]!.id, session };
}

test('rejects a wrong request with a message before anything is opened', async () => {
  const status = async (query: Query) => (await refusal(tunnel(query))).status;
  assert.deepEqual(await refusal(tunnel({ service: 'nothing' })), {
    status: 400,
    message: 'Unknown service "nothing".',
  });
  for (const service of ['pty', 'forget', 'reinit', 'secrets', 'watch']) {
    assert.equal(await status({ service }), 400, `${service} is the server’s own`);
  }
  for (const wrong of [0, 65_536, 'text', -1, 1.5]) assert.equal(await status({ service: 'tcp', port: wrong }), 400);
  assert.equal(await status({ service: 'tcp', port, resume: 'maybe' }), 400);
  const { status: code, message } = await refusal(tunnel({ service: 'tcp' }));
  assert.equal(code, 503);
  assert.match(message, /port must be 1 to 65535/);
  assert.equal(echoed.size, 0);
});

test('reveals no workspace to people without access, and opens none with a token for apps', async () => {
  const stranger = await insertPerson(server, 'stranger');
  assert.equal((await refusal(tunnel({ service: 'tcp', port }, stranger.token))).status, 404);
  assert.equal((await refusal(tunnel({ service: 'tcp', port }, 'nobody'))).status, 401);
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', {
    token: owner.token,
    body: { token_name: 'apps', scope: 'application_connect' },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  assert.ok([403, 404].includes((await refusal(tunnel({ service: 'tcp', port }, made.body.key))).status!));
  assert.equal(echoed.size, 0);
});

const hello = (more: Partial<ResumeHello> = {}): ResumeHello => ({
  kind: 'new',
  id: randomBytes(16),
  secret: randomBytes(32),
  received: 0,
  ...more,
});
/** The answer to an attach: 0 is a welcome, 1 a rejection with its message. */
async function attach(first: Uint8Array, token = owner.token): Promise<{ code: number | undefined; text: string }> {
  const stream = await tunnel({ service: 'tcp', port, resume: 'attach' }, token);
  const parts: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => parts.push(chunk));
  stream.write(first);
  await eventually('an answer', async () => parts.length > 0 || stream.destroyed, 5_000);
  stream.destroy();
  const answer = Buffer.concat(parts);
  return { code: answer[0], text: answer.subarray(3).toString() };
}

test('resumes a session for its person and secret only, and gives everyone else the same answer', async () => {
  const mine = hello();
  const first = await tunnel({ service: 'tcp', port, resume: 'new' });
  first.write(encodeHello(mine));
  await eventually('it is open', async () => echoed.size === 1);
  first.destroy();
  const again = { ...mine, kind: 'attach' as const };
  const unknown = await attach(encodeHello(hello({ kind: 'attach' })));
  assert.equal(unknown.code, 1);
  assert.match(unknown.text, /The session has ended/);
  assert.deepEqual(await attach(encodeHello({ ...again, secret: randomBytes(32) })), unknown);
  // the site's owner may enter this workspace, but this session is not theirs
  assert.deepEqual(await attach(encodeHello(again), server.adminToken), unknown);
  const garbage = await attach(Buffer.from('GET / HTTP/1.1\r\n\r\n'.padEnd(80)));
  assert.equal(garbage.code, undefined, 'it is dropped');
  assert.equal((await attach(encodeHello(again))).code, 0);
  assert.equal(echoed.size, 1, 'nobody has ended it');
  for (const socket of echoed) socket.destroy();
});

test('rejects with a clear message after ten seconds if the agent never answers a tunnel', async () => {
  const real = globalThis.setTimeout;
  let streams = 0;
  const { id, session } = await badAgent('silent', () => streams++);
  const waits: number[] = [];
  const short = mock.method(globalThis, 'setTimeout', (run: () => void, ms: number) => {
    if (ms === 10_000) waits.push(ms);
    return real(run, ms === 10_000 ? 50 : ms);
  });
  try {
    const { status, message } = await refusal(tunnel({ service: 'tcp', port }, owner.token, id));
    assert.deepEqual({ status, message }, { status: 503, message: 'The agent of this workspace does not answer.' });
  } finally {
    short.mock.restore();
  }
  assert.ok(waits.length > 0, 'by the limit of ten seconds');
  assert.equal(streams, 1);
  await eventually('its stream is dropped', async () => session.streamCount === 0);
  await session.close();
});

test('survives agents that answer nonsense, end immediately or send a long refusal', async () => {
  const answers: ((stream: YamuxStream) => void)[] = [
    (stream) => stream.end(Buffer.from([7])),
    (stream) => stream.destroy(),
    (stream) => stream.write(Buffer.concat([Buffer.from([1, 0xff, 0xff]), randomBytes(65_535)])),
    (stream) => stream.end(),
  ];
  let n = 0;
  const { id, session } = await badAgent('nonsense', (stream) => answers[n++]!(stream));
  for (const _ of answers) {
    const { status, message } = await refusal(tunnel({ service: 'tcp', port }, owner.token, id));
    assert.deepEqual({ status, message }, { status: 503, message: 'The agent of this workspace does not answer.' });
  }
  await eventually('no stream is left', async () => session.streamCount === 0);
  await session.close();
});

test('bounds the bytes in flight when a client stops reading', async () => {
  const chunk = Buffer.alloc(256 * 1024, 'x');
  let sent = 0;
  const { id, session } = await badAgent('pours', (stream) => {
    void acceptTunnel(stream).then((accepted) => {
      const out = accepted.accept();
      const pour = () => {
        while (sent < 1024 * MIB && !out.destroyed) {
          sent += chunk.length;
          if (!out.write(chunk)) return;
        }
      };
      out.on('drain', pour);
      pour();
    });
  });
  const before = await memory();
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${id}/tunnel?service=ssh`, {
    headers: { 'Coder-Session-Token': owner.token },
  });
  connection.pause();
  let last = -1;
  await eventually('it is held back', async () => {
    const still = sent === last;
    last = sent;
    await new Promise((resolve) => setTimeout(resolve, 250));
    return still && sent > 0;
  });
  const held = (await memory()) - before;
  assert.ok(sent < 64 * MIB, `${sent / MIB} MiB were taken`);
  assert.ok(held < 32 * MIB, `${held / MIB} MiB are held`);
  connection.destroy();
  await eventually('the agent notices', async () => session.streamCount === 0);
  await session.close();
});

test('leaves nothing behind after five hundred opened and dropped tunnels', async () => {
  const open = new Set<YamuxStream>();
  const real = YamuxSession.prototype.openStream;
  // by hand: a mock would keep everything that it returned
  YamuxSession.prototype.openStream = function (this: YamuxSession) {
    const stream = real.call(this);
    open.add(stream);
    stream.once('close', () => open.delete(stream));
    return stream;
  };
  const round = async (count: number) => {
    for (let n = 0; n < count; n += 25) {
      await Promise.all(
        Array.from({ length: 25 }, async (_, i) => {
          const stream = await tunnel({ service: 'tcp', port, ...(i % 5 === 0 ? { resume: 'new' } : {}) });
          if (i % 2 === 0) stream.write('x');
          stream.destroy(i % 3 === 0 ? new Error('dropped') : undefined);
        }),
      );
    }
    await eventually('no connection is left', async () => echoed.size === 0);
    await eventually('no stream is left', async () => open.size === 0, 5_000);
  };
  await round(100);
  // connections to the database and their timers come and go. They are not TCP sockets here
  const sockets = () => process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length;
  const socketsBefore = sockets();
  const before = await memory();
  await round(500);
  await eventually('no socket is left', async () => sockets() <= socketsBefore);
  const grown = (await memory()) - before;
  assert.ok(grown < 3 * MIB, `${grown} bytes`);
  YamuxSession.prototype.openStream = real;
});

test('opens nothing for a token that is revoked before the agent answers', async () => {
  let answer: () => void = () => {};
  const asked = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const { id, session } = await badAgent('late', () => answer());
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', {
    token: owner.token,
    body: { token_name: 'late' },
  });
  const dial = refusal(tunnel({ service: 'tcp', port }, made.body.key, id));
  await asked;
  const gone = await server.api('DELETE', `/users/me/keys/${made.body.key.split('-')[0]}`, { token: owner.token });
  assert.equal(gone.status, 204);
  const { status } = await dial;
  assert.ok(status === 401 || status === 403, `${status}`);
  await eventually('its stream is dropped', async () => session.streamCount === 0);
  await session.close();
});

test('lets the kernel find an end that vanished', {
  skip: process.platform !== 'linux',
}, async () => {
  const stream = await tunnel({ service: 'tcp', port });
  const serverPort = Number(new URL(server.url).port).toString(16).toUpperCase().padStart(4, '0');
  // the field after the queues: 01 while bytes are in flight, 02 is a running keep-alive timer
  const timers = () =>
    readFileSync('/proc/net/tcp', 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter((row) => row[1]?.endsWith(`:${serverPort}`) && row[3] === '01')
      .map((row) => row[5]!.slice(0, 2));
  await eventually('all are watched', async () => timers().every((timer) => timer === '02'), 3_000);
  assert.ok(timers().length >= 2, 'those of the agent and of the tunnel');
  stream.destroy();
});
