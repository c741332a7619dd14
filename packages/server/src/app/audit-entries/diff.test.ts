import assert from 'node:assert/strict';
import { test } from 'node:test';
import { auditDiff } from './diff.ts';

test('compares only tracked fields, under upstream’s names and in its units', () => {
  const before = { name: 'a', default_ttl_ms: 3_600_000, updated_at: new Date(0), autostart_days: ['monday'] };
  const after = { ...before, name: 'b', default_ttl_ms: 0, updated_at: new Date(1), autostart_days: ['sunday'] };
  assert.deepEqual(auditDiff('template', before, after), {
    name: { old: 'a', new: 'b', secret: false },
    default_ttl: { old: 3_600_000_000_000, new: 0, secret: false },
    autostart_block_days_of_week: {
      old: ['tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'],
      new: ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'],
      secret: false,
    },
  });
});

test('shows that a secret changed, but neither of its values', () => {
  const diff = auditDiff('user', { hashed_password: 'old hash' }, { hashed_password: 'new hash' });
  assert.deepEqual(diff, { hashed_password: { old: '', new: '', secret: true } });
  assert.deepEqual(auditDiff('user', { hashed_password: 'same' }, { hashed_password: 'same' }), {});
});

test('compares a created or deleted resource with nothing', () => {
  const row = { id: 'x', username: 'ada', name: '', deleted: false, rbac_roles: ['owner'], email: 'a@example.com' };
  assert.deepEqual(auditDiff('user', undefined, row), {
    id: { old: '', new: 'x', secret: false },
    email: { old: '', new: 'a@example.com', secret: false },
    username: { old: '', new: 'ada', secret: false },
    rbac_roles: { old: null, new: ['owner'], secret: false },
  });
  assert.deepEqual(auditDiff('organization', { name: 'acme', is_default: true }, undefined), {
    name: { old: 'acme', new: '', secret: false },
    is_default: { old: true, new: false, secret: false },
  });
});

test('cuts long texts', () => {
  const { readme } = auditDiff('template_version', { readme: '' }, { readme: 'x'.repeat(10_000) });
  assert.equal((readme!.new as string).length, 4_097);
});
