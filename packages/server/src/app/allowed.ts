import { errorText, isAppError } from '@platform/kit';
import { verifiedToken } from '../authz/proofs.ts';
import { apiKeyById, touchApiKey } from '../db/queries/apikeys.ts';
import { userById } from '../db/queries/users.ts';
import type { Ctx } from './context.ts';
import { actorOf, refreshedExpiry } from './session.ts';

/**
 * What an open stream was opened under, asked again: the same lookup or authorization, with the rights that the person
 * has now. It throws when they no longer suffice.
 */
export type Permission = (ctx: Ctx) => unknown;

/** The longest delay of a timer. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;
/** An open stream is a use of its session, which is then extended as any use extends it, this long before its end. */
const EXTEND_BEFORE_MS = 60_000;
const LOOK_AGAIN_MS = 2_000;

/**
 * Calls `end` once when the token or person behind an open stream may not have it any more. It looks again at every
 * notification that rights changed, and when the token expires. Returns how to stop watching.
 */
export function whileAllowed(ctx: Ctx, permission: Permission, end: () => void): () => void {
  const { actor, events, sql, clock, config } = ctx;
  if (actor.kind !== 'user') return () => {};
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  const later = (ms: number) => {
    clearTimeout(timer);
    timer = setTimeout(check, Math.min(Math.max(ms, 0), LONGEST_DELAY_MS)).unref();
  };
  const allowed = async (): Promise<boolean> => {
    const [key, user] = await Promise.all([apiKeyById(sql, actor.apiKeyId), userById(sql, actor.id)]);
    if (!key || !user || user.status === 'suspended') return false;
    const now = clock.now();
    let expires = key.expires_at.getTime();
    const before = Math.min(EXTEND_BEFORE_MS, (key.lifetime_seconds * 1000) / 2);
    if (expires - now.getTime() <= before && expires > now.getTime()) {
      expires = refreshedExpiry(key, now, config).getTime();
      if (expires > key.expires_at.getTime()) await touchApiKey(sql, verifiedToken(actor), now, new Date(expires));
    }
    if (expires <= now.getTime()) return false;
    const left = expires - now.getTime();
    if (!stopped) later(left > before ? left - before : left);
    try {
      await permission({ ...ctx, actor: actorOf(user, key), signal: AbortSignal.any([]) });
      return true;
    } catch (err) {
      if (isAppError(err)) return false;
      throw err;
    }
  };
  const check = () =>
    void allowed().then(
      (still) => {
        if (still || stopped) return;
        stop();
        end();
      },
      (err) => {
        ctx.log.warn('could not check an open stream', { err: errorText(err) });
        if (!stopped) later(LOOK_AGAIN_MS);
      },
    );
  const off = [
    events.on('revoked', ({ user_ids = [], api_key_ids = [] }) => {
      if (user_ids.includes(actor.id) || api_key_ids.includes(actor.apiKeyId)) check();
    }),
    // a template's list of who may use it
    events.on('app_access_changed', ({ template_id: template }) => template !== undefined && check()),
    events.onResync(check),
  ];
  const stop = () => {
    stopped = true;
    clearTimeout(timer);
    for (const each of off) each();
  };
  // the word may have come after the token was verified and before anybody listened here
  check();
  return stop;
}
