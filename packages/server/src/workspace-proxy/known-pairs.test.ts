import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RelayNews, RelayReport } from '@ropewalk/wire/proxy-link';
import { KEPT_MS, KnownPairs } from './known-pairs.ts';

const [A, B, C] = ['a', 'b', 'c'].map((letter) => letter.repeat(64)) as [string, string, string];
const NODE = { isIntroduced: true, isOwned: true };

function setup() {
  const clock = { now: 5_000 };
  const changed: string[] = [];
  const pairs = new KnownPairs({ monotonic: () => clock.now }, (key) => changed.push(key));
  const reports: RelayReport[] = [];
  const begin = () => pairs.begin((report) => reports.push(report));
  const take = (...news: RelayNews[]) => {
    for (const one of news) pairs.receive(one);
  };
  /** Both keys are nodes that may exchange packets. */
  const permit = () => {
    for (const key of [A, B]) void pairs.arrived(key);
    take({ key: A, ...NODE }, { pair: [A, B], isPermitted: true }, { key: B, ...NODE });
  };
  const both = () => [pairs.permits(A, B), pairs.permits(B, A)];
  return { clock, changed, pairs, reports, begin, take, permit, both };
}

const settled = async (promise: Promise<void> | undefined) =>
  Promise.race([promise?.then(() => true), new Promise((resolve) => setImmediate(resolve, false))]);

test('a client waits for the answer about its key, and not without a stream to a server', async () => {
  const { pairs, begin, take, reports, changed } = setup();
  assert.equal(pairs.arrived(A), undefined);
  assert.deepEqual([pairs.introduced(A), pairs.owned(A)], [false, true], 'it reaches nobody');
  const end = begin();
  assert.deepEqual(reports, [{ key: A, isPresent: true }], 'it is reported later');
  const waiting = pairs.arrived(B);
  assert.equal(await settled(waiting), false);
  take({ key: B, isIntroduced: false, isOwned: false });
  assert.equal(await settled(waiting), true);
  assert.deepEqual([pairs.introduced(B), pairs.owned(B)], [false, false], 'a stranger');
  assert.deepEqual(changed, [B]);
  pairs.departed(B);
  assert.deepEqual([pairs.owned(B), pairs.size], [true, 1], 'nothing is known of it any more');
  const another = pairs.arrived(C);
  end();
  assert.equal(await settled(another), true, 'the stream has ended');
  assert.equal(pairs.owned(C), true);
  pairs.departed(C);
  assert.equal(pairs.size, 1, 'a stranger that is gone is forgotten, also without a stream');
});

test('a pair counts in both directions until the server or the time ends it', () => {
  const { pairs, clock, begin, take, permit, both, reports } = setup();
  begin();
  permit();
  assert.deepEqual([both(), pairs.introduced(A), pairs.permits(A, C)], [[true, true], true, false]);
  take({ pair: [B, A], isPermitted: false });
  assert.deepEqual(both(), [false, false]);
  take({ pair: [A, B], isPermitted: true });
  clock.now += KEPT_MS - 1;
  take({ isAlive: true });
  clock.now += KEPT_MS - 1;
  assert.deepEqual(both(), [true, true]);
  clock.now += 1;
  assert.deepEqual([both(), pairs.introduced(A)], [[false, false], false], 'the server was silent for too long');
  take({ isAlive: true });
  assert.deepEqual(both(), [true, true]);
  pairs.departed(B);
  assert.deepEqual(reports.at(-1), { key: B, isPresent: false });
  void pairs.arrived(B);
  assert.deepEqual(both(), [false, false], 'the server says it again');
  take({ pair: [A, C], isPermitted: true });
  assert.equal(pairs.permits(A, C), false, 'nobody asked for that');
});

test('pairs outlive the loss of a server until another one knows the nodes', () => {
  const { pairs, clock, begin, take, permit, both } = setup();
  const end = begin();
  permit();
  end();
  pairs.departed(B);
  assert.equal(pairs.arrived(B), undefined);
  assert.deepEqual([both(), pairs.size], [[true, true], 2], 'also for a node that comes back');
  clock.now += KEPT_MS / 2;
  begin();
  // the new server does not know the nodes yet
  for (const key of [A, B]) take({ key, isIntroduced: false, isOwned: false });
  assert.deepEqual(both(), [true, true]);
  take({ key: A, ...NODE });
  assert.deepEqual(both(), [true, true], 'only one of them');
  take({ pair: [A, B], isPermitted: true }, { key: B, ...NODE });
  clock.now += KEPT_MS / 2;
  take({ isAlive: true });
  assert.deepEqual(both(), [true, true], 'a pair of the new server');
});

test('an earlier pair ends when the new server knows both nodes and does not permit it, or with the time', () => {
  for (const isKnown of [true, false]) {
    const { clock, begin, take, permit, both } = setup();
    const end = begin();
    permit();
    end();
    begin();
    for (const key of [A, B]) take({ key, isIntroduced: false, isOwned: isKnown });
    assert.deepEqual(both(), [!isKnown, !isKnown]);
    clock.now += KEPT_MS;
    take({ isAlive: true });
    assert.deepEqual(both(), [false, false]);
  }
});
