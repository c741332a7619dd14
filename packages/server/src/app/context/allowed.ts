import { errorText, isAppError } from '@ropewalk/kit';
import type { UserActor } from '../../authz/actor.ts';
import { verifiedToken } from '../../authz/proofs.ts';
import type { EventMap } from '../../db/events.ts';
import { apiKeyById, touchApiKey } from '../../db/queries/apikeys.ts';
import { userById } from '../../db/queries/users.ts';
import type { Ctx } from './context.ts';
import { actorOf, refreshedExpiry } from './session.ts';

/**
 * The permission under which a stream was opened. Called again, it repeats the lookup or authorization with the current
 * permissions of the user, and throws when they no longer suffice.
 */
export type Permission = (ctx: Ctx) => unknown;

/** The longest delay of a timer, in ms. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;
/** How long before a session expires an open stream extends it, in ms. A stream uses its session like a request. */
const EXTEND_BEFORE_MS = 60_000;
const LOOK_AGAIN_MS = 2_000;

export interface WhileAllowedOptions {
  /** Whether something uses the session. Only then it is extended before it expires. Default: always. */
  isUsed?(): boolean;
  /** Subscribes to further events after which to check again. Returns a function that unsubscribes. */
  also?(check: () => void): () => void;
}

/** Whether workspaces were shared with this person or a group of theirs, or taken back from them. */
export const sharesConcern = (
  { id, groups, organizations }: UserActor,
  { user_ids = [], group_ids = [] }: EventMap['shares_changed'],
): boolean => user_ids.includes(id) || group_ids.some((group) => groups.has(group) || organizations.has(group));

/**
 * Calls `end` once when the token or user of an open stream loses permission. Checks again at every notification of
 * changed permissions, and when the token expires. Returns a function that stops watching.
 */
export function whileAllowed(
  ctx: Ctx,
  permission: Permission,
  end: () => void,
  { isUsed = () => true, also }: WhileAllowedOptions = {},
): () => void {
  const { actor, events, sql, clock, config } = ctx;
  if (actor.kind !== 'user') return () => {};
  let newest = actor;
  let stopped = false;
  let checking = false;
  let again = false;
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
    const used = isUsed();
    if (used && expires - now.getTime() <= before && expires > now.getTime()) {
      expires = refreshedExpiry(key, now, config).getTime();
      if (expires > key.expires_at.getTime()) await touchApiKey(sql, verifiedToken(actor), now, new Date(expires));
    }
    if (expires <= now.getTime()) return false;
    const left = expires - now.getTime();
    if (!stopped) later(used && left > before ? left - before : left);
    newest = actorOf(user, key, config);
    try {
      await permission({ ...ctx, actor: newest, signal: AbortSignal.any([]) });
      return true;
    } catch (err) {
      if (isAppError(err)) return false;
      throw err;
    }
  };
  // several changes together need one more check, which reads them all
  const check = () => {
    again = checking;
    if (checking) return;
    checking = true;
    void allowed()
      .then(
        (still) => {
          if (still || stopped) return;
          stop();
          end();
        },
        (err) => {
          ctx.log.warn('could not check an open stream', { err: errorText(err) });
          if (!stopped) later(LOOK_AGAIN_MS);
        },
      )
      .finally(() => {
        checking = false;
        if (again && !stopped) check();
      });
  };
  const off = [
    events.on('revoked', ({ user_ids = [], api_key_ids = [] }) => {
      if (user_ids.includes(actor.id) || api_key_ids.includes(actor.apiKeyId)) check();
    }),
    events.on('shares_changed', (shares) => sharesConcern(newest, shares) && check()),
    // the template's list of permitted users
    events.on('app_access_changed', ({ template_id: template }) => template !== undefined && check()),
    events.onResync(check),
    ...(also ? [also(check)] : []),
  ];
  const stop = () => {
    stopped = true;
    clearTimeout(timer);
    for (const each of off) each();
  };
  // the notification may have come after the token was verified and before this listener existed
  check();
  return stop;
}
