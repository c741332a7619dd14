import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contains, sha256 } from './apply.ts';
import { mergeConditions, sameStatus } from './conditions.ts';

test('a live object with defaults contains what was applied', () => {
  const desired = { spec: { replicas: 2, containers: [{ name: 'a', env: [] }], labels: { x: '1' } } };
  const live = {
    metadata: { uid: '1' },
    spec: {
      replicas: 2,
      strategy: 'RollingUpdate',
      containers: [{ name: 'a', tty: false }],
      labels: { x: '1', y: '2' },
    },
  };
  assert.ok(contains(live, desired));
  for (const changed of [
    { spec: { replicas: 3 } },
    { spec: { containers: [{ name: 'b' }] } },
    { spec: { containers: [{ name: 'a' }, { name: 'b' }] } },
    { spec: { labels: { x: '2' } } },
    { spec: { missing: 'x' } },
  ])
    assert.equal(contains(live, changed), false, JSON.stringify(changed));
});

test('a checksum does not depend on the order of fields', () => {
  assert.equal(sha256({ a: 1, b: { c: 2, d: 3 } }), sha256({ b: { d: 3, c: 2 }, a: 1 }));
  assert.notEqual(sha256({ a: 1 }), sha256({ a: 2 }));
  assert.match(sha256({}), /^[0-9a-f]{64}$/);
});

test('the time of a condition changes only with its status', () => {
  const at = (second: number) => new Date(Date.UTC(2030, 0, 1, 0, 0, second));
  const first = mergeConditions([], [{ type: 'Ready', status: 'False', reason: 'Waiting', message: 'a' }], 1, at(1));
  assert.deepEqual(first, [
    {
      type: 'Ready',
      status: 'False',
      reason: 'Waiting',
      message: 'a',
      lastTransitionTime: '2030-01-01T00:00:01Z',
      observedGeneration: 1,
    },
  ]);
  const second = mergeConditions(first, [{ type: 'Ready', status: 'False', reason: 'Other', message: 'b' }], 2, at(2));
  assert.equal(second[0]!.lastTransitionTime, '2030-01-01T00:00:01Z');
  assert.equal(second[0]!.observedGeneration, 2);
  const third = mergeConditions(second, [{ type: 'Ready', status: 'True', reason: 'Up', message: '' }], 2, at(3));
  assert.equal(third[0]!.lastTransitionTime, '2030-01-01T00:00:03Z');
  const other = mergeConditions(third, [{ type: 'Key', status: 'True', reason: 'Up', message: '' }], 2, at(4));
  assert.deepEqual(
    other.map(({ type }) => type),
    ['Key', 'Ready'],
  );
});

test('an undefined field equals an absent one in a status', () => {
  assert.ok(sameStatus({ a: 1, b: undefined }, { a: 1 }));
  assert.ok(!sameStatus({ a: 1 }, { a: 2 }));
});
