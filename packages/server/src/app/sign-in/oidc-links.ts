import { AppError, errorText } from '@ropewalk/kit';
import { systemTask } from '../../authz/proofs.ts';
import { deleteOidcLinks, oidcLinkIssuers } from '../../db/queries/user-links.ts';
import type { Ctx } from '../context/context.ts';
import { boundedFetch } from '../outbound/fetch.ts';

/** Accounts that are linked to identities of one issuer. */
export interface OidcIssuer {
  issuer: string;
  accounts: number;
}

/**
 * The `issuer` that a provider publishes about itself, which may differ from its address, such as by a slash.
 * @throws AppError `unavailable` if the provider publishes none
 */
export async function publishedIssuer(address: string, signal: AbortSignal): Promise<string> {
  const url = `${address.replace(/\/+$/, '')}/.well-known/openid-configuration`;
  const unusable = (why: string, cause?: unknown) =>
    new AppError('unavailable', `The identity provider at ${address} could not be used: ${why}.`, { cause });
  const answer = await boundedFetch(url, { signal }).catch((err: unknown) => {
    throw unusable(errorText(err).replace(/\.$/, ''), err);
  });
  if (!answer.ok) throw unusable(`${url} answered with status ${answer.status}`);
  const { issuer } = ((await answer.json().catch(() => null)) ?? {}) as { issuer?: unknown };
  if (typeof issuer !== 'string' || issuer === '') throw unusable(`${url} names no issuer`);
  return issuer;
}

export const listOidcIssuers = (ctx: Ctx): Promise<OidcIssuer[]> => oidcLinkIssuers(ctx.sql, systemTask(ctx));

/**
 * Forgets the identities of other issuers than this one, or all identities. At the next sign-in, each account is linked to
 * the identity with its email address. Returns how many accounts had one.
 */
export const forgetOidcLinks = (ctx: Ctx, keep: string | undefined): Promise<number> =>
  deleteOidcLinks(ctx.sql, systemTask(ctx), keep);
