import { createPublicKey, type JsonWebKeyInput, verify } from 'node:crypto';
import { refused } from './refused.ts';

const AUDIENCE = 'coder';
const ISSUERS: readonly unknown[] = ['accounts.google.com', 'https://accounts.google.com'];
const MOST_BYTES = 64 * 1024;
/** Between Google's clock and ours. */
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
 * The machine's id by its identity token. `keysFor` gives Google's present public keys, anew where it knows none of the
 * name. Throws `unauthenticated`.
 */
export async function googleInstanceId(
  token: string,
  keysFor: (kid: string) => Promise<readonly PublishedKey[]>,
  now: Date,
): Promise<string> {
  const [head = '', body = '', signature = '', ...rest] = token.length > MOST_BYTES ? [] : token.split('.');
  if (signature === '' || rest.length > 0) throw refused('the token is not a signed JSON web token');
  const { alg, kid } = parse(head) as { alg?: unknown; kid?: unknown };
  // the key decides which algorithm there is, never the token
  if (alg !== 'RS256' || typeof kid !== 'string') throw refused('the token is not signed by RS256 with a named key');
  const key = (await keysFor(kid)).find((one) => one.kid === kid && one.kty === 'RSA');
  if (!key) throw refused('the token is signed by a key that Google does not publish');
  const signed = Buffer.from(`${head}.${body}`);
  const publicKey = createPublicKey({ key, format: 'jwk' });
  if (!verify('sha256', signed, publicKey, Buffer.from(signature, 'base64url')))
    throw refused('the signature is wrong');
  const claims = parse(body) as Claims;
  const seconds = now.getTime() / 1_000;
  if (!ISSUERS.includes(claims.iss)) throw refused('the token was issued by somebody else');
  if (claims.aud !== AUDIENCE) throw refused('the token was issued for somebody else');
  if (typeof claims.exp !== 'number' || claims.exp + LEEWAY_S < seconds) throw refused('the token has expired');
  if (typeof claims.iat === 'number' && claims.iat - LEEWAY_S > seconds) throw refused('the token is of the future');
  const id = claims.google?.compute_engine?.instance_id;
  if (typeof id !== 'string' || id === '') throw refused('the token names no instance: its format must be full');
  return id;
}

function parse(part: string): object {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('utf8'));
    if (value !== null && typeof value === 'object') return value;
  } catch {
    // said below
  }
  throw refused('the token can not be read');
}
