/** The state of connected accounts: whether their tokens work, and new tokens in time. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExternalAuthUser } from '@ropewalk/contract';
import { AppError, errorText, isAppError } from '@ropewalk/kit';
import { systemTask } from '../../authz/proofs.ts';
import type { ExternalAuthProvider } from '../../config/external-auth.ts';
import {
  type ExternalAuthLinkRow,
  externalAuthLink,
  failExternalAuthLink,
  releaseExternalAuthLink,
  type SealedTokens,
  saveRefreshedTokens,
  takeExternalAuthLink,
} from '../../db/queries/external-auth-links.ts';
import { isStored } from '../../db/sealed.ts';
import { type Services, systemContext } from '../context/context.ts';
import { type LinkTokens, refreshTokens, validateToken } from './oauth.ts';

/** Tokens that expire sooner are refreshed first, in ms. */
const BEFORE_MS = 10_000;
/** How long one server may take to refresh a token. The request ends sooner. */
const LEASE_SECONDS = 30;
const LOOK_AGAIN_MS = 100;

/** A connected account. Without `problem` its token works, as far as the server knows. */
export interface LinkState {
  link: ExternalAuthLinkRow;
  /** Why the account has to be connected again. */
  problem?: string;
  user?: ExternalAuthUser;
}

export function findProvider({ config }: Pick<Services, 'config'>, id: string): ExternalAuthProvider | undefined {
  return config.externalAuth.find((provider) => provider.id === id);
}

/** The page where a person connects an account. */
export const connectUrl = ({ accessUrl }: Pick<Services, 'accessUrl'>, { id }: ExternalAuthProvider): string =>
  `${accessUrl}/external-auth/${id}`;

/** A provider's tokens as they are stored. */
export function sealTokens({ vault }: Pick<Services, 'vault'>, tokens: LinkTokens): SealedTokens {
  const { access_token, refresh_token, extra } = tokens;
  return {
    ...tokens,
    access_token: vault.seal(access_token),
    refresh_token: vault.seal(refresh_token),
    extra: vault.seal(Object.keys(extra).length > 0 ? JSON.stringify(extra) : ''),
  };
}

/** The further fields of a provider's answer that the provider's settings name. */
export function extraFields(
  { vault }: Pick<Services, 'vault'>,
  { extra }: Pick<ExternalAuthLinkRow, 'extra'>,
): Record<string, unknown> {
  return isStored(extra) ? JSON.parse(vault.open(extra)) : {};
}

/** Why the stored tokens cannot work, without asking the provider. Undefined if they may work. */
export function knownProblem(
  { clock }: Pick<Services, 'clock'>,
  provider: ExternalAuthProvider,
  link: ExternalAuthLinkRow,
): string | undefined {
  if (link.failure !== '') return link.failure;
  if (!expiresSoon({ clock }, link)) return undefined;
  return provider.no_refresh || !isStored(link.refresh_token) ? 'The token has expired.' : undefined;
}

function expiresSoon({ clock }: Pick<Services, 'clock'>, { expires_at }: ExternalAuthLinkRow): boolean {
  return expires_at !== null && expires_at.getTime() - clock.now().getTime() < BEFORE_MS;
}

/**
 * Refreshes the tokens of a link if they expire soon. Of all requests and servers, one does it, and the others wait for
 * its result.
 * @throws AppError `unavailable` if the provider does not answer
 */
export async function freshLink(
  services: Services,
  provider: ExternalAuthProvider,
  link: ExternalAuthLinkRow,
): Promise<LinkState> {
  const { sql, clock } = services;
  const by = systemTask(systemContext(services, 'refresh external auth'));
  const patience = clock.now().getTime() + LEASE_SECONDS * 1_000;
  let current = link;
  for (;;) {
    const problem = knownProblem(services, provider, current);
    if (problem !== undefined) return { link: current, problem };
    if (!expiresSoon(services, current)) return { link: current };
    if (await takeExternalAuthLink(sql, by, current, LEASE_SECONDS)) {
      await refresh(services, provider, current);
    } else if (clock.now().getTime() > patience) {
      throw new AppError('unavailable', `${provider.display_name} did not answer in time. Try again later.`);
    } else await sleep(LOOK_AGAIN_MS);
    const after = await externalAuthLink(sql, link.user_id, provider.id);
    if (!after) return { link: current, problem: 'The account was disconnected.' };
    current = after;
  }
}

async function refresh(services: Services, provider: ExternalAuthProvider, link: ExternalAuthLinkRow): Promise<void> {
  const { sql, log, vault } = services;
  const by = systemTask(systemContext(services, 'refresh external auth'));
  try {
    const tokens = await refreshTokens(services, provider, vault.open(link.refresh_token));
    await saveRefreshedTokens(
      sql,
      by,
      link,
      sealTokens(services, { ...tokens, extra: { ...extraFields(services, link), ...tokens.extra } }),
    );
  } catch (err) {
    const about = { provider: provider.id, user_id: link.user_id, err: errorText(err) };
    if (isAppError(err, 'invalid')) {
      log.info('an external auth provider rejected a refresh token', about);
      await failExternalAuthLink(sql, by, link, `The token could not be refreshed: ${err.detail ?? err.message}`);
      return;
    }
    log.warn('could not refresh an external auth token', about);
    await releaseExternalAuthLink(sql, by, link);
    throw err;
  }
}

/** Refreshes the tokens if necessary, and asks the provider whether they are valid. */
export async function validLink(
  services: Services,
  provider: ExternalAuthProvider,
  link: ExternalAuthLinkRow,
): Promise<LinkState> {
  const fresh = await freshLink(services, provider, link);
  if (fresh.problem !== undefined) return fresh;
  const { valid, user } = await validateToken(provider, services.vault.open(fresh.link.access_token));
  return {
    link: fresh.link,
    ...(user ? { user } : {}),
    ...(valid ? {} : { problem: `${provider.display_name} does not accept the token any more.` }),
  };
}
