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
  /** The grant of a visitor without a session, if everyone may use the app. Counts as no use of it. */
  askForAnyone(address: AppAddress): Promise<AppGrant | undefined>;
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
  return new ServerAppGrants(services, tokens);
}

class ServerAppGrants implements AppGrants {
  readonly #services: Services;
  readonly #tokens: AppTokens;
  readonly #off: (() => void)[];
  readonly #timer: NodeJS.Timeout;
  /** Verified grants by their token: each signature is checked once. */
  readonly #read = new Map<string, AppGrant>();
  readonly #given = new Map<string, { grant: AppGrant; token: string }>();
  /** The open streams. */
  readonly #live = new ShortLived<Live>();
  /**
   * The ids that grants depend on, each with a time in ms since 1970. Grants issued up to that time are no longer
   * valid.
   */
  readonly #distrusted = new Map<string, number>();
  #distrustedAll = 0;

  constructor(services: Services, tokens: AppTokens) {
    const { events, log } = services;
    this.#services = services;
    this.#tokens = tokens;
    const revoked = ({ api_key_ids = [], user_ids = [] }: EventMap['revoked']) =>
      this.#distrust([...api_key_ids, ...user_ids], CLOCK_SLACK_MS);
    this.#off = [
      events.onPublish('revoked', revoked),
      events.on('revoked', revoked),
      events.on('workspace_changed', ({ workspace_id }) => this.#distrust([workspace_id])),
      events.on('app_access_changed', ({ workspace_id, template_id }) =>
        this.#distrust(
          [workspace_id, template_id].filter((id) => id !== undefined),
          CLOCK_SLACK_MS,
        ),
      ),
      events.onResync(() => this.#distrustAll()),
    ];
    this.#timer = setInterval(
      () => void this.#sweep().catch((err) => log.debug('could not check open apps', { err: errorText(err) })),
      SWEEP_MS,
    );
    this.#timer.unref();
  }

  held(token: string, address: AppAddress): AppGrant | undefined {
    let grant = this.#read.get(token);
    if (!grant) {
      grant = this.#tokens.read(token);
      if (!grant) return undefined;
      if (this.#read.size >= MAX_REMEMBERED) this.#read.clear();
      this.#read.set(token, grant);
    }
    if (grant.base !== address.base || grant.kind !== address.kind) return undefined;
    return this.#holds(grant) ? grant : undefined;
  }

  async ask(actor: Actor, address: AppAddress): Promise<{ grant: AppGrant; token: string }> {
    const id = `${actor.kind === 'user' ? actor.apiKeyId : ''} ${address.kind} ${address.base}`;
    const known = this.#given.get(id);
    if (known && this.#holds(known.grant)) return known;
    const grant = await grantAccess(this.#services, actor, address);
    noteWorkspaceUse(this.#services, grant.workspace, address.app);
    const fresh = { grant, token: this.#tokens.sign(grant) };
    if (this.#given.size >= MAX_REMEMBERED) this.#given.clear();
    this.#given.set(id, fresh);
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
    const one = { grant, address, end, at: -1 };
    this.#live.add(one);
    // a change that was announced between the query and this moment did not reach this stream's watcher
    if (!this.#holds(grant)) this.#lookAgain((other) => other === grant);
    return () => this.#live.delete(one);
  }

  close(): void {
    clearInterval(this.#timer);
    for (const stop of this.#off) stop();
  }

  /** Whether a grant is still valid, as far as this server knows. */
  #holds(grant: AppGrant): boolean {
    const now = this.#services.clock.now().getTime();
    if (grant.expires <= now || grant.issued > now + GRANT_MS || grant.issued <= this.#distrustedAll) return false;
    if (this.#distrusted.size === 0) return true;
    return dependsOn(grant).every((id) => grant.issued > (this.#distrusted.get(id) ?? 0));
  }

  #distrust(ids: string[], slack = 0): void {
    const now = this.#services.clock.now().getTime();
    for (const id of ids) this.#distrusted.set(id, now + slack);
    const of = new Set(ids);
    this.#lookAgain((grant) => dependsOn(grant).some((id) => of.has(id)));
  }

  #distrustAll(): void {
    this.#distrustedAll = this.#services.clock.now().getTime() + CLOCK_SLACK_MS;
    this.#lookAgain(() => true);
  }

  /** Asks again for these grants of open streams, and ends the streams that are no longer permitted. */
  #lookAgain(which: (grant: AppGrant) => boolean): void {
    const asked = new Map<string, Promise<boolean>>();
    for (const one of this.#live.all()) {
      if (!which(one.grant)) continue;
      const id = `${one.grant.key} ${one.grant.base}`;
      const answer = asked.get(id) ?? this.#mayStill(one);
      asked.set(id, answer);
      answer.then(
        (may) => {
          if (!may) one.end();
        },
        (err) => this.#services.log.warn('could not check an open app', { err: errorText(err) }),
      );
    }
  }

  async #mayStill({ grant, address }: Live): Promise<boolean> {
    const { sql, clock, config } = this.#services;
    let actor: Actor = { kind: 'none' };
    if (grant.key) {
      const [key, user] = await Promise.all([apiKeyById(sql, grant.key), userById(sql, grant.user)]);
      if (!key || !user || user.status === 'suspended' || key.expires_at <= clock.now()) return false;
      actor = actorOf(user, key, config);
    }
    try {
      await grantAccess(this.#services, actor, address);
      return true;
    } catch (err) {
      if (isAppError(err, 'unauthenticated') || isAppError(err, 'not_found')) return false;
      // the user still has access, but the app cannot be reached: the stream ends on its own
      if (isAppError(err)) return true;
      throw err;
    }
  }

  /** Forgets expired grants, and ends streams whose sessions have expired. */
  async #sweep(): Promise<void> {
    const { sql, clock } = this.#services;
    const now = clock.now().getTime();
    for (const [text, grant] of this.#read) if (grant.expires <= now) this.#read.delete(text);
    for (const [id, { grant }] of this.#given) if (grant.expires <= now) this.#given.delete(id);
    for (const [id, at] of this.#distrusted) if (at + GRANT_MS < now) this.#distrusted.delete(id);
    const long = this.#live.all().filter(({ grant }) => grant.key !== '' && grant.expires <= now);
    if (long.length === 0) return;
    const keys = await validApiKeys(sql, [...new Set(long.map(({ grant }) => grant.key))], clock.now());
    const valid = new Set(keys.map(({ id }) => id));
    for (const one of long) if (!valid.has(one.grant.key)) one.end();
  }
}

const dependsOn = ({ user, key, workspace, template }: AppGrant) => [user, key, workspace, template];
