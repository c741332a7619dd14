// The token of a workspace proxy is its id and a secret: `<id>:<64 characters>`. The server stores only the secret's hash.
// The token is valid for the routes of the contract with `auth: 'proxy'` and for nothing else.
import { AppError } from '@ropewalk/kit';
import type { Actor, ProxyActor } from '../../authz/actor.ts';
import { type VerifiedProxy, verifiedProxy } from '../../authz/proofs.ts';
import { workspaceProxyWithSecret } from '../../db/queries/workspace-proxies.ts';
import type { WorkspaceProxyRow } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';
import { randomText, sameBytes, sha256 } from '../values/token.ts';

/** Upstream's length. */
const SECRET_LENGTH = 64;

/** A new token of a proxy. Its text is not stored. */
export function newProxyToken(proxyId: string): { text: string; hashedSecret: Buffer } {
  const secret = randomText(SECRET_LENGTH);
  return { text: `${proxyId}:${secret}`, hashedSecret: sha256(secret) };
}

/** @throws AppError `unauthenticated` for any text that is not the current token of a proxy */
export async function proxyOfToken({ sql }: Pick<Services, 'sql'>, token: string | undefined): Promise<ProxyActor> {
  const failed = (detail: string) => new AppError('unauthenticated', 'Invalid workspace proxy token.', { detail });
  if (!token) throw failed('No token was sent: use the Coder-External-Proxy-Token header.');
  const [id, secret, ...more] = token.split(':');
  if (!id || !isUuid(id) || secret?.length !== SECRET_LENGTH || more.length > 0)
    throw failed('The token must be the id of the proxy and its secret: <id>:<secret>.');
  const found = await workspaceProxyWithSecret(sql, id);
  if (!found || !sameBytes(found.hashed_secret, sha256(secret)))
    throw failed(
      'The token was replaced, or its proxy was deleted. Get a new one with: coder wsproxy regenerate-token',
    );
  const { hashed_secret: _, ...proxy } = found;
  return { kind: 'proxy', proxy };
}

/** The proxy that sent the request. @throws AppError `unauthenticated` for any other actor */
export function proxyOf({ actor }: { actor: Actor }): VerifiedProxy<WorkspaceProxyRow> {
  if (actor.kind !== 'proxy') throw new AppError('unauthenticated', 'Only workspace proxies can call this.');
  return verifiedProxy(actor.proxy);
}
