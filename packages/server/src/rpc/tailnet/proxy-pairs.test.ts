import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { eventually } from '@ropewalk/testkit/wait';
import { framedMessages, frameMessage } from '@ropewalk/wire/framed-messages';
import { MAX_RELAY_MESSAGE, type RelayNews } from '@ropewalk/wire/proxy-link';
import type { TailnetHub, TailnetParts } from './hub.ts';
import { MAX_KEYS, ProxyPairs } from './proxy-pairs.ts';

const keyOf = (number: number) => number.toString(16).padStart(64, '0');
const [A, B, C] = [keyOf(1), keyOf(2), keyOf(3)] as [string, string, string];

/** The stream of a proxy to a server whose coordinator knows `nodes`, and permits `pairs`. */
function setup(t: TestContext, { isRead = true } = {}) {
  const nodes = new Set<string>();
  const pairs: [string, string][] = [];
  let changed: (keys: readonly string[]) => void = () => {};
  let loads = 0;
  const knowledge = {
    introduced: (key: string) => nodes.has(key),
    owned: (key: string) => nodes.has(key),
    permits: () => false,
    partnersOf: (key: string) => pairs.flatMap(([a, b]) => (a === key ? [b] : b === key ? [a] : [])),
  };
  const hub: Pick<TailnetHub, 'load' | 'onKeys'> = {
    load: async () => {
      loads++;
      return { knowledge } as unknown as TailnetParts;
    },
    onKeys: (listener) => {
      changed = listener;
      return () => {
        changed = () => {};
      };
    },
  };
  const [near, far] = duplexPair();
  t.after(() => near.destroy());
  near.on('error', () => {});
  const served = new ProxyPairs(hub, far).serve().catch((err: Error) => err.message);
  const news: RelayNews[] = [];
  let alive = 0;
  const read = async () => {
    for await (const message of framedMessages(near, MAX_RELAY_MESSAGE)) {
      const one = JSON.parse(message.toString()) as RelayNews;
      if ('isAlive' in one) alive++;
      else news.push(one);
    }
  };
  if (isRead) void read().catch(() => {});
  const report = (key: string, isPresent = true) =>
    near.write(frameMessage(Buffer.from(JSON.stringify({ key, isPresent }))));
  /** What has come since the last call, once there is so much. */
  const next = async (count: number) => {
    await eventually(`${count} messages`, () => news.length >= count);
    return news.splice(0);
  };
  const change = (keys: string[]) => changed(keys);
  return { nodes, pairs, near, far, served, report, next, change, loads: () => loads, alive: () => alive };
}

const stranger = (key: string) => ({ key, isIntroduced: false, isOwned: false });
const node = (key: string) => ({ key, isIntroduced: true, isOwned: true });

test('names the pairs of keys that are present, and their ends', async (t) => {
  const { nodes, pairs, report, next, change, loads } = setup(t);
  for (const key of [A, B, C]) nodes.add(key);
  pairs.push([A, B], [A, C]);
  assert.equal(loads(), 0, 'the coordinator is loaded for the first key');
  report(A);
  assert.deepEqual(await next(1), [node(A)], 'no partner is present');
  report(B);
  assert.deepEqual(await next(2), [{ pair: [B, A], isPermitted: true }, node(B)]);
  change([A, B]);
  pairs.splice(0, 1);
  change([A]);
  assert.deepEqual(await next(1), [{ pair: [A, B], isPermitted: false }], 'only what has changed');
  pairs.push([A, B]);
  change([C]);
  // a pair may end with the time: everything is compared each second
  assert.deepEqual(await next(1), [{ pair: [A, B], isPermitted: true }]);
  nodes.delete(B);
  pairs.splice(0);
  assert.deepEqual(await next(2), [{ pair: [A, B], isPermitted: false }, stranger(B)]);
  report(keyOf(9));
  assert.deepEqual(await next(1), [stranger(keyOf(9))]);
  assert.equal(loads(), 1);
});

test('a key that has left and comes again gets its pairs again', async (t) => {
  const { nodes, pairs, report, next, change } = setup(t);
  for (const key of [A, B]) nodes.add(key);
  pairs.push([A, B]);
  report(A);
  report(B);
  await next(3);
  report(B, false);
  report(C);
  assert.deepEqual(await next(1), [stranger(C)]);
  change([A, B]);
  report(B);
  assert.deepEqual(await next(2), [{ pair: [B, A], isPermitted: true }, node(B)]);
  // a proxy that repeats a key receives the answer again, because its relay may have forgotten the answer
  report(B);
  assert.deepEqual(await next(1), [node(B)]);
});

test('a proxy has a limited number of keys, and sends only keys', { timeout: 60_000 }, async (t) => {
  const { report, next, served, far } = setup(t);
  for (let i = 0; i <= MAX_KEYS; i++) report(keyOf(i));
  const answers = await next(MAX_KEYS);
  report(keyOf(MAX_KEYS));
  report(keyOf(0), false);
  report(keyOf(MAX_KEYS + 1));
  assert.deepEqual([...answers.slice(MAX_KEYS), ...(await next(1))], [stranger(keyOf(MAX_KEYS + 1))]);
  report(A.slice(1));
  assert.match(`${await served}`, /64 hexadecimal digits/);
  assert.equal(far.destroyed, true);
});

test('a proxy that does not read loses its stream', async (t) => {
  const { nodes, report, change, served, near, far } = setup(t, { isRead: false });
  near.pause();
  report(A);
  await eventually('the key is known', () => far.writableLength > 0 || near.readableLength > 0);
  for (let i = 0; i < 200_000 && !far.destroyed; i++) {
    if (i % 2 === 0) nodes.add(A);
    else nodes.delete(A);
    change([A]);
  }
  assert.equal(far.destroyed, true);
  await served;
});

test('the server gives a sign of life each second', async (t) => {
  const { alive } = setup(t);
  await eventually('two of them', () => alive() >= 2);
});
