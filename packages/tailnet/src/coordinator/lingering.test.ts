import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LingeringPairs, MAX_LINGERING } from './lingering.ts';

test('pairs last 15 minutes from the last time that they were added, in either order', () => {
  let now = 0;
  const pairs = new LingeringPairs(() => now);
  pairs.add('a', 'b');
  now = 600_000;
  pairs.add('c', 'a');
  now = 900_000;
  assert.deepEqual([pairs.hasPair('b', 'a'), pairs.hasPair('a', 'c'), pairs.hasPair('c', 'a')], [false, true, true]);
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((key) => pairs.hasKey(key)),
    [true, false, true, false],
  );
  pairs.delete('a', 'c');
  assert.equal(pairs.hasPair('c', 'a'), false);
});

test('deleting a key deletes its pairs and no other', () => {
  const pairs = new LingeringPairs(() => 0);
  pairs.add('a', 'b');
  pairs.add('c', 'a');
  pairs.add('b', 'c');
  pairs.deleteKey('a');
  assert.deepEqual([pairs.hasPair('a', 'b'), pairs.hasPair('a', 'c'), pairs.hasPair('c', 'b')], [false, false, true]);
  assert.equal(pairs.size, 1);
});

test('pairs that ended, and the oldest of too many, take no memory', () => {
  let now = 0;
  const pairs = new LingeringPairs(() => now);
  for (let i = 0; i < MAX_LINGERING + 100; i++) pairs.add(`${i}`, 'x');
  assert.equal(pairs.size, MAX_LINGERING);
  assert.deepEqual([pairs.hasPair('0', 'x'), pairs.hasPair('x', '100')], [false, true]);
  now = 900_000;
  pairs.add('a', 'b');
  assert.equal(pairs.size, 1);
});
