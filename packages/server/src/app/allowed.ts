import { errorText } from '@platform/kit';
import { type AuthzObject, may } from '../authz/authorize.ts';
import type { Action } from '../authz/policy.ts';
import { apiKeyById } from '../db/queries/apikeys.ts';
import { userById } from '../db/queries/users.ts';
import type { Ctx } from './context.ts';
import { actorOf } from './session.ts';

/** What an open stream goes on for. */
export interface Permission {
  action: Action;
  object: AuthzObject;
}

/**
 * Calls `end` when the token or person behind an open stream may not have it any more: asked anew at each word of a
 * revocation or change. Gives back how to stop watching.
 */
export function whileAllowed(ctx: Ctx, permission: Permission | undefined, end: () => void): () => void {
  const { actor, events, sql } = ctx;
  if (actor.kind !== 'user') return () => {};
  const look = async () => {
    const [key, user] = await Promise.all([apiKeyById(sql, actor.apiKeyId), userById(sql, actor.id)]);
    const valid = key && user && user.status !== 'suspended';
    if (valid && (!permission || may(actorOf(user, key), permission.action, permission.object))) return;
    end();
  };
  const check = () =>
    void look().catch((err) => ctx.log.warn('could not check an open stream', { err: errorText(err) }));
  const off = [
    events.on('revoked', ({ user_ids = [], api_key_ids = [] }) => {
      if (user_ids.includes(actor.id) || api_key_ids.includes(actor.apiKeyId)) check();
    }),
    events.onResync(check),
  ];
  // the word may have come after the token was verified and before anybody listened here
  check();
  return () => {
    for (const stop of off) stop();
  };
}
