import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gather } from './gather.ts';

const TIMEOUT = { timeout: 20_000 };

const rejected = (text: string) => Object.assign(new Error(text), { code: '22021' });

/** Runs double their numbers. They can be held, and the database can be away or reject numbers. */
function makeDoubles({ everyMs = 0, maxItems = 100 } = {}) {
  const runs: number[][] = [];
  const state = { away: false, hold: Promise.resolve(), bad: new Set<number>() };
  const doubles = gather<number, number>({
    everyMs,
    maxItems,
    async run(items) {
      runs.push([...items]);
      await state.hold;
      if (state.away) throw Object.assign(new Error('the database is away'), { code: 'ECONNREFUSED' });
      if (items.some((item) => state.bad.has(item))) throw rejected('invalid byte sequence');
      return items.map((item) => item * 2);
    },
  });
  return { doubles, runs, state };
}

test('shares one run among the calls of a turn, and the next among those that come meanwhile', TIMEOUT, async () => {
  const { doubles, runs, state } = makeDoubles();
  const held = Promise.withResolvers<void>();
  state.hold = held.promise;
  const first = [doubles.add('a', 1), doubles.add('b', 2)];
  await nextTurn();
  await nextTurn();
  const second = [doubles.add('c', 3), doubles.add('d', 4)];
  await nextTurn();
  assert.deepEqual(runs, [[1, 2]], 'one run at a time');
  held.resolve();
  assert.deepEqual(await Promise.all([...first, ...second]), [2, 4, 6, 8]);
  assert.deepEqual(runs, [
    [1, 2],
    [3, 4],
  ]);
  // a call right after the last run has ended starts another one
  assert.equal(await doubles.add('a', 5), 10);
  assert.equal(await doubles.add('a', 6), 12);
});

test('keeps the order of one key, each item in a separate run', TIMEOUT, async () => {
  const { doubles, runs } = makeDoubles();
  const ended: number[] = [];
  await Promise.all(
    [
      ['a', 1],
      ['a', 2],
      ['b', 3],
      ['a', 4],
    ].map(async ([key, item]) => ended.push(await doubles.add(key as string, item as number))),
  );
  assert.deepEqual(runs, [[1, 3], [2], [4]]);
  assert.deepEqual(ended, [2, 6, 4, 8]);
});

test('rejects only the caller whose data the database rejects', TIMEOUT, async () => {
  const { doubles, state } = makeDoubles();
  state.bad.add(3);
  const results = await Promise.allSettled([1, 2, 3, 4, 5].map((n) => doubles.add(`k${n}`, n)));
  assert.deepEqual(
    results.map((result) => (result.status === 'fulfilled' ? result.value : (result.reason as Error).message)),
    [2, 4, 'invalid byte sequence', 8, 10],
  );
});

test('rejects callers while the database is away, but not those of a part that was written', TIMEOUT, async () => {
  const { doubles, state } = makeDoubles();
  state.away = true;
  const away = await Promise.allSettled([doubles.add('a', 1), doubles.add('b', 2)]);
  for (const one of away) assert.match(String(one.status === 'rejected' && one.reason), /the database is away/);
  state.away = false;
  assert.equal(await doubles.add('a', 1), 2, 'a later call works');

  // the data of one is rejected. Of the two halves, the first is written. Then the connection fails
  state.bad.add(3);
  const halves = [1, 2, 3, 4].map((n) => doubles.add(`k${n}`, n));
  void halves[0]!.then(() => {
    state.away = true;
  });
  assert.deepEqual(
    (await Promise.allSettled(halves)).map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'rejected'],
  );
});

test('runs at most so often, immediately after a pause, and with at most so many items', TIMEOUT, async () => {
  const { doubles, runs } = makeDoubles({ everyMs: 150, maxItems: 2 });
  const started = performance.now();
  assert.equal(await doubles.add('a', 1), 2);
  assert.ok(performance.now() - started < 150, 'the first does not wait');
  await Promise.all([2, 3, 4].map((n) => doubles.add(`k${n}`, n)));
  assert.deepEqual(runs, [[1], [2, 3], [4]]);
  assert.ok(performance.now() - started >= 290, `${performance.now() - started} ms`);
});

test('runs what waits when it closes, and does not wait for a database that hangs', TIMEOUT, async () => {
  const { doubles } = makeDoubles({ everyMs: 60_000 });
  await doubles.add('a', 1);
  const waits = doubles.add('a', 2);
  await nextTurn();
  await doubles.close();
  assert.equal(await waits, 4);

  const hanging = makeDoubles();
  const held = Promise.withResolvers<void>();
  hanging.state.hold = held.promise;
  const hangs = hanging.doubles.add('a', 1);
  await hanging.doubles.close();
  held.resolve();
  assert.equal(await hangs, 2);
});
