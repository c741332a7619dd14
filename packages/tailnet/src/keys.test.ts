import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  decodeNodeKey,
  encodeNodeKey,
  formatDiscoKey,
  formatNodeKey,
  KeyPair,
  parseDiscoKey,
  parseNodeKey,
  sameSecret,
} from './keys.ts';
import { fromHex, hex, vectors } from './testing/vectors.ts';

const recorded = vectors<Record<'aPrivate' | 'aPublic' | 'bPrivate' | 'bPublic', string>>('nacl-box');

test('a private key gives its public key, and two pairs agree on one secret', () => {
  const a = KeyPair.fromPrivateKey(fromHex(recorded.aPrivate));
  const b = KeyPair.fromPrivateKey(fromHex(recorded.bPrivate));
  assert.equal(hex(a.publicKey), recorded.aPublic);
  assert.equal(hex(b.publicKey), recorded.bPublic);
  assert.equal(hex(a.agree(b.publicKey)), hex(b.agree(a.publicKey)));
  const fresh = KeyPair.generate();
  assert.equal(fresh.publicKey.length, 32);
  assert.equal(hex(fresh.agree(a.publicKey)), hex(a.agree(fresh.publicKey)));
  assert.notEqual(hex(fresh.publicKey), hex(KeyPair.generate().publicKey));
});

test('public keys that make every secret zero, and keys of another length, agree on nothing', () => {
  const pair = KeyPair.generate();
  const one = Buffer.alloc(32);
  one[0] = 1;
  const ofOrderEight = fromHex('e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800');
  for (const key of [Buffer.alloc(32), one, ofOrderEight, Buffer.alloc(31), Buffer.alloc(33)])
    assert.equal(pair.agree(key), undefined, key.toString('hex'));
  assert.throws(() => KeyPair.fromPrivateKey(Buffer.alloc(31)), RangeError);
});

test('each textual and binary form is read back, and no other form is', () => {
  const key = fromHex(recorded.aPublic);
  assert.equal(formatNodeKey(key), `nodekey:${recorded.aPublic}`);
  assert.equal(formatDiscoKey(key), `discokey:${recorded.aPublic}`);
  assert.equal(hex(encodeNodeKey(key)), `6e70${recorded.aPublic}`);
  assert.deepEqual(parseNodeKey(formatNodeKey(key)), key);
  assert.deepEqual(parseDiscoKey(formatDiscoKey(key)), key);
  assert.deepEqual(decodeNodeKey(encodeNodeKey(key)), key);
  const digits = recorded.aPublic;
  for (const text of ['', digits, `discokey:${digits}`, `nodekey:${digits}0`, `nodekey:${digits.toUpperCase()}`])
    assert.equal(parseNodeKey(text), undefined, text);
  for (const text of ['discokey:', `nodekey:${digits}`, `discokey:${digits.slice(1)}`, `discokey:${digits}\n`])
    assert.equal(parseDiscoKey(text), undefined, text);
  for (const bytes of ['', '6e70', digits, `6e71${digits}`, `6e70${digits}00`])
    assert.equal(decodeNodeKey(fromHex(bytes)), undefined, bytes);
  assert.throws(() => encodeNodeKey(Buffer.alloc(31)), RangeError);
  assert.throws(() => formatNodeKey(Buffer.alloc(33)), RangeError);
});

test('secrets are equal only with the same bytes and length', () => {
  assert.equal(sameSecret(Buffer.from('abc'), Buffer.from('abc')), true);
  assert.equal(sameSecret(Buffer.from('abc'), Buffer.from('abd')), false);
  assert.equal(sameSecret(Buffer.from('abc'), Buffer.from('ab')), false);
});
