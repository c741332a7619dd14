import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { BOX_OVERHEAD, Box, boxKey } from './box.ts';
import { KeyPair } from './keys.ts';
import { fromHex, hex, vectors } from './testing/vectors.ts';

const recorded =
  vectors<Record<'aPrivate' | 'bPrivate' | 'cleartext' | 'nonceThenTagThenCiphertext' | 'sharedAfterHSalsa20', string>>(
    'nacl-box',
  );
const a = KeyPair.fromPrivateKey(fromHex(recorded.aPrivate));
const b = KeyPair.fromPrivateKey(fromHex(recorded.bPrivate));
const boxOf = (own: KeyPair, peer: KeyPair) => Box.between(own, peer.publicKey)!;

test('the key, the sealed bytes and the clear bytes match the recorded ones', () => {
  assert.equal(hex(boxKey(a.agree(b.publicKey)!)), recorded.sharedAfterHSalsa20);
  const sealed = fromHex(recorded.nonceThenTagThenCiphertext);
  const clear = Buffer.from(recorded.cleartext);
  const boxes = [boxOf(a, b), boxOf(b, a)];
  for (const box of boxes) {
    assert.equal(hex(box.seal(clear, sealed.subarray(0, 24))), hex(sealed));
    assert.equal(hex(box.open(sealed)), hex(clear));
  }
});

test('every seal has another nonce', () => {
  const box = boxOf(a, b);
  const [one, two] = [box.seal(Buffer.from('x')), box.seal(Buffer.from('x'))];
  assert.notEqual(hex(one.subarray(0, 24)), hex(two.subarray(0, 24)));
  assert.equal(one.length, 1 + BOX_OVERHEAD);
  assert.equal(hex(box.open(box.seal(Buffer.alloc(0)))), '');
});

test('a box with a weak public key cannot be made', () => {
  assert.equal(Box.between(a, Buffer.alloc(32)), undefined);
});

test('damaged, truncated and arbitrary bytes do not open, and neither do those of another sender', () => {
  const box = boxOf(a, b);
  const random = seededRandom(11);
  for (let i = 0; i < 300; i++) {
    const sealed = box.seal(Buffer.alloc(random(100), 1));
    sealed[random(sealed.length)]! ^= 1 << random(8);
    assert.equal(box.open(sealed), undefined);
    assert.equal(box.open(box.seal(Buffer.alloc(40)).subarray(0, random(80))), undefined);
    assert.equal(box.open(Buffer.from(Array.from({ length: random(200) }, () => random(256)))), undefined);
  }
  assert.equal(box.open(boxOf(a, KeyPair.generate()).seal(Buffer.from('x'))), undefined);
});
