// The commands with an agent that has only upstream's tunnels: this project's agent in the tailnet, whose server offers no
// others.
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { after, before, type TestContext, test } from 'node:test';
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
let front: { url: string; close(): void };
before(async () => {
  server = await startTestServer({ env: { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable' } });
  dev = await startTestWorkspace(server, 'dev');
  front = await startFront();
});
after(async () => {
  front.close();
  await dev.stop();
  await server.stop();
});

/** The server for the commands: it answers as it does for an agent without its tunnels. */
async function startFront() {
  const target = new URL(server.url);
  const body = JSON.stringify({ message: 'It has no tunnels of this server.' });
  const refusal = `HTTP/1.1 501 Not Implemented\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const sockets = new Set<Socket>();
  const listener = createServer((client) => {
    sockets.add(client);
    client.on('error', () => {});
    // a WebSocket has its own connection
    client.once('data', (head: Buffer) => {
      if (/^GET \S+\/tunnel\?/.test(head.toString('latin1'))) return void client.end(refusal);
      const behind = connect(Number(target.port), target.hostname);
      sockets.add(behind);
      behind.on('error', () => client.destroy());
      behind.write(head);
      client.pipe(behind).pipe(client);
    });
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    close() {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

const env = () => ({ CODER_URL: front.url, CODER_SESSION_TOKEN: server.adminToken });

/** A command that runs until it is interrupted. */
function start(t: TestContext, ...argv: string[]) {
  const interrupt = new AbortController();
  const running = { said: '' };
  const keep = (soFar: string) => {
    if (soFar.length > 0) running.said = soFar;
  };
  const done = invoke(argv, env(), '', keep, interrupt.signal);
  t.after(async () => {
    interrupt.abort();
    await done;
  });
  return running;
}

test('ssh runs a command and returns its code and all of its output', async () => {
  const { code, stdout, stderr } = await invoke(['ssh', 'dev', '--', 'head -c 1000000 /dev/zero; exit 7'], env());
  assert.equal(stderr, '');
  assert.equal(code, 7);
  assert.equal(stdout.length, 1_000_000);
  const input = await invoke(['ssh', 'dev', '--', 'wc -c'], env(), 'x'.repeat(300_000));
  assert.deepEqual([input.code, input.stdout.trim()], [0, '300000']);
});

for (const [way, flags] of [
  ['directly', []],
  ['over the relay', ['--disable-direct-connections']],
] as const)
  test(`ping says how packets reach the agent: ${way}`, async () => {
    const path = flags.length === 0 ? /ms direct \S+:\d+\n/ : /via relay Coder Embedded Relay/;
    const { code, stdout } = await invoke(['ping', 'dev', '-n', '8', '--wait', '200ms', ...flags], env());
    assert.equal(code, 0, stdout);
    assert.match(stdout, path);
    if (flags.length > 0) assert.doesNotMatch(stdout, /direct/);
  });

test('forwards TCP and UDP', async (t) => {
  const sent = Buffer.alloc(1_000_000, 'through the tailnet ');
  // it ends the connection: upstream's tunnels have no half-close
  const app = createServer(async (socket) => {
    const parts: Buffer[] = [];
    for await (const part of socket.iterator({ destroyOnReturn: false })) {
      parts.push(part as Buffer);
      if (Buffer.concat(parts).length === sent.length) break;
    }
    socket.end(Buffer.concat(parts));
  });
  app.listen(0, '127.0.0.1');
  await once(app, 'listening');
  t.after(() => app.close());
  const dns = createSocket('udp4', (message, from) => dns.send(`<${message}>`, from.port, from.address));
  dns.bind(0, '127.0.0.1');
  await once(dns, 'listening');
  t.after(() => dns.close());
  const { port } = app.address() as AddressInfo;
  const forward = start(t, 'port-forward', 'dev', '-p', `0:${port},0:9`, '--udp', `127.0.0.1:0:${dns.address().port}`);
  await eventually('it is ready', async () => forward.said.includes('Ready!'));
  const [first, dead, datagrams] = [...forward.said.matchAll(/127\.0\.0\.1:(\d+) ->/g)].map(([, at]) => Number(at));

  const socket = connect(first!, '127.0.0.1');
  socket.write(sent);
  assert.ok((await buffer(socket)).equals(sent));
  await assert.rejects(text(connect(dead!, '127.0.0.1')), /ECONNRESET/);
  await eventually('the reason is on the screen', async () => /Port 9: .*refuses the connection/.test(forward.said));

  const peer = createSocket('udp4');
  t.after(() => peer.close());
  const answered = once(peer, 'message');
  peer.send('datagram', datagrams!, '127.0.0.1');
  assert.equal(String((await answered)[0]), '<datagram>');
});

for (const direction of ['down', 'up'])
  test(`speedtest measures bytes ${direction}`, async () => {
    const { code, stdout } = await invoke(
      ['speedtest', 'dev', '--direction', direction, '-t', '1s', '-o', 'json'],
      env(),
    );
    assert.equal(code, 0);
    const { overall } = JSON.parse(stdout) as { overall: { throughput_mbits: number } };
    assert.ok(overall.throughput_mbits > 1, stdout);
  });

test('a session ends when its token is revoked', async (t) => {
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { body: { token_name: 'short' } });
  const interrupt = new AbortController();
  t.after(() => interrupt.abort());
  let said = '';
  const running = invoke(
    ['ssh', 'dev', '--', 'echo begun; sleep 300'],
    { ...env(), CODER_SESSION_TOKEN: made.body.key },
    '',
    (soFar) => {
      said = soFar;
    },
    interrupt.signal,
  );
  await eventually('it has begun', async () => said.includes('begun'));
  const id = made.body.key.split('-')[0]!;
  assert.equal((await server.api('DELETE', `/users/me/keys/${id}`)).status, 204);
  const { code, stderr } = await running;
  assert.notEqual(code, 0);
  assert.match(stderr, /connection/i);
});
