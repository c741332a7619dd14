import { createPublicKey, type JsonWebKeyInput, verify } from 'node:crypto';
import { identityError } from './error.ts';

const AUDIENCE = 'coder';
const ISSUERS: readonly unknown[] = ['accounts.google.com', 'https://accounts.google.com'];
const MAX_BYTES = 64 * 1024;
/** The largest allowed difference between Google's clock and ours, in seconds. */
const LEEWAY_S = 60;

/** A public key as Google publishes it. */
export type PublishedKey = JsonWebKeyInput['key'] & { kid?: string };

interface Claims {
  iss?: unknown;
  aud?: unknown;
  exp?: unknown;
  iat?: unknown;
  google?: { compute_engine?: { instance_id?: unknown } };
}

/**
 * The machine's id from its identity token. `keysFor` returns Google's public keys and fetches them again if none has
 * this name. Throws `unauthenticated`.
 */
export async function googleInstanceId(
  token: string,
  keysFor: (kid: string) => Promise<readonly PublishedKey[]>,
  now: Date,
): Promise<string> {
  const [head = '', body = '', signature = '', ...rest] = token.length > MAX_BYTES ? [] : token.split('.');
  if (signature === '' || rest.length > 0) throw identityError('the token is not a signed JSON web token');
  const { alg, kid } = parse(head) as { alg?: unknown; kid?: unknown };
  // the server chooses the algorithm, never the token
  if (alg !== 'RS256' || typeof kid !== 'string')
    throw identityError('the token is not signed with RS256 and a named key');
  const key = (await keysFor(kid)).find((one) => one.kid === kid && one.kty === 'RSA');
  if (!key) throw identityError('the token is signed with a key that Google does not publish');
  const signed = Buffer.from(`${head}.${body}`);
  const publicKey = createPublicKey({ key, format: 'jwk' });
  if (!verify('sha256', signed, publicKey, Buffer.from(signature, 'base64url')))
    throw identityError('the signature is invalid');
  const claims = parse(body) as Claims;
  const seconds = now.getTime() / 1_000;
  if (!ISSUERS.includes(claims.iss)) throw identityError('the token has an unexpected issuer');
  if (claims.aud !== AUDIENCE) throw identityError('the token has an unexpected audience');
  if (typeof claims.exp !== 'number' || claims.exp + LEEWAY_S < seconds) throw identityError('the token has expired');
  if (typeof claims.iat === 'number' && claims.iat - LEEWAY_S > seconds)
    throw identityError('the token was issued in the future');
  const id = claims.google?.compute_engine?.instance_id;
  if (typeof id !== 'string' || id === '')
    throw identityError('the token names no instance: request it with format=full');
  return id;
}

function parse(part: string): object {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('utf8'));
    if (value !== null && typeof value === 'object') return value;
  } catch {
    // reported below
  }
  throw identityError('the token cannot be parsed');
}
