// Tokens with which visitors use apps through a workspace proxy. The server signs them, and proxies only verify: they get
// public keys, so that a stolen proxy token signs nothing. A token names its proxy, and no other proxy may accept it. The
// keys change every week. Each is computed from a secret of the installation and the number of its week.
import { createPrivateKey, createPublicKey, hkdfSync, type KeyObject } from 'node:crypto';
import type { CryptoKey } from '@ropewalk/contract';
import { type KeyOf, signToken, verifiedClaims } from '@ropewalk/kit/signed-token';
import type { PermitClaims } from '@ropewalk/wire/proxy-link';
import { time } from '../values/time.ts';
import { decodeGrant, grantClaims, type ProxyGrant } from './grant-token.ts';

export interface ProxyKeys {
  /** The token of a grant for this proxy. */
  sign(proxyId: string, grant: ProxyGrant, now: Date): string;
  /** These claims as a token for this proxy. Other claims are other tokens: a verifier looks for its own. */
  signClaims(proxyId: string, claims: object, now: Date): string;
  /** The grant in a token for this proxy, which may have expired. Undefined for any other text. */
  read(proxyId: string, token: string, now: Date): ProxyGrant | undefined;
  /** The id of a permit for this proxy, which may have expired. Undefined for any other text. */
  permitId(proxyId: string, token: string, now: Date): string | undefined;
  /** The public keys of the tokens that are valid now, and the next one. */
  publicKeys(now: Date): CryptoKey[];
}

const PERIOD_MS = 7 * 86_400_000;
/** So long a key verifies tokens after the next one signs. Tokens live for a minute, and clocks differ. */
const OVERLAP_MS = 3_600_000;
/** PKCS #8 in DER of an Ed25519 key, without its last 32 bytes. */
const PKCS8_START = Buffer.from('302e020100300506032b657004220420', 'hex');

const sequenceAt = (ms: number): number => Math.floor(ms / PERIOD_MS);

/** @param secret of this installation, stored in the database */
export function createProxyKeys(secret: string): ProxyKeys {
  const known = new Map<number, { privateKey: KeyObject; publicKey: KeyObject }>();
  function keyOf(sequence: number): { privateKey: KeyObject; publicKey: KeyObject } {
    let key = known.get(sequence);
    if (!key) {
      const seed = Buffer.from(hkdfSync('sha256', secret, '', `workspace proxy grants ${sequence}`, 32));
      const der = Buffer.concat([PKCS8_START, seed]);
      const privateKey = createPrivateKey({ key: der, type: 'pkcs8', format: 'der' });
      key = { privateKey, publicKey: createPublicKey(privateKey) };
      if (known.size > 3) known.clear();
      known.set(sequence, key);
    }
    return key;
  }
  /** The public keys of the tokens that are valid now. */
  function verifying(now: Date): KeyOf {
    const at = now.getTime();
    return (sequence) =>
      sequence >= sequenceAt(at - OVERLAP_MS) && sequence <= sequenceAt(at) + 1 ? keyOf(sequence).publicKey : undefined;
  }
  function signClaims(proxyId: string, claims: object, now: Date): string {
    const sequence = sequenceAt(now.getTime());
    return signToken({ aud: proxyId, ...claims }, { sequence, key: keyOf(sequence).privateKey });
  }
  return {
    sign: (proxyId, grant, now) => signClaims(proxyId, grantClaims(grant), now),
    signClaims,
    read: (proxyId, token, now) => decodeGrant(proxyId, token, verifying(now)),
    permitId(proxyId, token, now) {
      const claims = verifiedClaims(token, verifying(now)) as Partial<PermitClaims> | undefined;
      return claims?.aud === proxyId ? claims.permit?.id : undefined;
    },
    publicKeys(now) {
      const at = now.getTime();
      const current = sequenceAt(at);
      const from = sequenceAt(at - OVERLAP_MS);
      return Array.from({ length: current + 2 - from }, (_, index) => {
        const sequence = from + index;
        const { x } = keyOf(sequence).publicKey.export({ format: 'jwk' });
        return {
          feature: 'workspace_apps_token',
          secret: Buffer.from(x!, 'base64url').toString('hex'),
          sequence,
          starts_at: time(new Date(sequence * PERIOD_MS)),
          deletes_at: time(new Date((sequence + 1) * PERIOD_MS + OVERLAP_MS)),
        };
      });
    },
  };
}
