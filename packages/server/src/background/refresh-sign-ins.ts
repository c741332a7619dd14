import { AppError, errorText, isAppError } from '@ropewalk/kit';
import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import type { Providers } from '../app/sign-in/provider.ts';
import { syncIdentity } from '../app/sign-in/sync.ts';
import { systemTask } from '../authz/proofs.ts';
import {
  endSessionsOfLink,
  postponeRefresh,
  saveRefreshed,
  takeExpiringLinks,
  type UserLinkRow,
} from '../db/queries/user-links.ts';

const PERIOD_MS = 30_000;
/** Tokens are refreshed so long before they expire, in ms. */
const BEFORE_MS = 60_000;
/** Tokens are refreshed while the person uses a session. A session that was unused for longer waits for its next use. */
const USED_MS = 24 * 3_600_000;
/** How long a provider that does not answer gets until the next try, in ms. */
const RETRY_MS = 60_000;
const AT_ONCE = 8;

/**
 * Exchanges the tokens that expire soon for new ones, and ends the sessions of people whose provider says that they are
 * signed out. A provider that does not answer ends nothing. A provider that gives no refresh token cannot be asked: those
 * sessions end when they expire.
 */
export async function refreshLinks(services: Services, providers: Providers, signal?: AbortSignal): Promise<void> {
  const { sql, clock } = services;
  const task = systemTask(systemContext(services, 'refresh sign-ins'));
  for (;;) {
    const now = clock.now().getTime();
    const links = await takeExpiringLinks(sql, task, {
      expiring: new Date(now + BEFORE_MS),
      usedSince: new Date(now - USED_MS),
      most: AT_ONCE,
    });
    await Promise.all(links.map((link) => refreshLink(services, providers, link)));
    if (links.length < AT_ONCE || signal?.aborted) return;
  }
}

async function refreshLink(services: Services, providers: Providers, link: UserLinkRow): Promise<void> {
  const { sql, clock, log, events, vault } = services;
  const system = systemContext(services, 'refresh sign-ins');
  const task = systemTask(system);
  const about = { user_id: link.user_id, provider: link.login_type };
  try {
    const provider = providers[link.login_type];
    if (!provider) throw new AppError('unavailable', 'The provider is no longer configured.');
    const { tokens, claims } = await provider.refresh(
      {
        accessToken: vault.open(link.access_token),
        refreshToken: vault.open(link.refresh_token),
        expiresAt: link.expires_at,
      },
      link.linked_id,
    );
    await sql.begin(async (tx) => {
      // a claim that the refresh does not mention stays as it was
      const known = { ...link.claims, ...claims };
      const saved = await saveRefreshed(tx, task, link, {
        access_token: vault.seal(tokens.accessToken),
        refresh_token: vault.seal(tokens.refreshToken),
        expires_at: tokens.expiresAt,
        claims: known,
      });
      if (saved && claims && link.login_type === 'oidc') await syncIdentity(system, tx, link.user_id, known);
    });
  } catch (err) {
    if (isAppError(err, 'unauthenticated') || isAppError(err, 'forbidden')) {
      const ended = await sql.begin(async (tx) => {
        const ids = await endSessionsOfLink(tx, task, link);
        if (ids.length > 0) await events.publish(tx, 'revoked', { api_key_ids: ids });
        return ids.length;
      });
      log.info('the identity provider ended a sign-in', {
        ...about,
        sessions: ended,
        err: err.message,
        detail: err.detail,
      });
      return;
    }
    log.warn('could not refresh a sign-in', { ...about, err: errorText(err) });
    await postponeRefresh(sql, task, link, new Date(clock.now().getTime() + RETRY_MS));
  }
}

export function refreshSignInsTask(services: Services, providers: Providers): BackgroundTask {
  return {
    name: 'refresh sign-ins',
    periodMs: PERIOD_MS,
    timeoutMs: 5 * 60_000,
    // each server takes links that no other one has
    needsLock: false,
    async run(signal) {
      await refreshLinks(services, providers, signal);
      return undefined;
    },
  };
}
