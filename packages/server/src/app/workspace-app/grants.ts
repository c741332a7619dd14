import { errorText, isAppError } from '@ropewalk/kit';
import type { Actor } from '../../authz/actor.ts';
import type { EventMap } from '../../db/events.ts';
import { apiKeyById, validApiKeys } from '../../db/queries/apikeys.ts';
import { userById } from '../../db/queries/users.ts';
import type { Services } from '../context/context.ts';
import type { AppGrant, AppTokens } from '../context/sealed-tokens.ts';
import { actorOf } from '../context/session.ts';
import type { AppAddress } from '../values/app-address.ts';
import { type Kept, ShortLived } from '../values/short-lived.ts';
import { GRANT_MS, grantAccess } from './access.ts';
import { noteWorkspaceUse } from './usage.ts';

const MAX_REMEMBERED = 10_000;
/** The largest allowed difference between the clocks of several servers, in ms. */
const CLOCK_SLACK_MS = 2_000;
const SWEEP_MS = 30_000;

/** Decides who may use which app right now, without a database query each time. One per server. */
export interface AppGrants {
  /** The grant in a token for this app, if it is still valid. Needs no query. */
  held(token: string, address: AppAddress): AppGrant | undefined;
  /** A new or remembered grant for this actor, with its token. Throws as grantAccess does. */
  ask(actor: Actor, address: AppAddress): Promise<{ grant: AppGrant; token: string }>;
  /** Calls `end` once the grant's user may no longer use the app. Returns a function that stops watching. */
  watch(grant: AppGrant, address: AppAddress, end: () => void): () => void;
  close(): void;
}

interface Live extends Kept {
  grant: AppGrant;
  address: AppAddress;
  end(): void;
}

export function createAppGrants(services: Services, tokens: AppTokens): AppGrants {
  const { sql, events, clock, log } = services;
  /** Verified grants by their token: each signature is checked once. */
  const read = new Map<string, AppGrant>();
  const given = new Map<string, { grant: AppGrant; token: string }>();
  const live = new ShortLived<Live>();
  /**
   * The ids that grants depend on, each with a time in ms since 1970. Grants issued up to that time are no longer
   * valid.
   */
  const distrusted = new Map<string, number>();
  let distrustedAll = 0;

  const dependsOn = ({ user, key, workspace, template }: AppGrant) => [user, key, workspace, template];
  const holds = (grant: AppGrant, now: number) => {
    if (grant.expires <= now || grant.issued > now + GRANT_MS || grant.issued <= distrustedAll) return false;
    return distrusted.size === 0 || dependsOn(grant).every((id) => grant.issued > (distrusted.get(id) ?? 0));
  };

  async function mayStill({ grant, address }: Live): Promise<boolean> {
    let actor: Actor = { kind: 'none' };
    if (grant.key) {
      const [key, user] = await Promise.all([apiKeyById(sql, grant.key), userById(sql, grant.user)]);
      if (!key || !user || user.status === 'suspended' || key.expires_at <= clock.now()) return false;
      actor = actorOf(user, key, services.config);
    }
    try {
      await grantAccess(services, actor, address);
      return true;
    } catch (err) {
      if (isAppError(err, 'unauthenticated') || isAppError(err, 'not_found')) return false;
      // the user still has access, but the app cannot be reached: the stream ends on its own
      if (isAppError(err)) return true;
      throw err;
    }
  }

  function lookAgain(which: (grant: AppGrant) => boolean): void {
    const asked = new Map<string, Promise<boolean>>();
    for (const one of live.all()) {
      if (!which(one.grant)) continue;
      const id = `${one.grant.key} ${one.grant.base}`;
      const answer = asked.get(id) ?? mayStill(one);
      asked.set(id, answer);
      answer.then(
        (may) => {
          if (!may) one.end();
        },
        (err) => log.warn('could not check an open app', { err: errorText(err) }),
      );
    }
  }

  function distrust(ids: string[], slack = 0): void {
    const now = clock.now().getTime();
    for (const id of ids) distrusted.set(id, now + slack);
    const of = new Set(ids);
    lookAgain((grant) => dependsOn(grant).some((id) => of.has(id)));
  }

  const revoked = ({ api_key_ids = [], user_ids = [] }: EventMap['revoked']) =>
    distrust([...api_key_ids, ...user_ids], CLOCK_SLACK_MS);
  const off = [
    events.onPublish('revoked', revoked),
    events.on('revoked', revoked),
    events.on('workspace_changed', ({ workspace_id }) => distrust([workspace_id])),
    events.on('app_access_changed', ({ workspace_id, template_id }) =>
      distrust(
        [workspace_id, template_id].filter((id) => id !== undefined),
        CLOCK_SLACK_MS,
      ),
    ),
    events.onResync(() => {
      distrustedAll = clock.now().getTime() + CLOCK_SLACK_MS;
      lookAgain(() => true);
    }),
  ];

  /** Forgets expired grants, and ends streams whose sessions have expired. */
  async function sweep(): Promise<void> {
    const now = clock.now().getTime();
    for (const [text, grant] of read) if (grant.expires <= now) read.delete(text);
    for (const [id, { grant }] of given) if (grant.expires <= now) given.delete(id);
    for (const [id, at] of distrusted) if (at + GRANT_MS < now) distrusted.delete(id);
    const long = live.all().filter(({ grant }) => grant.key !== '' && grant.expires <= now);
    if (long.length === 0) return;
    const keys = await validApiKeys(sql, [...new Set(long.map(({ grant }) => grant.key))], clock.now());
    const valid = new Set(keys.map(({ id }) => id));
    for (const one of long) if (!valid.has(one.grant.key)) one.end();
  }
  const timer = setInterval(
    () => void sweep().catch((err) => log.debug('could not check open apps', { err: errorText(err) })),
    SWEEP_MS,
  );
  timer.unref();

  return {
    held(token, address) {
      let grant = read.get(token);
      if (!grant) {
        grant = tokens.read(token);
        if (!grant) return undefined;
        if (read.size >= MAX_REMEMBERED) read.clear();
        read.set(token, grant);
      }
      if (grant.base !== address.base || grant.kind !== address.kind) return undefined;
      return holds(grant, clock.now().getTime()) ? grant : undefined;
    },
    async ask(actor, address) {
      const id = `${actor.kind === 'user' ? actor.apiKeyId : ''} ${address.kind} ${address.base}`;
      const known = given.get(id);
      if (known && holds(known.grant, clock.now().getTime())) return known;
      const grant = await grantAccess(services, actor, address);
      noteWorkspaceUse(services, grant.workspace, address.app);
      const fresh = { grant, token: tokens.sign(grant) };
      if (given.size >= MAX_REMEMBERED) given.clear();
      given.set(id, fresh);
      return fresh;
    },
    watch(grant, address, end) {
      const one = { grant, address, end, at: -1 };
      live.add(one);
      // a change that was announced between the query and this moment did not reach this stream's watcher
      if (!holds(grant, clock.now().getTime())) lookAgain((other) => other === grant);
      return () => live.delete(one);
    },
    close() {
      clearInterval(timer);
      for (const stop of off) stop();
    },
  };
}
