// The token of a grant for a visitor of a workspace proxy: a JSON Web Token with EdDSA, which names its proxy as `aud`. The
// server signs it, and the proxy verifies it with a public key of GET /workspaceproxies/me/crypto-keys.
import { createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import type { AccessMethod } from '@ropewalk/contract';
import type { AppGrant } from '../context/sealed-tokens.ts';

/** The permission to use an app, or the terminal of an agent, through a proxy. A terminal has no port. */
export interface ProxyGrant extends Omit<AppGrant, 'kind'> {
  kind: AccessMethod;
}

/** Browsers store no longer cookie. */
const MAX_CHARACTERS = 4_096;
/** SubjectPublicKeyInfo in DER of an Ed25519 key, without its last 32 bytes. */
const SPKI_START = Buffer.from('302a300506032b6570032100', 'hex');

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** @param sequence of the key, which the token names as `kid` */
export function encodeGrant(
  proxyId: string,
  { issued, expires, ...grant }: ProxyGrant,
  { sequence, key }: { sequence: number; key: KeyObject },
): string {
  // with their milliseconds: a change of rights counts only for grants that were issued before it
  const claims = { aud: proxyId, iat: issued / 1_000, exp: expires / 1_000, grant };
  const text = `${part({ alg: 'EdDSA', kid: String(sequence) })}.${part(claims)}`;
  return `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`;
}

/** The grant in a token for this proxy, whatever its age. Undefined for any other text. */
export function decodeGrant(
  proxyId: string,
  token: string,
  keyOf: (sequence: number) => KeyObject | undefined,
): ProxyGrant | undefined {
  if (token.length > MAX_CHARACTERS) return undefined;
  const [header, claims, signature, ...more] = token.split('.');
  if (!header || !claims || !signature || more.length > 0) return undefined;
  const { alg, kid } = read<{ alg: unknown; kid: unknown }>(header) ?? {};
  const key = alg === 'EdDSA' && typeof kid === 'string' && /^\d{1,9}$/.test(kid) ? keyOf(Number(kid)) : undefined;
  if (!key || !verify(null, Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, 'base64url')))
    return undefined;
  // signed by this installation from here on
  const { aud, iat, exp, grant } = read<{ aud: string; iat: number; exp: number; grant: ProxyGrant }>(claims)!;
  if (aud !== proxyId) return undefined;
  return { ...grant, issued: Math.round(iat * 1_000), expires: Math.round(exp * 1_000) };
}

function read<T>(text: string): T | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}

/** The key with these 32 bytes in hexadecimal digits. Undefined for any other text. */
export function publicKeyOf(hex: string): KeyObject | undefined {
  if (!/^[0-9a-f]{64}$/i.test(hex)) return undefined;
  return createPublicKey({ key: Buffer.concat([SPKI_START, Buffer.from(hex, 'hex')]), type: 'spki', format: 'der' });
}
