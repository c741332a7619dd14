// Secrets of apps, codes, refresh tokens and registration tokens have one form, upstream's: `coder_<prefix>_<secret>`. The
// server finds a row by the prefix and compares the hash of the secret.

import { randomText, sameBytes, sha256 } from '../values/token.ts';

export interface NewSecret {
  /** What the app gets. It is not stored. */
  text: string;
  prefix: string;
  hash: Buffer;
}

export function newSecret(): NewSecret {
  const prefix = randomText(10);
  const secret = randomText(40);
  return { text: `coder_${prefix}_${secret}`, prefix, hash: sha256(secret) };
}

/** The two parts of a secret. Undefined if the text cannot be one. */
export function splitSecret(text: string): { prefix: string; secret: string } | undefined {
  const parts = /^coder_([0-9A-Za-z]{10})_([0-9A-Za-z]{40})$/.exec(text);
  return parts ? { prefix: parts[1]!, secret: parts[2]! } : undefined;
}

/** Whether this is the secret with the stored hash, in constant time. */
export const isSecret = (secret: string, hash: Uint8Array): boolean => sameBytes(sha256(secret), hash);
