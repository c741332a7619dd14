import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mappingRows, withoutPair, withPair } from './preview.ts';

const targets = [
  { value: '1', label: 'Developers', claim: 'devs' },
  { value: '2', label: 'Operators', claim: 'ops' },
];

test('lists mapped and seen values with their results', () => {
  const draft = { mapping: { blue: ['1', '9'] }, filter: '^(d|n|b)', autoCreate: true };
  const rows = mappingRows(draft, ['Devs', 'ops', 'new'], targets);
  assert.deepEqual(
    rows.map(({ value, seen, gets, otherwise }) => [value, seen, gets.map(({ label }) => label), otherwise]),
    [
      ['blue', false, ['Developers', undefined], 'blue, a new group'],
      ['Devs', true, [], 'Nothing: the filter excludes it'],
      ['new', true, [], 'new, a new group'],
      ['ops', true, [], 'Nothing: the filter excludes it'],
    ],
  );
  const [row] = mappingRows({ mapping: {}, autoCreate: false }, ['DEVS'], targets);
  assert.equal(row!.otherwise, 'Developers');
  const [unknown] = mappingRows({ mapping: {}, filter: '(?i)x', autoCreate: true }, ['X'], []);
  assert.equal(unknown!.otherwise, 'X, a new group, if the filter includes it');
});

test('adds and removes pairs', () => {
  const one = withPair({}, 'a', '1');
  const two = withPair(withPair(one, 'a', '2'), 'a', '2');
  assert.deepEqual([one, two], [{ a: ['1'] }, { a: ['1', '2'] }]);
  assert.deepEqual(withoutPair(withoutPair(two, 'a', '1'), 'a', '2'), {});
});
