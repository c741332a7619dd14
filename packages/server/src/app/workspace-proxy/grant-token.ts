// The token of a grant for a visitor of a workspace proxy, which it names as `aud`. The server signs it. The proxy, and the
// agent to which the proxy presents it, verify it with a public key of GET /workspaceproxies/me/crypto-keys.
import type { AccessMethod } from '@ropewalk/contract';
import { type KeyOf, verifiedClaims } from '@ropewalk/kit/signed-token';
import type { AppGrant } from '../context/sealed-tokens.ts';

/** The permission to use an app, the terminal of an agent, or tunnels to it, through a proxy. Only an app has a port. */
export interface ProxyGrant extends Omit<AppGrant, 'kind'> {
  kind: AccessMethod | 'tunnel';
}

/** With their milliseconds: a change of rights counts only for grants that were issued before it. */
export const grantClaims = ({ issued, expires, ...grant }: ProxyGrant): object => ({
  iat: issued / 1_000,
  exp: expires / 1_000,
  grant,
});

/** The grant in a token for this proxy, whatever its age. Undefined for any other text. */
export function decodeGrant(proxyId: string, token: string, keyOf: KeyOf): ProxyGrant | undefined {
  const claims = verifiedClaims(token, keyOf) as
    | { aud: string; iat: number; exp: number; grant?: ProxyGrant }
    | undefined;
  if (claims?.aud !== proxyId || !claims.grant) return undefined;
  return {
    ...claims.grant,
    issued: Math.round(claims.iat * 1_000),
    expires: Math.round(claims.exp * 1_000),
  };
}
