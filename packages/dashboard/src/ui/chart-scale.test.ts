import assert from 'node:assert/strict';
import { test } from 'node:test';
import { labelled, runsOf, ticksUpTo } from './chart-scale.ts';

test('numbers the lines of a chart with whole numbers that cover the largest value', () => {
  assert.deepEqual(ticksUpTo(0), [0, 1]);
  assert.deepEqual(ticksUpTo(1), [0, 1]);
  assert.deepEqual(ticksUpTo(4), [0, 1, 2, 3, 4]);
  assert.deepEqual(ticksUpTo(11), [0, 5, 10, 15]);
  assert.deepEqual(ticksUpTo(20), [0, 5, 10, 15, 20]);
  assert.deepEqual(ticksUpTo(74), [0, 20, 40, 60, 80]);
  for (let max = 1; max < 100_000; max = Math.ceil(max * 1.3)) {
    const ticks = ticksUpTo(max);
    assert.ok(ticks.every(Number.isInteger) && ticks.at(-1)! >= max && ticks.length <= 6, `${max}: ${ticks}`);
  }
});

test('labels days evenly, always with the last one', () => {
  assert.deepEqual(labelled(0, 400, 80), []);
  assert.deepEqual(labelled(1, 400, 80), [0]);
  assert.deepEqual(labelled(5, 400, 80), [0, 1, 2, 3, 4]);
  assert.deepEqual(labelled(60, 400, 80), [11, 23, 35, 47, 59]);
  assert.deepEqual(labelled(3, 0, 80), [2]);
});

test('finds the runs of values between gaps', () => {
  assert.deepEqual(runsOf([1, 2, undefined, 0, undefined]), [
    [0, 1],
    [3, 3],
  ]);
  assert.deepEqual(runsOf([undefined]), []);
});
