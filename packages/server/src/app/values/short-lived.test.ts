import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Kept, ShortLived } from './short-lived.ts';

test('contains the items that were added and not deleted, in any order', () => {
  const kept = new ShortLived<Kept & { id: number }>();
  const items = Array.from({ length: 100 }, (_, id) => ({ id, at: -1 }));
  const expected = new Set<number>();
  let seed = 7;
  for (let step = 0; step < 5_000; step++) {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    const item = items[seed % items.length]!;
    if (expected.delete(item.id)) kept.delete(item);
    else {
      // deleting an absent item must not affect the others
      kept.delete(item);
      kept.add(item);
      expected.add(item.id);
    }
    assert.equal(kept.size, expected.size);
  }
  assert.deepEqual(new Set(kept.all().map(({ id }) => id)), expected);
});
