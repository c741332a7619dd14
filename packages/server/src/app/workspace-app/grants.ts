import { isAppError } from '@ropewalk/kit';
import type { Actor } from '../../authz/actor.ts';
import type { EventMap } from '../../db/events.ts';
import { apiKeyById, validApiKeys } from '../../db/queries/apikeys.ts';
import { userById } from '../../db/queries/users.ts';
import type { Services } from '../context/context.ts';
import type { AppGrant, AppTokens } from '../context/sealed-tokens.ts';
import { actorOf } from '../context/session.ts';
import type { AppAddress } from '../values/app-address.ts';
import { grantAccess } from './access.ts';
import { CLOCK_SLACK_MS, type Given, type Grant, HeldGrants, type OpenStream } from './held-grants.ts';
import { noteWorkspaceUse } from './usage.ts';

/** Decides who may use which app right now, without a database query each time. One per server. */
export interface AppGrants {
  /** The grant in a token for this app, if it is still valid. Needs no query. */
  held(token: string, address: AppAddress): AppGrant | undefined;
  /** A new or remembered grant for this actor, with its token. Throws as grantAccess does. */
  ask(actor: Actor, address: AppAddress): Promise<Given<AppGrant>>;
  /** The grant of a visitor without a session, if everyone may use the app. Counts as no use of it. */
  askForAnyone(address: AppAddress): Promise<AppGrant | undefined>;
  /** Calls `end` once the grant's user may no longer use the app. Returns a function that stops watching. */
  watch(grant: AppGrant, address: AppAddress, end: () => void): () => void;
  close(): void;
}

export function createAppGrants(services: Services, tokens: AppTokens): AppGrants {
  return new ServerAppGrants(services, tokens);
}

class ServerAppGrants implements AppGrants {
  readonly #services: Services;
  readonly #tokens: AppTokens;
  readonly #held: HeldGrants<AppGrant, AppAddress>;
  readonly #off: (() => void)[];

  constructor(services: Services, tokens: AppTokens) {
    const { log, clock } = services;
    this.#services = services;
    this.#tokens = tokens;
    this.#held = new HeldGrants({
      read: (token) => tokens.read(token),
      now: () => clock.now().getTime(),
      mayStill: (stream) => mayStill(services, stream),
      withExpiredSession: (streams) => withExpiredSession(services, streams),
      log,
    });
    this.#off = followRights(services, this.#held);
  }

  held(token: string, address: AppAddress): AppGrant | undefined {
    return this.#held.of(token, address);
  }

  async ask(actor: Actor, address: AppAddress): Promise<Given<AppGrant>> {
    const id = `${actor.kind === 'user' ? actor.apiKeyId : ''} ${address.kind} ${address.base}`;
    const known = this.#held.given(id);
    if (known) return known;
    const grant = await grantAccess(this.#services, actor, address);
    noteWorkspaceUse(this.#services, grant.workspace, address.app);
    const fresh = { grant, token: this.#tokens.sign(grant) };
    this.#held.remember(id, fresh);
    return fresh;
  }

  async askForAnyone(address: AppAddress): Promise<AppGrant | undefined> {
    try {
      return await grantAccess(this.#services, { kind: 'none' }, address);
    } catch (err) {
      if (isAppError(err)) return undefined;
      throw err;
    }
  }

  watch(grant: AppGrant, address: AppAddress, end: () => void): () => void {
    return this.#held.watch(grant, address, { end });
  }

  close(): void {
    this.#held.close();
    for (const stop of this.#off) stop();
  }
}

/** Makes grants invalid whenever the rights behind them change. Returns how to stop. */
export function followRights<G extends Grant, A>(
  { events }: Pick<Services, 'events'>,
  held: HeldGrants<G, A>,
): (() => void)[] {
  const revoked = ({ api_key_ids = [], user_ids = [] }: EventMap['revoked']) =>
    held.distrust([...api_key_ids, ...user_ids], CLOCK_SLACK_MS);
  return [
    events.onPublish('revoked', revoked),
    events.on('revoked', revoked),
    events.on('workspace_changed', ({ workspace_id }) => held.distrust([workspace_id])),
    events.on('app_access_changed', ({ workspace_id, template_id }) =>
      held.distrust(
        [workspace_id, template_id].filter((id) => id !== undefined),
        CLOCK_SLACK_MS,
      ),
    ),
    events.onResync(() => held.distrustAll()),
  ];
}

/** The visitor of a grant, with the rights of now. Undefined if the session has ended. */
export async function visitorOfGrant(
  { sql, clock, config }: Pick<Services, 'sql' | 'clock' | 'config'>,
  grant: Pick<Grant, 'key' | 'user'>,
): Promise<Actor | undefined> {
  if (!grant.key) return { kind: 'none' };
  const [key, user] = await Promise.all([apiKeyById(sql, grant.key), userById(sql, grant.user)]);
  if (!key || !user || user.status === 'suspended' || key.expires_at <= clock.now()) return undefined;
  return actorOf(user, key, config);
}

/** Whether the visitor of an open stream may still use its app. */
export async function mayStill(
  services: Services,
  { grant, address }: OpenStream<Grant, AppAddress>,
): Promise<boolean> {
  const actor = await visitorOfGrant(services, grant);
  if (!actor) return false;
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

/** Those of these streams whose sessions have expired. */
export async function withExpiredSession<S extends OpenStream<Grant, AppAddress>>(
  { sql, clock }: Services,
  streams: readonly S[],
): Promise<S[]> {
  const keys = await validApiKeys(sql, [...new Set(streams.map(({ grant }) => grant.key))], clock.now());
  const valid = new Set(keys.map(({ id }) => id));
  return streams.filter(({ grant }) => !valid.has(grant.key));
}
