import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isEmpty, showValue } from './values.ts';

test('shows values of changed fields as people read them', () => {
  assert.equal(showValue('default_ttl', 0), 'off');
  assert.equal(showValue('default_ttl', 3_600_000_000_000), '1 h');
  assert.equal(showValue('quota_allowance', 3_600), '3600');
  assert.equal(showValue('rbac_roles', ['owner', 'auditor']), 'owner, auditor');
  assert.equal(showValue('group_acl', { a: 'use' }), '{\n  "a": "use"\n}');
  assert.deepEqual(['', null, [], 0, false].map(isEmpty), [true, true, true, false, false]);
});
