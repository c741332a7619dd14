import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fillIn, machinesText, ofOneMachine } from './report.ts';

const page = 'before\n<!-- runs -->\nold\n<!-- end of runs -->\nafter\n';

test('replaces a table and keeps the rest of the page', () => {
  const filled = fillIn(page, 'runs', '| new $& |');
  assert.equal(filled, 'before\n<!-- runs -->\n| new $& |\n<!-- end of runs -->\nafter\n');
  assert.equal(fillIn(filled, 'runs', 'old'), page);
});

test('an empty place can be filled', () => {
  const empty = '<!-- runs -->\n<!-- end of runs -->\n';
  assert.equal(fillIn(empty, 'runs', 'x'), '<!-- runs -->\nx\n<!-- end of runs -->\n');
});

test('rejects a page without the place', () => {
  assert.throws(() => fillIn(page, 'builds', ''), /no place for "builds"/);
});

test('names the runs on another machine than most', () => {
  const runs = [
    { tier: 'a', machine: 'small' },
    { tier: 'b', machine: 'large' },
    { tier: 'c', machine: 'large' },
    { tier: 'd', machine: 'large' },
  ];
  assert.equal(machinesText(runs), 'large, and on small (a)');
  assert.equal(machinesText(runs.slice(1)), 'large');
});

test('compares processor times only of the machine with most runs', () => {
  const runs = [
    { machine: 'small', cores: 1 },
    { machine: 'large', cores: 2 },
    { machine: 'large', cores: 3 },
  ];
  assert.deepEqual(
    ofOneMachine(runs).map(({ cores }) => cores),
    [2, 3],
  );
  assert.deepEqual(ofOneMachine([]), []);
});
