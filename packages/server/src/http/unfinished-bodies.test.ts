import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';

// Bodies that never end, from clients that have not signed in: the server holds few bytes, for a short time.

const KIB = 1024;

let server: TestServer;
let port: number;
before(async () => {
  server = await startTestServer();
  port = Number(new URL(server.url).port);
});
after(() => server.stop());

interface Unfinished {
  socket: Socket;
  /** The status line, once the server has answered. */
  status(): number | undefined;
  /** Milliseconds until the server closed the connection. */
  closed: Promise<number>;
}

function begin(
  path: string,
  { bytes = 0, length, token }: { bytes?: number; length?: number; token?: string },
): Unfinished {
  const from = performance.now();
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (data) => {
    answer += data;
  });
  socket.on('error', () => {});
  socket.write(
    `POST /api/v2${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${
      token ? `Coder-Session-Token: ${token}\r\n` : ''
    }${length === undefined ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`}\r\n\r\n`,
  );
  if (length === undefined) socket.write(`${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`);
  else socket.write('x'.repeat(Math.min(bytes, length)));
  return {
    socket,
    status: () => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]) || undefined,
    closed: once(socket, 'close').then(() => performance.now() - from),
  };
}

const answered = (one: Unfinished) => eventually('it is answered', async () => one.status() !== undefined);

test('rejects a large body before it is sent', async () => {
  for (const path of ['/users/login', '/users/first', '/users/validate-password']) {
    const large = begin(path, { length: 1024 * KIB, bytes: 1 });
    await answered(large);
    assert.equal(large.status(), 413, path);
    large.socket.destroy();
    const growing = begin(path, { bytes: 300 * KIB });
    await answered(growing);
    assert.equal(growing.status(), 413, path);
    growing.socket.destroy();
  }
});

test('holds at most a megabyte of one address, and serves others', async () => {
  const all = Array.from({ length: 40 }, () => begin('/users/login', { bytes: 200 * KIB }));
  // five fit, and the server rejects the others
  await eventually('the others are answered', async () => all.filter((one) => one.status() === 429).length >= 35);
  const { token } = await insertPerson(server, 'member');
  const large = await server.api('PUT', '/users/me/appearance', {
    token,
    body: { theme_preference: 'dark', terminal_font: 'fira-code', padding: 'x'.repeat(2_000 * KIB) },
  });
  assert.equal(large.status, 200, 'who has signed in has a budget of his own');
  for (const { socket } of all) socket.destroy();
  await eventually('what they held is free again', async () => {
    const { status } = await server.api('POST', '/users/login', {
      token: null,
      body: { email: 'x'.repeat(200 * KIB), password: 'x' },
    });
    return status === 400;
  });
});

test('lets people sign in while others use the whole budget of their address', async () => {
  const full = Array.from({ length: 4 }, () => begin('/users/login', { length: 256 * KIB, bytes: 256 * KIB - 1 }));
  const rest = begin('/users/login', { length: 256 * KIB, bytes: 6 * KIB });
  await eventually('no more is taken', async () => {
    const { status } = await server.api('POST', '/users/login', {
      token: null,
      body: { email: 'x'.repeat(20 * KIB), password: 'x' },
    });
    return status === 429;
  });
  const { status } = await server.api('POST', '/users/login', { token: null, body: { email: 'a@b.c', password: 'x' } });
  assert.equal(status, 401);
  for (const { socket } of [...full, rest]) socket.destroy();
});

test('ends bodies that do not arrive, sooner before sign-in than after it', async () => {
  const { token } = await insertPerson(server, 'slow');
  const anonymous = begin('/users/login', { length: 1_000, bytes: 10 });
  const unknown = begin('/files', { length: 1_000, bytes: 10 });
  const person = begin('/files', { length: 1_000, bytes: 10, token });
  await answered(unknown);
  assert.equal(unknown.status(), 401, 'answered before its body is read');
  const [first] = await Promise.all([
    anonymous.closed,
    eventually('the connection is closed', () => anonymous.socket.closed, 14_000),
    eventually('the answered connection is closed', () => unknown.socket.closed, 9_000),
  ]);
  assert.ok(first > 8_000, `closed after ${first} ms`);
  assert.equal(person.socket.closed, false);
  person.socket.destroy();
});
