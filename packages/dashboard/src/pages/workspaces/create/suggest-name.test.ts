import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nameProblem, suggestName } from './suggest-name.ts';

test('suggests a valid name that is not in use', () => {
  const first = suggestName(new Set(), () => 0);
  assert.equal(nameProblem(first), undefined);
  assert.equal(
    suggestName(new Set([first]), () => 0),
    `${first}-2`,
  );
  assert.equal(
    suggestName(new Set([first, `${first}-2`]), () => 0),
    `${first}-3`,
  );
  for (const random of [0.1, 0.5, 0.999]) assert.equal(nameProblem(suggestName(new Set(), () => random)), undefined);
});

test('reports names that the server rejects', () => {
  for (const name of ['', 'a--b', '-a', 'a b', 'ä', 'new', 'x'.repeat(33)]) assert.ok(nameProblem(name), name);
  for (const name of ['a', 'A-1', 'x'.repeat(32)]) assert.equal(nameProblem(name), undefined, name);
});
