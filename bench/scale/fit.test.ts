import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fitLine, growthOfCost } from './fit.ts';

const near = (found: number, wanted: number) => assert.ok(Math.abs(found - wanted) < 1e-9, `${found}, not ${wanted}`);

test('finds the line on which all points are', () => {
  const { base, each, error } = fitLine([1_000, 2_000, 10_000].map((x) => ({ x, y: 120 + 0.04 * x })));
  near(base, 120);
  near(each, 0.04);
  near(error, 0);
});

test('reports the largest relative distance', () => {
  const { error } = fitLine([
    { x: 1, y: 10 },
    { x: 2, y: 30 },
    { x: 3, y: 30 },
  ]);
  assert.ok(error > 0.1 && error < 0.5, `${error}`);
});

test('a small deployment counts as much as a large one', () => {
  const points = [
    { x: 0, y: 100 },
    { x: 1_000, y: 200 },
    { x: 100_000, y: 20_000 },
  ];
  const { base } = fitLine(points);
  assert.ok(Math.abs(base - 100) < 30, `${base}`);
});

test('rejects points that make no line', () => {
  assert.throws(() => fitLine([{ x: 1, y: 1 }]), /two different places/);
  const same = [
    { x: 5, y: 1 },
    { x: 5, y: 2 },
  ];
  assert.throws(() => fitLine(same), /two different places/);
  const zero = [
    { x: 1, y: 0 },
    { x: 2, y: 2 },
  ];
  assert.throws(() => fitLine(zero), /above zero/);
});

test('the growth of the cost is 1 on a line and larger on a curve', () => {
  const at = (f: (x: number) => number) => [4, 1, 2].map((x) => ({ x, y: f(x) }));
  near(growthOfCost(at((x) => 3 * x + 7))!, 1);
  near(growthOfCost(at((x) => x * x))!, 2);
  assert.equal(growthOfCost(at((x) => x).slice(1)), undefined);
});
