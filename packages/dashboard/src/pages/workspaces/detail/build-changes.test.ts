import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parameterChanges } from './build-changes.ts';

test('puts what changed between two builds first', () => {
  const before = [
    { name: 'cpu', value: '2' },
    { name: 'old', value: 'x' },
    { name: 'region', value: 'eu' },
  ];
  const now = [
    { name: 'region', value: 'eu' },
    { name: 'cpu', value: '4' },
    { name: 'gpu', value: 'true' },
  ];
  assert.deepEqual(
    parameterChanges(now, before).map(({ name, change }) => `${name} ${change}`),
    ['cpu changed', 'gpu added', 'old removed', 'region same'],
  );
  assert.deepEqual(
    parameterChanges(now, undefined).map(({ change }) => change),
    ['same', 'same', 'same'],
  );
});
