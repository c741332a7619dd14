import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drawChart, stepOf } from './curves.ts';

const chart = (ys: readonly number[]) => ({
  title: 'Memory <1 GB & "more"',
  x: 'agents',
  y: 'MB',
  series: [{ name: 'server', points: ys.map((y, i) => ({ x: (i + 1) * 1_000, y })) }],
});

test('steps of an axis are 1, 2 or 5 times a power of ten', () => {
  assert.deepEqual(
    [10_000, 7, 0.9, 100, 26].map((highest) => Number(stepOf(highest).toPrecision(6))),
    [2_000, 2, 0.2, 20, 10],
  );
});

test('a point is where its value is on the axes', () => {
  const svg = drawChart(chart([0, 50, 100]), 'light');
  const circles = [...svg.matchAll(/<circle cx="([\d.]+)" cy="([\d.]+)" r="3.5"/g)].map(([, x, y]) => [
    Number(x),
    Number(y),
  ]);
  const [bottom, middle, top] = circles.map(([, y]) => y!);
  assert.equal(bottom, 268);
  assert.equal(top, 72);
  assert.equal(middle, (268 + 72) / 2);
  const [a, b, c] = circles.map(([x]) => x!);
  assert.ok(Math.abs(c! - b! - (b! - a!)) < 0.2);
});

test('escapes texts, and differs only in colors between themes', () => {
  const light = drawChart(chart([1, 2]), 'light');
  assert.match(light, /Memory &lt;1 GB &amp; &quot;more&quot;/);
  const plain = (svg: string) => svg.replaceAll(/#[0-9a-f]{6}/g, '#');
  const dark = drawChart(chart([1, 2]), 'dark');
  assert.notEqual(dark, light);
  assert.equal(plain(dark), plain(light));
});

test('rejects values that cannot be drawn', () => {
  assert.throws(() => drawChart(chart([]), 'light'), /no points/);
  assert.throws(() => drawChart(chart([1, Number.NaN]), 'light'), /not a number/);
  assert.throws(() => drawChart(chart([-1]), 'light'), /not a number/);
});
