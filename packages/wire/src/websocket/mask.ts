import { randomFillSync } from 'node:crypto';

const littleEndian = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
const keys = Buffer.allocUnsafe(8192);
let nextKey = keys.length;

/** Returns a new unpredictable masking key (RFC 6455, 10.3) as an unsigned 32-bit number, big endian. */
export function freshMaskKey(): number {
  if (nextKey >= keys.length) {
    randomFillSync(keys);
    nextKey = 0;
  }
  const key = keys.readUInt32BE(nextKey);
  nextKey += 4;
  return key;
}

function swap32(n: number): number {
  return ((n >>> 24) | ((n >>> 8) & 0xff00) | ((n << 8) & 0xff0000) | (n << 24)) >>> 0;
}

function rotate(key: number, bytes: number): number {
  const bits = (bytes & 3) * 8;
  return bits === 0 ? key : ((key << bits) | (key >>> (32 - bits))) >>> 0;
}

/**
 * Masks or unmasks in place, by 32-bit words where memory is aligned. `key` is big endian (first byte of the key in the
 * top bits). Returns the key for the byte that follows, so that a payload may come in pieces.
 */
export function applyMask(data: Uint8Array, key: number): number {
  const length = data.length;
  const lead = Math.min(-data.byteOffset & 3, length);
  let k = key;
  for (let i = 0; i < lead; i++) {
    data[i]! ^= k >>> 24;
    k = rotate(k, 1);
  }
  const words = (length - lead) >>> 2;
  if (words > 0) {
    const view = new Uint32Array(data.buffer, data.byteOffset + lead, words);
    // As a signed number: the loop is a third slower on values that do not fit 31 bits.
    const word = (littleEndian ? swap32(k) : k) | 0;
    const bulk = words & ~7;
    let i = 0;
    for (; i < bulk; i += 8) {
      view[i]! ^= word;
      view[i + 1]! ^= word;
      view[i + 2]! ^= word;
      view[i + 3]! ^= word;
      view[i + 4]! ^= word;
      view[i + 5]! ^= word;
      view[i + 6]! ^= word;
      view[i + 7]! ^= word;
    }
    for (; i < words; i++) view[i]! ^= word;
  }
  for (let i = lead + words * 4; i < length; i++) {
    data[i]! ^= k >>> 24;
    k = rotate(k, 1);
  }
  return k;
}
