import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastError, MAX_EXCERPT_LINES } from './log-errors.ts';
import type { LogLine } from './log-store.ts';

const log = (...texts: [level: string, text: string][]): LogLine[] =>
  texts.map(([level, text], at) => ({ id: at + 1, at: '2026-01-31T12:00:00Z', level, section: 'Apply', text }));

test('finds the last error and its places, without blank lines, frames and quoted source', () => {
  const lines = log(
    ['error', 'Error: the first'],
    ['info', 'Creating…'],
    ['error', '╷'],
    ['error', '│ Error: local-exec provisioner error'],
    ['error', '│   on main.tf line 19:'],
    ['error', '│   19:   provisioner "local-exec" {'],
    ['error', '│ '],
    ['error', '│ \u001b[31mno capacity\u001b[0m'],
    ['error', '╵'],
    ['info', 'Cleaning up'],
  );
  assert.deepEqual(
    lastError(lines).map(({ index, text }) => [index, text]),
    [
      [3, 'Error: local-exec provisioner error'],
      [4, '  on main.tf line 19:'],
      [7, 'no capacity'],
    ],
  );
});

test('keeps the beginning and the end of a long error, and says where lines are missing', () => {
  const output = Array.from({ length: 60 }, (_, at): [string, string] => ['error', `layer ${at}`]);
  const found = lastError(
    log(['error', 'Error: first'], ['error', 'Error: second'], ['error', '  on main.tf'], ...output),
  );
  assert.equal(found.length, MAX_EXCERPT_LINES);
  assert.deepEqual(
    [found[0]!.text, found[1]!.text, found[2]!.text, found.at(-1)!.text],
    ['Error: second', '  on main.tf', 'layer 56', 'layer 59'],
  );
  assert.deepEqual(
    found.map(({ afterGap }) => afterGap),
    [false, false, true, false, false, false],
  );
  assert.equal(found.at(-1)!.index, 62);
});

test('finds nothing in a log without errors', () => {
  assert.deepEqual(lastError(log(['info', 'a'], ['warn', 'b'])), []);
});
