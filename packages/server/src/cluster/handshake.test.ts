import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Greetings, greet, ReplicaKey } from './handshake.ts';

const now = new Date('2026-11-26T12:00:00Z');
const later = (seconds: number) => new Date(now.getTime() + seconds * 1_000);
const [a, b] = [
  { id: crypto.randomUUID(), key: new ReplicaKey(crypto.randomUUID()) },
  { id: crypto.randomUUID(), key: new ReplicaKey(crypto.randomUUID()) },
];
const publicKeyOf = async (id: string) => [a, b].find((server) => server.id === id)?.key.published.publicKey;
const hello = (key = a.key, to = b.id) => greet(key, { from: a.id, to, now });

test('two servers prove to each other who they are', async () => {
  const asked = hello();
  const accepted = await new Greetings(b.id, b.key).check(asked.headers, later(2), publicKeyOf);
  assert.equal(accepted.from, a.id);
  assert.ok(asked.isAnswered(accepted.headers, b.key.published.publicKey));
  assert.ok(!asked.isAnswered(accepted.headers, a.key.published.publicKey), 'another server');
  assert.ok(!hello().isAnswered(accepted.headers, b.key.published.publicKey), 'the answer to another request');
  assert.ok(!asked.isAnswered({}, b.key.published.publicKey));
});

test('rejects requests of others, for others, of another time, and the same request again', async () => {
  const greetings = new Greetings(b.id, b.key);
  const check = (headers: Record<string, string>, at = now) => greetings.check(headers, at, publicKeyOf);
  await assert.rejects(check(hello(new ReplicaKey(crypto.randomUUID())).headers), /not a server of this deployment/);
  await assert.rejects(check({ ...hello().headers, 'platform-replica-from': crypto.randomUUID() }), /not a server/);
  await assert.rejects(check({ ...hello().headers, 'platform-replica-nonce': 'other' }), /not a server/);
  await assert.rejects(check(hello(a.key, a.id).headers), /Another server answers at this address/);
  await assert.rejects(check({}), /Another server answers/);
  for (const seconds of [-61, 61]) await assert.rejects(check(hello().headers, later(seconds)), /clocks/);
  const { headers } = hello();
  await check(headers);
  await assert.rejects(check(headers), /was sent before/);
  await assert.rejects(check(headers, later(59)), /was sent before/);
  await check(hello().headers, later(59));
});
