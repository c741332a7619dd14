import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { type Sealed, storedText } from '../../db/sealed.ts';
import { createVault } from './vault.ts';

const key = () => randomBytes(32).toString('base64');

test('decrypts what it has encrypted, with any of its keys', () => {
  const [old, next] = [key(), key()];
  const sealed = createVault([old]).seal('gho_secret ü');
  assert.doesNotMatch(storedText(sealed), /secret/);
  assert.notEqual(createVault([old]).seal('gho_secret ü'), sealed, 'never the same text twice');
  const both = createVault([next, old]);
  assert.equal(both.open(sealed), 'gho_secret ü');
  assert.equal(both.keyOf(sealed), both.fingerprints[1]);
  assert.equal(both.keyOf(both.seal('x')), both.fingerprints[0]);
  assert.throws(() => createVault([next]).open(sealed), /which is not configured/);
});

test('detects every change of a stored secret', () => {
  const vault = createVault([key()]);
  const sealed = storedText(vault.seal('token'));
  const open = (text: string) => vault.open(text as unknown as Sealed);
  const start = sealed.lastIndexOf(':') + 1;
  const bytes = Buffer.from(sealed.slice(start), 'base64');
  for (const at of bytes.keys()) {
    const changed = Buffer.from(bytes);
    changed[at]! ^= 1;
    assert.throws(() => open(`${sealed.slice(0, start)}${changed.toString('base64')}`), /was changed/);
  }
  assert.throws(() => open(sealed.slice(0, start)), /was changed/);
});

test('without keys, texts stay as they are', () => {
  const vault = createVault([]);
  assert.equal(vault.seal('plain'), 'plain');
  assert.equal(createVault([key()]).open(vault.seal('plain')), 'plain');
  assert.equal(createVault([key()]).seal(''), '');
});

test('rejects keys of another length without showing them', () => {
  assert.throws(
    () => createVault([key(), 'c2VjcmV0']),
    (err: Error) =>
      /Key 2 of --external-token-encryption-keys has 6 bytes/.test(err.message) && !/c2V/.test(err.message),
  );
});
