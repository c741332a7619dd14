import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainStyle, styleOf } from '../framework/style.ts';
import { terminalText } from '../framework/terminal-text.ts';
import { columnOf } from './output.ts';
import { type Layout, layOutTable, PLAIN_LAYOUT } from './table.ts';

const columns = ['workspace', 'template', 'status', 'created at', 'tags'].map(columnOf);
const row = (workspace: string) => [
  workspace,
  'a-template-with-a-long-name',
  'Running',
  '2026-01-31T10:00:00.123Z',
  'map[owner: scope:organization]',
];
const terminal = (width: number, more: Partial<Layout> = {}): Layout => ({
  width,
  style: plainStyle,
  chosen: false,
  ...more,
});
const longest = (text: string) => Math.max(...text.split('\n').map((line) => [...line].length));

test('prints every cell whole to a pipe', () => {
  const { text, hidden } = layOutTable(columns, [row('admin/dev')], PLAIN_LAYOUT);
  assert.deepEqual(hidden, []);
  for (const cell of row('admin/dev')) assert.ok(text.includes(cell));
});

test('fits a terminal and keeps names whole', () => {
  const name = 'administrator/machine-learning-pipeline-2026';
  for (const width of [70, 80, 100, 120]) {
    const { text } = layOutTable(columns, [row(name), row('admin/dev')], terminal(width));
    assert.ok(longest(text) <= width, `${width}: ${text}`);
    assert.ok(text.includes(name));
    assert.match(text, /Running/);
  }
});

test('shows relative times before it shortens cells, and shortens before it leaves columns out', () => {
  const wide = layOutTable(columns, [row('admin/dev')], terminal(97));
  assert.match(wide.text, /\d+d[^ ]* ago .*map\[owner: scope:organization\]/);
  assert.ok(wide.text.includes('a-template-with-a-long-name'));
  const narrow = layOutTable(columns, [row('admin/dev')], terminal(75));
  assert.match(narrow.text, /…/);
  assert.deepEqual(narrow.hidden, []);
  const narrower = layOutTable(columns, [row('admin/dev')], terminal(48));
  assert.deepEqual(narrower.hidden, ['TAGS']);
});

test('keeps the columns that the user has named', () => {
  const { text, hidden } = layOutTable(columns, [row('admin/dev')], terminal(40, { chosen: true }));
  assert.deepEqual(hidden, []);
  assert.ok(longest(text) <= 40, text);
});

test('colors only cells of a status, and only in a terminal with color', () => {
  const env = { TERM: 'xterm' };
  const colored = layOutTable(columns, [row('Running')], terminal(200, { style: styleOf({ isTTY: true }, env) }));
  assert.equal(terminalText(colored.text).split('\u001b[32mRunning\u001b[39m').length, 2);
  for (const [output, environment] of [
    [{ isTTY: true }, { NO_COLOR: '1', TERM: 'xterm' }],
    [{ isTTY: true }, { TERM: 'dumb' }],
    [{}, { TERM: 'xterm', FORCE_COLOR: '1' }],
  ] as const) {
    const { text } = layOutTable(columns, [row('Running')], terminal(200, { style: styleOf(output, environment) }));
    assert.ok(!text.includes('\u001b'));
  }
});
