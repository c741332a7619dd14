import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { applyMask } from './mask.ts';
import { SLAB, takeMaskSlab } from './mask-slabs.ts';

/** Masks as RFC 6455 defines it: byte i with byte i mod 4 of the key. */
function plainly(data: Buffer, key: number): Buffer {
  const bytes = [key >>> 24, (key >>> 16) & 255, (key >>> 8) & 255, key & 255];
  return Buffer.from(data.map((byte, i) => byte ^ bytes[i & 3]!));
}

test('a slab masks as the RFC defines, at any length, and returns the key for the following bytes', () => {
  // More than the pool keeps, so that both kinds are tested.
  const slabs = Array.from({ length: 40 }, () => takeMaskSlab());
  const lengths = [0, 1, 3, 4, 63, 64, 65, 127, 128, 1000, 4096, SLAB - 1, SLAB];
  for (const [n, slab] of slabs.entries()) {
    const length = lengths[n % lengths.length]!;
    const key = randomBytes(4).readUInt32BE();
    const data = randomBytes(SLAB);
    slab.bytes.set(data);
    const next = slab.mask(length, key);
    assert.ok(slab.bytes.subarray(0, length).equals(plainly(data.subarray(0, length), key)), `length ${length}`);
    assert.ok(slab.bytes.subarray(length).equals(data.subarray(length)), `beyond length ${length}`);
    const copy = Buffer.from(data);
    assert.equal(next, applyMask(copy.subarray(0, length), key));
  }
  for (const slab of slabs) slab.release();
  assert.equal(takeMaskSlab(), slabs[31], 'the pool keeps 32');
});
