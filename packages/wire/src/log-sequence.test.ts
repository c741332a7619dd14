import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatLogNumbers, freshLines, type LogNumber, parseLogNumbers } from './log-sequence.ts';

const numbers = (...given: [string, number][]): LogNumber[] =>
  given.map(([origin, sequence]) => ({ origin, sequence }));

test("writes a batch's numbers as series and reads them back", () => {
  const batch = numbers(['a', 1], ['a', 2], ['b', 7], ['a', 3], ['a', 9]);
  assert.equal(formatLogNumbers(batch), 'a:1+2,b:7+1,a:3+1,a:9+1');
  assert.deepEqual(parseLogNumbers(formatLogNumbers(batch), 5), batch);
});

test('ignores numbers that do not fit the batch or are invalid', () => {
  const wrong: [string | undefined, number][] = [
    ['', 0],
    [undefined, 1],
    ['a:1+2', 1],
    ['a:1+2', 3],
    ['a:1+999999999', 1_000],
    ['a:-1+1', 1],
    ['a b:1+1', 1],
    [`${'a'.repeat(65)}:1+1`, 1],
    ['a:1+1,', 1],
  ];
  for (const [text, count] of wrong) assert.equal(parseLogNumbers(text, count), undefined, `${text}`);
});

test('a line is fresh once, in whatever batches it arrives; an origin may be named like a property of Object', () => {
  const first = freshLines(['1', '2'], numbers(['toString', 1], ['toString', 2]), {});
  assert.deepEqual([first.fresh, first.positions], [['1', '2'], { toString: 2 }]);
  const again = freshLines(['2', '3', 'x'], numbers(['toString', 2], ['toString', 3], ['b', 1]), first.positions);
  assert.deepEqual([again.fresh, again.positions], [['3', 'x'], { toString: 3, b: 1 }]);
});

test('lines of more origins than are kept are stored unchecked', () => {
  const many = numbers(...Array.from({ length: 600 }, (_, i): [string, number] => [`o${i}`, 1]));
  const { fresh, positions } = freshLines(many, many, {});
  assert.equal(fresh.length, 600);
  assert.equal(Object.keys(positions).length, 512);
});
