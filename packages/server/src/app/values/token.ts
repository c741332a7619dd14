import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** `length` characters of 0-9A-Za-z, each uniformly random. */
export function randomText(length: number): string {
  let out = '';
  while (out.length < length) {
    for (const byte of randomBytes(length * 2)) {
      if (byte < 248 && out.length < length) out += ALPHABET[byte % 62];
    }
  }
  return out;
}

export function sha256(data: string | Uint8Array): Buffer {
  return createHash('sha256').update(data).digest();
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

/**
 * What is stored of a secret. That of a token with scopes differs, so that servers which know no scopes reject it: during
 * an upgrade they would let it do other things.
 */
export const hashOfSecret = (secret: string, scoped: boolean): Buffer => sha256(scoped ? `scoped ${secret}` : secret);

/** A new session or API token: `<10 characters>-<22 characters>`. The id and the secret's hash are stored. */
export function newToken(scoped = false): { id: string; text: string; hashedSecret: Buffer } {
  const id = randomText(10);
  const secret = randomText(22);
  return { id, text: `${id}-${secret}`, hashedSecret: hashOfSecret(secret, scoped) };
}

/** The two parts of a token. Undefined if the text cannot be a token. */
export function splitToken(text: string): { id: string; secret: string } | undefined {
  const parts = /^([0-9A-Za-z]{10})-([0-9A-Za-z]{22})$/.exec(text);
  return parts ? { id: parts[1]!, secret: parts[2]! } : undefined;
}
