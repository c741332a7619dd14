import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ansiParts, lastOverwrite, plainText } from './ansi.ts';

const E = '\u001b';

test('splits a line by its colors', () => {
  assert.deepEqual(ansiParts(`${E}[32mok${E}[0m package ${E}[1;31mfailed${E}[22m now`), [
    { text: 'ok', tone: 'good' },
    { text: ' package ' },
    { text: 'failed', tone: 'bad', bold: true },
    { text: ' now', tone: 'bad' },
  ]);
  assert.deepEqual(ansiParts(`${E}[38;5;196mred${E}[38;2;0;200;0mgreen${E}[39mplain`), [
    { text: 'red', tone: 'bad' },
    { text: 'green', tone: 'good' },
    { text: 'plain' },
  ]);
});

test('removes control characters', () => {
  assert.equal(plainText(`${E}[2J${E}]8;;https://x${E}\\link${E}]8;;${E}\\${E}(B\u0007!`), 'link!');
  assert.deepEqual(ansiParts('<b>&amp;</b>'), [{ text: '<b>&amp;</b>' }]);
  assert.equal(lastOverwrite('10%\r55%\r100%\r'), '100%');
});

test('reads a long line in linear time', () => {
  const line = `${E}[`.repeat(200_000);
  const start = performance.now();
  ansiParts(line);
  assert.ok(performance.now() - start < 10_000);
});
