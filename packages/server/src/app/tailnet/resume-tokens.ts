// A resume token lets a client of the tailnet keep its peer id when it connects again. It is a JSON Web Token (RFC 7519)
// with HMAC-SHA512, as upstream's. It names the peer and the identity that owns it, and is useless to every other
// identity.
import { createHmac, hkdfSync } from 'node:crypto';
import { AppError, type Clock } from '@ropewalk/kit';
import { isUuid } from '../values/ids.ts';
import { sameBytes } from '../values/token.ts';

/** When a client asks for the next token, and when a token expires, in seconds. Upstream's values. */
export const REFRESH_S: number = 12 * 3_600;
export const LIFETIME_S: number = 24 * 3_600;
const MAX_TOKEN_LENGTH = 1_024;
/** Names the key. Upstream's servers rotate theirs. This one derives it from one secret of the installation. */
const KEY_ID = '1';

interface Claims {
  /** The id of the peer. */
  sub: string;
  /** The owner of the peer, for the coordinator. */
  own: string;
  /** In seconds since 1970. */
  exp: number;
}

export interface ResumeTokens {
  /** A token for the peer with this id, and when it expires, in seconds since 1970. */
  issue(peer: { id: string; owner: string }): { token: string; expiresAt: number };
  /**
   * The peer id in a token of this owner. Undefined for a token without a key id, which upstream's servers ignore.
   * @throws AppError `unauthenticated` for any other token that is not valid
   */
  read(token: string, owner: string): string | undefined;
}

/** @param secret of this installation, stored in the database */
export function createResumeTokens(secret: string, clock: Pick<Clock, 'now'>): ResumeTokens {
  const key = Buffer.from(hkdfSync('sha512', secret, '', 'tailnet_resume', 64));
  const mac = (text: string) => createHmac('sha512', key).update(text).digest();
  const now = () => Math.floor(clock.now().getTime() / 1_000);
  return {
    issue({ id, owner }) {
      const expiresAt = now() + LIFETIME_S;
      const claims: Claims = { sub: id, own: owner, exp: expiresAt };
      const text = `${encode({ alg: 'HS512', kid: KEY_ID, typ: 'JWT' })}.${encode(claims)}`;
      return { token: `${text}.${mac(text).toString('base64url')}`, expiresAt };
    },
    read(token, owner) {
      if (token.length > MAX_TOKEN_LENGTH) throw invalid('the token is too long');
      const [head = '', body = '', signature = '', more] = token.split('.');
      const header = decode<{ alg?: unknown; kid?: unknown }>(head);
      if (!header || more !== undefined) throw invalid('the token is malformed');
      if (header.kid === undefined || header.kid === '') return undefined;
      const isSigned = header.alg === 'HS512' && header.kid === KEY_ID;
      if (!isSigned || !sameBytes(Buffer.from(signature, 'base64url'), mac(`${head}.${body}`)))
        throw invalid('the signature is not valid');
      const claims = decode<Claims>(body);
      if (!claims || !isUuid(claims.sub)) throw invalid('the token is malformed');
      if (claims.exp <= now()) throw invalid('the token is expired');
      if (claims.own !== owner) throw invalid('the token belongs to another session');
      return claims.sub;
    },
  };
}

/** Upstream's clients look for this field, drop the token and connect again. */
function invalid(detail: string): AppError {
  return new AppError('unauthenticated', 'Invalid resume token', {
    detail,
    validations: [{ field: 'resume_token', detail: 'Invalid resume token' }],
  });
}

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

function decode<T>(text: string): (Partial<T> & T) | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    return typeof value === 'object' && value !== null ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}
