import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAtLeast, parseVersion } from './version.ts';

test('compares versions by number, without regard to pre-release tags', () => {
  assert.ok(isAtLeast('1.10.0', '1.9.9'));
  assert.ok(isAtLeast('v1.1.0-rc1', '1.1.0'));
  assert.ok(isAtLeast('2', '1.13.0'));
  assert.ok(!isAtLeast('1.3.99', '1.4.0'));
  assert.ok(!isAtLeast('unknown', '0.0.0'));
  assert.deepEqual(parseVersion('2.19')?.parts, 2);
});
