// The functions of WireGuard's handshake, Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s.
import { createCipheriv, createDecipheriv, createHash, createHmac } from 'node:crypto';
import { blake2s } from '@noble/hashes/blake2.js';

export const TAG_BYTES = 16;
export const MAC_BYTES = 16;
const CIPHER = 'chacha20-poly1305';
const EMPTY: Buffer = Buffer.alloc(0);

/** BLAKE2s of the joined parts, 32 bytes. */
export function hash(...parts: readonly Uint8Array[]): Buffer {
  const digest = createHash('blake2s256');
  for (const part of parts) digest.update(part);
  return digest.digest();
}

/** Keyed BLAKE2s with 16 bytes. */
export function mac(key: Uint8Array, message: Uint8Array): Buffer {
  return Buffer.from(blake2s(message, { key, dkLen: MAC_BYTES }));
}

function hmac(key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer {
  const digest = createHmac('blake2s256', key);
  for (const part of parts) digest.update(part);
  return digest.digest();
}

/** HKDF: three keys of 32 bytes, of which callers take the first ones. */
export function derive(chainKey: Uint8Array, input: Uint8Array = EMPTY): [Buffer, Buffer, Buffer] {
  const secret = hmac(chainKey, input);
  const first = hmac(secret, Buffer.from([1]));
  const second = hmac(secret, first, Buffer.from([2]));
  return [first, second, hmac(secret, second, Buffer.from([3]))];
}

/** Counters beyond are not accepted: no session lasts long enough to reach them. */
export const MAX_COUNTER = Number.MAX_SAFE_INTEGER;

/** Reused, because ciphers copy it. */
const nonce = Buffer.alloc(12);

function nonceOf(counter: number): Buffer {
  nonce.writeUInt32LE(counter % 2 ** 32, 4);
  nonce.writeUInt32LE(Math.floor(counter / 2 ** 32), 8);
  return nonce;
}

/**
 * ChaCha20-Poly1305, in place: `bytes` are the clear bytes and then TAG_BYTES for the tag.
 */
export function sealInPlace(bytes: Buffer, key: Uint8Array, counter: number, aad = EMPTY): void {
  const end = bytes.length - TAG_BYTES;
  const cipher = createCipheriv(CIPHER, key, nonceOf(counter), { authTagLength: TAG_BYTES });
  if (aad.length > 0) cipher.setAAD(aad);
  if (end > 0) bytes.set(cipher.update(bytes.subarray(0, end)), 0);
  cipher.final();
  bytes.set(cipher.getAuthTag(), end);
}

export function seal(key: Uint8Array, clear: Uint8Array, aad: Buffer): Buffer {
  const sealed = Buffer.allocUnsafe(clear.length + TAG_BYTES);
  sealed.set(clear, 0);
  sealInPlace(sealed, key, 0, aad);
  return sealed;
}

/** Undefined if the bytes were not sealed with this key, counter and associated data. */
export function open(key: Uint8Array, counter: number, sealed: Uint8Array, aad = EMPTY): Buffer | undefined {
  if (sealed.length < TAG_BYTES) return undefined;
  const decipher = createDecipheriv(CIPHER, key, nonceOf(counter), { authTagLength: TAG_BYTES });
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  if (aad.length > 0) decipher.setAAD(aad);
  const clear = decipher.update(sealed.subarray(0, -TAG_BYTES));
  try {
    decipher.final();
    return clear;
  } catch {
    return undefined;
  }
}
