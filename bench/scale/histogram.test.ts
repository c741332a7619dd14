import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Histogram } from './histogram.ts';

const of = (times: readonly number[]) => {
  const histogram = new Histogram();
  for (const ms of times) histogram.record(ms);
  return histogram;
};

test('percentiles are at most 2 % above the exact ones', () => {
  const times = Array.from({ length: 1_000 }, (_, i) => (i + 1) * 0.37);
  const histogram = of(times);
  for (const share of [0.01, 0.5, 0.9, 0.99, 1]) {
    const exact = times[Math.ceil(times.length * share) - 1]!;
    const found = histogram.percentile(share)!;
    assert.ok(found >= exact * 0.999 && found <= exact * 1.021, `${share}: ${found} for ${exact}`);
  }
});

test('merges processes with different times as if one had recorded all', () => {
  // the mean of the two 99th percentiles would be 505 ms
  const fast = Array.from({ length: 990 }, () => 10);
  const slow = Array.from({ length: 10 }, () => 1_000);
  const parts = [of(fast), of(slow)].map((part) => JSON.parse(JSON.stringify(part)));
  const merged = Histogram.of(...parts);
  assert.deepEqual(merged.toJSON(), of([...fast, ...slow]).toJSON());
  assert.equal(merged.count, 1_000);
  assert.ok(merged.percentile(0.99)! < 10.3);
  assert.equal(merged.percentile(0.991), 1_000);
  assert.equal(merged.maxMs, 1_000);
});

test('has no percentile without times', () => {
  assert.equal(new Histogram().percentile(0.99), undefined);
  assert.equal(Histogram.of().percentile(0.5), undefined);
});

test('keeps times of zero', () => {
  assert.equal(of([0, 0]).percentile(0.5), 0);
});
