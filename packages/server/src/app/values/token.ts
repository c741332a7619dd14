import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

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
  return hash('sha256', data, 'buffer');
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The kinds of tokens that servers before them reject: during an upgrade they would let them do other things. */
export type TokenMark = '' | 'scoped' | 'oauth2';

/** What is stored of a secret. It differs for each kind. */
export const hashOfSecret = (secret: string, mark: TokenMark): Buffer =>
  sha256(mark === '' ? secret : `${mark} ${secret}`);

/** A new session or API token: `<10 characters>-<22 characters>`. The id and the secret's hash are stored. */
export function newToken(mark: TokenMark = ''): { id: string; text: string; hashedSecret: Buffer } {
  const id = randomText(10);
  const secret = randomText(22);
  return { id, text: `${id}-${secret}`, hashedSecret: hashOfSecret(secret, mark) };
}

/** The two parts of a token. Undefined if the text cannot be a token. */
export function splitToken(text: string): { id: string; secret: string } | undefined {
  const parts = /^([0-9A-Za-z]{10})-([0-9A-Za-z]{22})$/.exec(text);
  return parts ? { id: parts[1]!, secret: parts[2]! } : undefined;
}
