import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type RouteDef, type RouteKey, routes } from '@ropewalk/contract';
import { createTestTemplate, eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { dialWebSocket, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { createStreamLimits, kindOfStream, staysOpen } from './stream-limits.ts';

const MAX = 3;
const MIB = 1024 * 1024;

let server: TestServer;
let greedy: { id: string; token: string };
let other: { id: string; token: string };
let versionId: string;
before(async () => {
  server = await startTestServer({
    env: {
      CODER_MAX_FORMS_PER_USER: String(MAX),
      CODER_MAX_STREAMS_PER_USER: String(MAX),
      CODER_MAX_TUNNELS_PER_USER: String(MAX),
    },
  });
  greedy = await insertPerson(server, 'greedy');
  other = await insertPerson(server, 'other');
  const template = await createTestTemplate(server, 'form');
  versionId = template.active_version_id;
});
after(() => server.stop());

/** Any path of the route. Limits come before the objects that it names. */
const pathOf = (key: RouteKey) =>
  key
    .slice(4)
    .replaceAll(/\{(\w+)\}/g, () => crypto.randomUUID())
    .replace(/^/, key.startsWith('GET /api') ? '' : '/api/v2');

interface Refusal {
  status: number;
  message: string;
}

async function ask(path: string, token: string, upgrade: boolean): Promise<Refusal> {
  const headers = {
    'Coder-Session-Token': token,
    ...(upgrade
      ? {
          Connection: 'Upgrade',
          Upgrade: 'websocket',
          'Sec-WebSocket-Version': '13',
          'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
        }
      : {}),
  };
  const asked = get(`${server.url}${path}`, { headers, agent: false });
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  const parts: Buffer[] = [];
  for await (const part of answer as AsyncIterable<Buffer>) parts.push(part);
  const text = Buffer.concat(parts).toString();
  asked.destroy();
  return { status: answer.statusCode!, message: text ? (JSON.parse(text) as { message: string }).message : '' };
}

async function openForm(token: string): Promise<WebSocketConnection> {
  const { connection } = await dialWebSocket(`${server.url}/api/v2/templateversions/${versionId}/dynamic-parameters`, {
    headers: { 'Coder-Session-Token': token },
  });
  connection.on('text', () => {});
  return connection;
}

/** Connections that were refused, and stay open: a client takes slots with them for as long as it keeps them. */
async function holdSlots(key: RouteKey, token: string): Promise<() => void> {
  const { hostname, port } = new URL(server.url);
  const sockets = await Promise.all(
    Array.from({ length: MAX }, async () => {
      const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
      socket.on('error', () => {});
      socket.write(
        `GET ${pathOf(key)} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nCoder-Session-Token: ${token}\r\nConnection: Upgrade\r\n` +
          'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      );
      await once(socket, 'data');
      return socket;
    }),
  );
  return () => {
    for (const socket of sockets) socket.destroy();
  };
}

describe('streams of one person', () => {
  const all = (Object.entries(routes) as [RouteKey, RouteDef][]).filter(
    ([key, def]) => key.startsWith('GET ') && (def.auth === 'session' || def.auth === 'optional'),
  );

  test('every route of the contract refuses a WebSocket or an event stream too many, with a sentence', async (t) => {
    const first: Record<string, RouteKey> = {};
    for (const [key, def] of all) if (def.stream === 'websocket' && key.includes('{')) first[kindOfStream(key)] ??= key;
    assert.deepEqual(Object.keys(first).sort(), ['form', 'tunnel', 'watch']);
    const release = await Promise.all(Object.values(first).map((key) => holdSlots(key, greedy.token)));
    const end = () => {
      for (const one of release) one();
    };
    t.after(end);
    let streams = 0;
    for (const [key, def] of all) {
      const ways = [true, ...(staysOpen(def) ? [false] : [])];
      if (def.stream === 'websocket' || staysOpen(def)) streams++;
      for (const upgrade of ways) {
        const { status, message } = await ask(pathOf(key), greedy.token, upgrade);
        assert.equal(status, 429, key);
        assert.match(message, /^You already have 3 open .+ and try again\.$/, key);
      }
    }
    assert.ok(streams >= 13, `${streams}`);
    // others, and ordinary requests, are not affected
    assert.equal((await ask('/api/v2/notifications/inbox', greedy.token, false)).status, 200);
    const free = await openForm(other.token);
    free.destroy();
    end();
    await eventually('free slots', async () => (await ask(pathOf(first['watch']!), greedy.token, true)).status !== 429);
  });

  test('a form that ends frees its place', async () => {
    const forms = await Promise.all([openForm(other.token), openForm(other.token), openForm(other.token)]);
    await assert.rejects(openForm(other.token), (err: { status: number; body: string }) => {
      assert.equal(err.status, 429);
      assert.deepEqual(JSON.parse(err.body), {
        message: 'You already have 3 open workspace forms. Close one of them and try again.',
        detail: 'An administrator sets the limit with --max-forms-per-user.',
      });
      return true;
    });
    forms[0]!.close();
    await forms[0]!.closed;
    const again = await eventually('a place', () => openForm(other.token).catch(() => undefined));
    for (const form of [...forms, again]) form.destroy();
  });
});

test('counts a holder only until its stream ends, once, and has no limit with 0', () => {
  const limits = createStreamLimits({ maxFormsPerUser: 1, maxStreamsPerUser: 0, maxTunnelsPerUser: -1 });
  const ada = { kind: 'person', id: 'ada' } as const;
  const release = limits.hold('form', ada);
  limits.hold('form', { kind: 'person', id: 'ben' });
  assert.throws(() => limits.hold('form', ada), /You already have 1 open/);
  release();
  release();
  limits.hold('form', ada);
  assert.throws(() => limits.hold('form', ada), /You already have 1 open/);
  for (let n = 0; n < 100; n++) for (const kind of ['watch', 'tunnel'] as const) limits.hold(kind, ada);
});

test('an agent cannot open more than its number of streams', async () => {
  const limits = createStreamLimits({ maxFormsPerUser: 1, maxStreamsPerUser: 1, maxTunnelsPerUser: 1 });
  const agent = { kind: 'agent', id: 'token' } as const;
  assert.throws(() => {
    for (let n = 0; n < 1_000; n++) limits.hold('watch', agent);
  }, /This agent already has 50 open/);
});

describe('messages', () => {
  test('a form closes by the header of a message that is too long, before it arrives', async () => {
    const upgrade = request(`${server.url}/api/v2/templateversions/${versionId}/dynamic-parameters`, {
      headers: {
        'Coder-Session-Token': other.token,
        Connection: 'Upgrade',
        Upgrade: 'websocket',
        'Sec-WebSocket-Version': '13',
        'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
      },
    });
    upgrade.end();
    const [, socket] = (await once(upgrade, 'upgrade')) as [IncomingMessage, import('node:net').Socket];
    let received = Buffer.alloc(0);
    socket.on('data', (part: Buffer) => {
      received = Buffer.concat([received, part]);
    });
    const header = Buffer.from('81ff000000000010000100000000', 'hex'); // 1 MiB and one byte
    socket.write(header);
    await once(socket, 'end');
    assert.ok(received.includes(Buffer.from([0x88])), 'a close frame');
    assert.match(received.toString('latin1'), new RegExp(`exceeds the limit of ${MIB} bytes`));
    socket.destroy();
  });

  test('a stream that only sends accepts small messages', async () => {
    const { connection } = await dialWebSocket(`${server.url}/api/v2/notifications/inbox/watch`, {
      headers: { 'Coder-Session-Token': other.token },
    });
    connection.on('text', () => {});
    connection.sendText('x'.repeat(60_000));
    connection.sendText('x'.repeat(70_000));
    const { code } = await connection.closed;
    assert.equal(code, 1009);
  });
});
