import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AssignableRoles, Permission } from '@ropewalk/contract';
import { grantsOf, permissionsOf, rowsOf, summaryOf } from './role-grants.ts';

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

test('sums up what a role grants, and what it grants only for own resources', () => {
  const summary = (organization_permissions: Permission[], organization_member_permissions: Permission[] = []) =>
    summaryOf({ organization_permissions, organization_member_permissions } as AssignableRoles);
  assert.equal(summary([]), '0 permissions');
  assert.equal(summary([permission('template', 'read')], [permission('workspace', 'ssh')]), '1 permission');
  assert.equal(summary([], [permission('workspace', 'ssh')]), '1 permission for own resources');
  assert.equal(
    summary([], [permission('workspace', 'ssh'), permission('workspace', 'read')]),
    '2 permissions for own resources',
  );
});
