import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diffFiles, diffLines, hunksOf, linesOf, sideBySide } from './diff.ts';

const marks = { same: ' ', removed: '-', added: '+' };
const show = (before: string, after: string) =>
  diffLines(before.replaceAll(' ', '\n'), after.replaceAll(' ', '\n')).map(({ kind, text }) => marks[kind] + text);

test('finds the smallest set of changed lines', () => {
  assert.deepEqual(show('a b c', 'a b c'), [' a', ' b', ' c']);
  assert.deepEqual(show('a b c', 'a x c'), [' a', '-b', '+x', ' c']);
  assert.deepEqual(show('', 'a b'), ['+a', '+b']);
  assert.deepEqual(show('a b', ''), ['-a', '-b']);
  assert.equal(show('a b c a b b a', 'c b a b a c').filter((line) => !line.startsWith(' ')).length, 5);
});

test('the lines of a random diff rebuild both texts', () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % below;
  };
  for (let round = 0; round < 300; round++) {
    const text = () => Array.from({ length: random(14) }, () => 'abc'[random(3)]).join('\n');
    const [before, after] = [text(), text()];
    const lines = diffLines(before, after);
    const side = (without: string) => lines.filter(({ kind }) => kind !== without).map((line) => line.text);
    assert.deepEqual(side('added'), linesOf(before));
    assert.deepEqual(side('removed'), linesOf(after));
    const numbers = lines.flatMap(({ newLine }) => newLine ?? []);
    assert.deepEqual(
      numbers,
      numbers.map((_, at) => at + 1),
    );
  }
});

test('two large texts without a common line differ as a whole, in bounded time', () => {
  const text = (letter: string) => Array.from({ length: 10_000 }, (_, at) => letter + at).join('\n');
  const started = performance.now();
  assert.equal(diffLines(text('a'), text('b')).length, 20_000);
  assert.ok(performance.now() - started < 5_000);
});

test('hunks keep three lines of context and say what was left out', () => {
  const lines = Array.from({ length: 40 }, (_, at) => String(at));
  const changed = lines.map((line, at) => (at === 10 || at === 14 || at === 35 ? `${line}!` : line));
  const hunks = hunksOf(diffLines(lines.join('\n'), changed.join('\n')));
  assert.deepEqual(
    hunks.map(({ skipped, lines: [first], lines: all }) => [skipped, first!.text, all.length]),
    [
      [7, '7', 13],
      [14, '32', 8],
    ],
  );
});

test('side by side, removed lines face added ones', () => {
  const rows = sideBySide(diffLines('a\nb\nc', 'a\nx\ny\nc'));
  assert.deepEqual(
    rows.map(({ left, right }) => [left?.text, right?.text]),
    [
      ['a', 'a'],
      ['b', 'x'],
      [undefined, 'y'],
      ['c', 'c'],
    ],
  );
});

test('lists changed, added and removed files', () => {
  const before = new Map([
    ['main.tf', 'a\n'],
    ['old.sh', 'x\n'],
    ['same.md', '#\n'],
    ['logo.png', undefined],
  ]);
  const after = new Map([
    ['main.tf', 'b\n'],
    ['new.sh', 'y\n'],
    ['same.md', '#\n'],
    ['logo.png', undefined],
  ]);
  const list = (same: boolean) => diffFiles(before, after, () => same).map(({ path, kind }) => `${kind} ${path}`);
  assert.deepEqual(list(true), ['changed main.tf', 'added new.sh', 'removed old.sh']);
  assert.deepEqual(list(false), ['changed logo.png', 'changed main.tf', 'added new.sh', 'removed old.sh']);
});
