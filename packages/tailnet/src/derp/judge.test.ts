// This project's relay with the public client of DERP, and its client with the public relay.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { KeyPair } from '../keys.ts';
import { RelayServer } from '../testing/relay-server.ts';
import { DerpClient } from './client.ts';
import { dialRelay } from './dial.ts';
import { GONE, MAX_PACKET_BYTES } from './frames.ts';
import { DerpRelay } from './relay.ts';

const judge = process.env['RELAY_JUDGE'] ?? '';
const skip = judge === '' && 'set RELAY_JUDGE to the path that scripts/build-relay-judge.sh prints';

/** What both public clients saw: 6 sizes of packets in 2 directions, 30 in order, and the relay's own messages. */
const ALL = { equal: 12, inOrder: 30, pong: true, stranger: true, gone: true };

async function judgedRelay(t: TestContext, env: NodeJS.ProcessEnv) {
  const relay = new DerpRelay({ policy: { introduced: () => true, permits: () => true } });
  t.after(() => relay.close());
  const server = await RelayServer.start(t, relay);
  const { stdout } = await promisify(execFile)(judge, ['clients', `${server.url}/derp`], { env, timeout: 90_000 });
  return { saw: JSON.parse(stdout), upgrades: [...new Set(server.upgrades)] };
}

test('the public client reaches its peer over this relay', { skip }, async (t) => {
  const { saw, upgrades } = await judgedRelay(t, {});
  assert.deepEqual(saw, ALL);
  assert.deepEqual(upgrades, ['DERP']);
});

test('the public client reaches its peer over this relay by a WebSocket', { skip }, async (t) => {
  const { saw, upgrades } = await judgedRelay(t, { TS_DEBUG_DERP_WS_CLIENT: 'true' });
  assert.deepEqual(saw, ALL);
  assert.deepEqual(upgrades, ['websocket']);
});

test('this client reaches its peer over the public relay', { skip }, async (t) => {
  const relay = spawn(judge, ['relay'], { env: {}, stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => relay.kill());
  const [url] = (await once(createInterface({ input: relay.stdout }), 'line')) as [string];
  const join = async () => {
    const keys = KeyPair.generate();
    let received = Promise.withResolvers<{ source: Buffer; packet: Buffer }>();
    const gone = Promise.withResolvers<{ key: Buffer; reason: number }>();
    const client = new DerpClient(await dialRelay(url, { signal: AbortSignal.timeout(20_000) }), {
      keys,
      onPacket: (source, packet) => received.resolve({ source, packet }),
      onPeerGone: (key, reason) => gone.resolve({ key, reason }),
    });
    t.after(() => client.close());
    await client.ready;
    const next = async () => {
      const packet = await received.promise;
      received = Promise.withResolvers();
      return packet;
    };
    return { client, keys, next, gone: gone.promise };
  };
  const [a, b] = [await join(), await join()];
  for (const size of [1, 1_280, MAX_PACKET_BYTES]) {
    for (const [from, to] of [
      [a, b],
      [b, a],
    ] as const) {
      const packet = randomBytes(size);
      assert.ok(from.client.send(to.keys.publicKey, packet));
      assert.deepEqual(await to.next(), { source: from.keys.publicKey, packet });
    }
  }
  // as the health check of this server does
  assert.ok(a.client.send(a.keys.publicKey, Buffer.from('to itself')));
  assert.equal((await a.next()).packet.toString(), 'to itself');
  assert.ok((await a.client.ping()) < 20_000);
  b.client.close();
  assert.deepEqual(await a.gone, { key: b.keys.publicKey, reason: GONE.disconnected });
});
