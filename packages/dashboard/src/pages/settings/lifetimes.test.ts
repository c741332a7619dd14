import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lifetimeChoices, nanoseconds } from './lifetimes.ts';

test('offers lifetimes up to the longest that the server permits', () => {
  assert.deepEqual(lifetimeChoices(nanoseconds(7)), [1, 7]);
  assert.deepEqual(lifetimeChoices(nanoseconds(45)), [1, 7, 30, 45]);
  assert.deepEqual(lifetimeChoices(nanoseconds(36_500)), [1, 7, 30, 90, 365]);
});

test('offers none below a day', () => {
  assert.deepEqual(lifetimeChoices(nanoseconds(0.5)), []);
});
