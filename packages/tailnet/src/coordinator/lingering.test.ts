import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LingeringPairs, MAX_LINGERING } from './lingering.ts';

/** A peer whose key is its name in capitals. */
const peer = (name: string) => ({ name, key: name.toUpperCase() });

test('pairs last 15 minutes from the last time that they were added, in either order', () => {
  let now = 0;
  const pairs = new LingeringPairs(() => now);
  pairs.add(peer('a'), peer('b'));
  pairs.add(peer('a'), peer('c'));
  pairs.addKey(peer('a'));
  now = 600_000;
  pairs.add(peer('c'), peer('a'));
  assert.equal(pairs.hasKey('A'), true);
  now = 900_000;
  assert.deepEqual([pairs.hasPair('B', 'A'), pairs.hasPair('A', 'C'), pairs.hasPair('C', 'A')], [false, true, true]);
  assert.deepEqual([pairs.hasKey('A'), pairs.hasKey('C')], [false, false]);
  pairs.deleteBetween('a', 'c');
  assert.equal(pairs.hasPair('C', 'A'), false);
});

test('deleting a peer deletes its pairs and no other', () => {
  const pairs = new LingeringPairs(() => 0);
  pairs.addKey(peer('a'));
  pairs.add(peer('a'), peer('b'));
  pairs.add(peer('c'), peer('a'));
  pairs.add(peer('b'), peer('c'));
  pairs.deletePeer('a');
  assert.deepEqual([pairs.hasPair('A', 'B'), pairs.hasPair('A', 'C'), pairs.hasPair('C', 'B')], [false, false, true]);
  assert.equal(pairs.hasKey('A'), false);
  assert.equal(pairs.size, 1);
});

test('two peers with the same key have separate pairs', () => {
  const pairs = new LingeringPairs(() => 0);
  for (const name of ['first', 'second']) pairs.add({ name, key: 'K' }, peer('b'));
  pairs.deleteBetween('b', 'second');
  assert.equal(pairs.hasPair('K', 'B'), true);
  pairs.deletePeer('first');
  assert.equal(pairs.hasPair('K', 'B'), false);
  assert.equal(pairs.size, 0);
});

test('pairs that ended, and the oldest of too many, take no memory', () => {
  let now = 0;
  const pairs = new LingeringPairs(() => now);
  for (let i = 0; i < MAX_LINGERING + 100; i++) pairs.add(peer(`i${i}`), peer('x'));
  assert.equal(pairs.size, MAX_LINGERING);
  assert.deepEqual([pairs.hasPair('I0', 'X'), pairs.hasPair('X', 'I100')], [false, true]);
  now = 900_000;
  pairs.add(peer('a'), peer('b'));
  assert.equal(pairs.size, 1);
  pairs.add(peer('a'), peer('c'));
  now += 600_000;
  pairs.add(peer('a'), peer('b'));
  now += 300_000;
  pairs.add(peer('a'), peer('d'));
  assert.equal(pairs.size, 2, 'a pair that was added again ends last');
});
