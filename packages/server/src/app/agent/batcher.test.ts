import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { createBatcher } from './batcher.ts';

/** A batch of sums whose writes can fail and block. */
function makeBatch(most = 3) {
  const written: Record<string, number>[] = [];
  const state = { away: false, hold: Promise.resolve() };
  const batch = createBatcher<number>({
    what: 'sums',
    everyMs: 3_600_000,
    most,
    merge: (earlier, later) => earlier + later,
    async write(items) {
      await state.hold;
      if (state.away) throw new Error('the database is away');
      written.push(Object.fromEntries(items));
    },
    log: silentLogger,
  });
  return { batch, written, state };
}

test('merges new items with those that could not be written, in order and bounded', async () => {
  const { batch, written, state } = makeBatch();
  batch.add('a', 1);
  batch.add('a', 2);
  state.away = true;
  const held = Promise.withResolvers<void>();
  state.hold = held.promise;
  const flushed = batch.flush();
  batch.add('a', 10);
  batch.add('b', 5);
  held.resolve();
  await flushed;
  assert.deepEqual(written, []);
  // two keys are kept, so there is room for one more
  batch.add('c', 1);
  batch.add('d', 1);
  batch.add('b', 1);
  state.away = false;
  await batch.flush();
  assert.deepEqual(written, [{ a: 13, b: 6, c: 1 }]);
  await batch.flush();
  assert.equal(written.length, 1, 'nothing to write');
  await batch.close();
});

test('runs one write at a time, and writes the rest on close', async () => {
  const { batch, written, state } = makeBatch();
  const held = Promise.withResolvers<void>();
  state.hold = held.promise;
  batch.add('a', 1);
  const first = batch.flush();
  batch.add('a', 2);
  const second = batch.flush();
  const closed = batch.close();
  held.resolve();
  await Promise.all([first, second, closed]);
  assert.deepEqual(written, [{ a: 1 }, { a: 2 }]);
});

test('drops an item that the database rejects, and writes the others', async () => {
  const written: string[] = [];
  let away = false;
  const batch = createBatcher<number>({
    what: 'sums',
    everyMs: 3_600_000,
    most: 100,
    merge: (earlier, later) => earlier + later,
    async write(items) {
      if (away) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' });
      if (items.has('bad')) throw Object.assign(new Error('invalid byte sequence'), { code: '22021' });
      if (items.has('lost')) away = true;
      written.push(...items.keys());
    },
    log: silentLogger,
  });
  for (const key of ['a', 'b', 'bad', 'c', 'd', 'e']) batch.add(key, 1);
  await batch.flush();
  assert.deepEqual(written, ['a', 'b', 'c', 'd', 'e']);
  // the connection fails during the search: written items are not written again
  for (const key of ['bad', 'lost', 'f', 'g', 'h', 'i']) batch.add(key, 1);
  await batch.flush();
  assert.deepEqual(written.slice(5), ['lost']);
  away = false;
  await batch.flush();
  assert.deepEqual(written.slice(6), ['f', 'g', 'h', 'i']);
  await batch.close();
});
