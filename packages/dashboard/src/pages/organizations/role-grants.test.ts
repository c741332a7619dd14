import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Permission } from '@ropewalk/contract';
import { grantsOf, permissionsOf, rowsOf } from './role-grants.ts';

const permission = (resource_type: string, action: string, negate = false) =>
  ({ resource_type, action, negate }) as Permission;

test('reads what a role grants: all types of resources, except those with their own entries', () => {
  const grants = grantsOf([
    permission('*', 'read'),
    permission('*', 'ssh'),
    permission('workspace', 'read'),
    permission('template', 'use', true),
  ]);
  assert.ok(grants.has('template:read') && grants.has('workspace:read') && grants.has('workspace_dormant:ssh'));
  assert.ok(!grants.has('workspace:ssh'), 'its own entries replace those of all types');
  assert.ok(!grants.has('template:ssh'), 'no such action');
  assert.ok(!grants.has('template:use'), 'denied, not granted');
});

test('writes the same permissions back, also those that the matrix does not list by itself', () => {
  const list = [permission('template', 'read'), permission('api_key', 'delete')];
  const grants = grantsOf(list);
  assert.deepEqual(permissionsOf(grants), list);
  assert.equal(rowsOf(grants).at(-1), 'api_key');
});
