import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { createCertificate } from '@ropewalk/kit/certificate';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { KeyPair } from '../keys.ts';
import { mapOf, RelayServer } from '../testing/relay-server.ts';
import { DerpClient } from './client.ts';
import { type DialRelayOptions, dialRelay, measureRelay, RelayDialError, regionDialer } from './dial.ts';
import { DerpRelay } from './relay.ts';

function relayOf(t: TestContext): DerpRelay {
  const relay = new DerpRelay({ policy: { introduced: () => true, permits: () => true } });
  t.after(() => relay.close());
  return relay;
}

/** Exchanges a packet between two clients that are connected with these options. */
async function exchange(t: TestContext, url: string, options: DialRelayOptions) {
  const [a, b] = [KeyPair.generate(), KeyPair.generate()];
  const received: string[] = [];
  const client = async (keys: KeyPair) => {
    const onPacket = (_source: Buffer, packet: Buffer) => received.push(packet.toString());
    const client = new DerpClient(await dialRelay(url, options), { keys, onPacket });
    t.after(() => client.close());
    await client.ready;
    return client;
  };
  const [from] = [await client(a), await client(b)];
  from.send(b.publicKey, Buffer.from('x'.repeat(2_000)));
  await eventually(() => received.length === 1, 'the packet');
  assert.equal(received[0], 'x'.repeat(2_000));
}

/** A server that answers each connection with these bytes, or never. */
async function rawServer(t: TestContext, answer: string | undefined): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    if (answer !== undefined) socket.once('data', () => socket.write(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}

test('reaches a relay by an upgrade and by a WebSocket, over http and https', async (t) => {
  const plain = await RelayServer.start(t, relayOf(t));
  await exchange(t, plain.url, {});
  await exchange(t, `${plain.url}/some/path`, { websocket: true });
  assert.deepEqual(plain.upgrades, ['DERP', 'DERP', 'websocket', 'websocket']);
  const certified = createCertificate({ name: 'localhost', hosts: ['localhost'], validMs: 60_000 });
  const secure = await RelayServer.start(t, relayOf(t), { tls: certified });
  const tls = { ca: certified.cert, servername: 'localhost' };
  await exchange(t, secure.url, { tls });
  await exchange(t, secure.url, { tls, websocket: true });
  await assert.rejects(dialRelay(secure.url), { name: 'RelayDialError' });
  assert.ok((await measureRelay(plain.url)) < 5_000);
  assert.ok((await measureRelay(secure.url, { tls })) < 5_000);
});

test('reports whether a WebSocket may work where the upgrade does not', async (t) => {
  const server = await RelayServer.start(t, relayOf(t));
  server.treatment = 'reject';
  await assert.rejects(dialRelay(server.url), { name: 'RelayDialError', status: 400, requiresWebSocket: true });
  server.treatment = 'fail';
  await assert.rejects(dialRelay(server.url), { status: 502, requiresWebSocket: false });
  const other = await rawServer(t, 'HTTP/1.1 101 x\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\n');
  await assert.rejects(dialRelay(other), { status: 101, requiresWebSocket: true });
  const garbage = await rawServer(t, 'SSH-2.0-x\r\n');
  await assert.rejects(dialRelay(garbage), { status: undefined, requiresWebSocket: false });
  await assert.rejects(measureRelay(garbage), RelayDialError);
  await assert.rejects(measureRelay(other, { timeoutMs: 50 }), RelayDialError);
  await assert.rejects(dialRelay('ftp://127.0.0.1'), RelayDialError);
});

test('ends an attempt after its timeout and when its signal aborts', async (t) => {
  const silent = await rawServer(t, undefined);
  for (const websocket of [false, true]) {
    await assert.rejects(dialRelay(silent, { websocket, timeoutMs: 20 }), {
      name: 'RelayDialError',
      message: /did not answer within 20 ms/,
    });
    const reason = new Error('enough');
    await assert.rejects(dialRelay(silent, { websocket, signal: AbortSignal.abort(reason) }), reason);
    const abort = new AbortController();
    const dialed = dialRelay(silent, { websocket, signal: abort.signal });
    setImmediate(() => abort.abort(reason));
    await assert.rejects(dialed, reason);
  }
  const abort = new AbortController();
  const measured = measureRelay(silent, { signal: abort.signal });
  setImmediate(() => abort.abort(new Error('enough')));
  await assert.rejects(measured, { message: 'enough' });
});

test('tries the relays of a region in order', async (t) => {
  const server = await RelayServer.start(t, relayOf(t));
  const region = mapOf({ 1: server.url }).get(1)!;
  const [working] = region.servers;
  const absent = { ...working!, url: await rawServer(t, 'HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n') };
  const { signal } = new AbortController();
  const stunOnly = { name: 'stun', hostName: '127.0.0.1', stunPort: 3478 };
  const servers = [stunOnly, absent, working!];
  (await regionDialer()({ ...region, servers }, { websocket: false, signal })).destroy();
  assert.deepEqual(server.upgrades, ['DERP']);
  const none = regionDialer()({ ...region, servers: [stunOnly] }, { websocket: false, signal });
  await assert.rejects(none, { name: 'RelayDialError', message: /no relay/ });
});
