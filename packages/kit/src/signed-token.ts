// JSON Web Tokens with EdDSA: one process signs them, and others verify them with a public key.
import { createPublicKey, type KeyObject, sign, verify } from 'node:crypto';

/** Browsers store no longer cookie. */
const MAX_CHARACTERS = 4_096;
/** SubjectPublicKeyInfo in DER of an Ed25519 key, without its last 32 bytes. */
const SPKI_START = Buffer.from('302a300506032b6570032100', 'hex');

/** Finds the key with this number. */
export type KeyOf = (sequence: number) => KeyObject | undefined;

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** @param sequence of the key, which the token names as `kid` */
export function signToken(claims: object, { sequence, key }: { sequence: number; key: KeyObject }): string {
  const text = `${part({ alg: 'EdDSA', kid: String(sequence) })}.${part(claims)}`;
  return `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`;
}

/** The claims of a token that one of these keys signed, whatever its age. Undefined for any other text. */
export function verifiedClaims(token: string, keyOf: KeyOf): Record<string, unknown> | undefined {
  if (token.length > MAX_CHARACTERS) return undefined;
  const [header, claims, signature, ...more] = token.split('.');
  if (!header || !claims || !signature || more.length > 0) return undefined;
  const { alg, kid } = read(header) ?? {};
  const key = alg === 'EdDSA' && typeof kid === 'string' && /^\d{1,9}$/.test(kid) ? keyOf(Number(kid)) : undefined;
  if (!key || !verify(null, Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, 'base64url')))
    return undefined;
  return read(claims);
}

function read(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** The key with these 32 bytes in hexadecimal digits. Undefined for any other text. */
export function publicKeyOf(hex: string): KeyObject | undefined {
  if (!/^[0-9a-f]{64}$/i.test(hex)) return undefined;
  return createPublicKey({ key: Buffer.concat([SPKI_START, Buffer.from(hex, 'hex')]), type: 'spki', format: 'der' });
}
