import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyOwners, MAX_KEPT_KEYS, MAX_KEPT_KEYS_PER_OWNER } from './key-owners.ts';

test('a key belongs to its first owner until 15 minutes after its last holder released it', () => {
  let now = 0;
  const owners = new KeyOwners(() => now);
  assert.equal(owners.allows('k', 'eve'), true);
  owners.hold('k', 'ann');
  owners.hold('k', 'ann');
  owners.release('k');
  now = 1_000_000;
  assert.deepEqual([owners.allows('k', 'ann'), owners.allows('k', 'eve')], [true, false]);
  owners.release('k');
  now = 1_899_999;
  assert.deepEqual([owners.allows('k', 'ann'), owners.allows('k', 'eve')], [true, false]);
  owners.hold('k', 'ann');
  owners.release('k');
  now = 2_000_000;
  assert.equal(owners.allows('k', 'eve'), false, 'counted from the last release');
  now = 2_799_999;
  assert.equal(owners.allows('k', 'eve'), true);
  owners.hold('k', 'eve');
  assert.deepEqual([owners.allows('k', 'ann'), owners.allows('k', 'eve')], [false, true]);
});

test('a key that has a holder is not forgotten', () => {
  let now = 0;
  const owners = new KeyOwners(() => now);
  owners.hold('k', 'ann');
  owners.hold('k', 'ann');
  owners.release('k');
  owners.hold('again', 'ann');
  owners.release('again');
  owners.hold('again', 'ann');
  now = 900_000;
  owners.hold('other', 'ann');
  owners.release('other');
  assert.deepEqual([owners.allows('k', 'eve'), owners.allows('again', 'eve')], [false, false]);
});

test('released keys take a limited amount of memory, and an owner displaces only its own', () => {
  let now = 0;
  const owners = new KeyOwners(() => now);
  const use = (key: string, owner: string) => {
    owners.hold(key, owner);
    owners.release(key);
  };
  use('k', 'ann');
  for (let i = 0; i < 2 * MAX_KEPT_KEYS; i++) use(`eve ${i}`, 'eve');
  assert.equal(owners.size, 1 + MAX_KEPT_KEYS_PER_OWNER);
  assert.equal(owners.allows('k', 'eve'), false);
  for (let i = 0; i < 2 * MAX_KEPT_KEYS; i++) use(`many ${i}`, `owner ${i}`);
  assert.equal(owners.size, MAX_KEPT_KEYS);
  now = 900_000;
  use('k', 'ann');
  assert.equal(owners.size, 1);
});
