import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RateBudget } from './rate-budget.ts';

test('bytes come again with time, up to a burst, and what was taken beyond it is owed', () => {
  const budget = new RateBudget(32_000, 0);
  assert.equal(budget.left(0), 1_000);
  assert.equal(budget.take(999, 0), true);
  assert.equal(budget.take(1, 0), false);
  assert.equal(budget.take(32_000, 0), false);
  assert.equal(budget.left(1_000), 0);
  assert.equal(budget.left(1_010), 320);
  assert.equal(budget.left(9_000), 1_000);
  budget.limit(100, 9_000, 7);
  assert.equal(budget.left(99_000), 7);
});
