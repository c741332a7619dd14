import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashPassword, verifyPassword } from './password.ts';

test('a hash verifies its own password only', async () => {
  const hash = await hashPassword('correct horse battery');
  assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/);
  assert.equal(await verifyPassword(hash, 'correct horse battery'), true);
  assert.equal(await verifyPassword(hash, 'correct horse batterz'), false);
  assert.equal(await verifyPassword('', ''), false, 'a user without a password');
});

// until 2026-11-25, another implementation made the hashes
test('a hash that an older version stored verifies its password', async () => {
  const stored = '$argon2id$v=19$m=19456,t=2,p=1$c2l4dGVlbiBieXRlcyBvZg$t9P/JyQkVQqsAYVPDXxyDZoUpDRG6K1ciCpmog0+p6A';
  assert.equal(await verifyPassword(stored, 'pässword 🐎'), true);
  assert.equal(await verifyPassword(stored, 'pässword'), false);
});
