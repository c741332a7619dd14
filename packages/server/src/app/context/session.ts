import { ALLOW_ALL, canonicalScope } from '@ropewalk/contract/token-scopes';
import { AppError } from '@ropewalk/kit';
import { heldRoles, type UserActor } from '../../authz/actor.ts';
import { verifiedToken } from '../../authz/proofs.ts';
import { FULL_SCOPE, isAppsOnly, isFull, type TokenScope, tokenScope } from '../../authz/scope.ts';
import type { Db, Tx } from '../../db/connect.ts';
import type { EventMap } from '../../db/events.ts';
import {
  type ApiKeyRow,
  apiKeyById,
  deleteApiKey,
  insertApiKey,
  isSession,
  type KeyOwner,
  type RevocableKey,
  touchApiKey,
} from '../../db/queries/apikeys.ts';
import { touchUser, userById } from '../../db/queries/users.ts';
import type { UserWithAccess } from '../../db/rows.ts';
import { audienceIncludes } from '../values/audience.ts';
import { hashOfSecret, newToken, sameBytes, splitToken, type TokenMark } from '../values/token.ts';
import type { Ctx, Services } from './context.ts';

/**
 * How long a verified token is trusted without a database query, in ms. Revocations take effect sooner, by
 * notification.
 */
const BELIEVED_MS = 5_000;
const MAX_REMEMBERED = 10_000;
/** The shortest time between two writes of a token's last use, in ms. */
const TOUCH_MS = 60_000;

interface Session {
  actor: UserActor;
  user: UserWithAccess;
  secretHash: Buffer;
  /** The kind of token, with a different hash for each. */
  mark: TokenMark;
  /** The resource for which an app got the token. Null: every route. */
  audience: string | null;
  expiresAt: number;
  believedUntil: number;
}

/** Verifies tokens and remembers the results for a moment. One per server. */
export interface Sessions {
  /**
   * The user of a token. Throws `unauthenticated` with the reason in `detail`.
   * @param path of the request, with or without its query. Without it, tokens that apps got for a part of this server are
   *   rejected.
   */
  verify(token: string, path?: string): Promise<{ actor: UserActor; user: UserWithAccess }>;
  /** Like `verify`, for a token that was verified in the last few seconds. Undefined for any other token. */
  remembered(token: string, path?: string): { actor: UserActor; user: UserWithAccess } | undefined;
  /**
   * Forgets the remembered tokens of users, here and (by event) on every server. Call it after any change of a user.
   */
  changed(userIds: string[]): void;
  close(): void;
}

const signedOut = (detail: string) =>
  new AppError('unauthenticated', 'You are signed out or your session has expired. Please sign in again to continue.', {
    detail,
  });

/** The columns of a key that limit it. */
export type TokenLimits = Pick<ApiKeyRow, 'scope' | 'scopes' | 'allow_list'>;

/** No limits, as a key that does not exist: the server acts in the name of its owner. */
export const WHOLE_PERSON = {
  id: '',
  scope: 'all',
  scopes: null,
  allow_list: [ALLOW_ALL],
} as const satisfies TokenLimits & {
  id: string;
};

export const scopeOfKey = ({ scope, scopes, allow_list }: TokenLimits): TokenScope =>
  tokenScope(scopes ?? [canonicalScope(scope)], allow_list);

export function actorOf(
  user: UserWithAccess,
  key: TokenLimits & { id: string },
  config: Pick<Services['config'], 'disableOwnerWorkspaceAccess' | 'disableWorkspaceSharing'>,
): UserActor {
  return {
    kind: 'user',
    id: user.id,
    username: user.username,
    email: user.email,
    roles: user.rbac_roles,
    organizations: new Map(Object.entries(user.organizations)),
    groups: new Set(user.groups),
    held: heldRoles({
      site: user.rbac_roles,
      organizations: user.organizations,
      custom: user.custom_roles,
      defaults: user.default_roles,
      ownersReach: !config.disableOwnerWorkspaceAccess,
      shareable: config.disableWorkspaceSharing ? undefined : user.shareable_owners,
      isServiceAccount: user.is_service_account,
    }),
    scope: scopeOfKey(key),
    apiKeyId: key.id,
    account: user,
  };
}

/** The new expiry of a session that is used now. Tokens, and app tokens created with them, keep their expiry. */
export function refreshedExpiry(key: ApiKeyRow, now: Date, config: Services['config']): Date {
  if (!isSession(key) || config.disableSessionExpiryRefresh) return key.expires_at;
  const lifetime = Math.min(key.lifetime_seconds * 1000, config.sessionDuration);
  return new Date(Math.max(key.expires_at.getTime(), now.getTime() + lifetime));
}

const markOf = ({ login_type: type, scopes }: Pick<ApiKeyRow, 'login_type' | 'scopes'>): TokenMark =>
  type === 'oauth2_provider_app' ? 'oauth2' : scopes === null ? '' : 'scoped';

export function createSessions(services: Services): Sessions {
  const { sql, clock, events, config } = services;
  const known = new Map<string, Session>();
  // a result that was read during a change may be outdated, so it is not kept
  let changes = 0;
  const forget = (match: (session: Session, id: string) => boolean) => {
    changes++;
    for (const [id, session] of known) if (match(session, id)) known.delete(id);
  };
  const revoked = ({ api_key_ids = [], user_ids = [] }: EventMap['revoked']) =>
    forget((session, id) => api_key_ids.includes(id) || user_ids.includes(session.user.id));
  const off = [
    // applied immediately, so that users who change their own account see it in the next request, before the event arrives
    events.onPublish('revoked', revoked),
    events.on('revoked', revoked),
    events.onResync(() => forget(() => true)),
  ];

  async function load(id: string, secret: string): Promise<Session> {
    const key = await apiKeyById(sql, id);
    if (!key) throw signedOut('Token not found.');
    if (!sameBytes(key.hashed_secret, hashOfSecret(secret, markOf(key)))) throw signedOut('Token not found.');
    const now = clock.now();
    if (key.expires_at <= now) throw signedOut('Token has expired.');
    const user = await userById(sql, key.user_id);
    if (!user) throw signedOut('The user of this token was deleted.');
    if (user.is_system) throw signedOut('This account belongs to the server. Nobody can sign in with it.');
    if (user.status === 'suspended') throw signedOut('The user is suspended. Contact an administrator.');
    const actor = actorOf(user, key, config);
    let expiresAt = key.expires_at;
    if (now.getTime() - key.last_used.getTime() > TOUCH_MS || user.status === 'dormant' || !user.last_seen_at) {
      expiresAt = refreshedExpiry(key, now, config);
      const shown = verifiedToken(actor);
      await touchApiKey(sql, shown, now, expiresAt);
      await touchUser(sql, shown, now);
      if (user.status === 'dormant') user.status = 'active';
      user.last_seen_at = now;
    }
    return {
      actor,
      user,
      secretHash: key.hashed_secret,
      mark: markOf(key),
      audience: key.audience,
      expiresAt: expiresAt.getTime(),
      believedUntil: clock.monotonic() + BELIEVED_MS,
    };
  }

  const partsOf = (token: string) => {
    const parts = splitToken(token);
    if (!parts) throw signedOut('The token is malformed.');
    return parts;
  };

  /** The session, unless it has expired or may not be used at this path. */
  function usable(session: Session, path: string | undefined): Session {
    if (session.expiresAt <= clock.now().getTime()) throw signedOut('Token has expired.');
    if (session.audience !== null && !audienceIncludes(session.audience, services.accessUrl, path))
      throw signedOut('The audience of the token is another resource.');
    return session;
  }

  function remembered(token: string, path?: string): Session | undefined {
    const { id, secret } = partsOf(token);
    const session = known.get(id);
    if (!session || session.believedUntil < clock.monotonic()) return undefined;
    if (!sameBytes(session.secretHash, hashOfSecret(secret, session.mark))) throw signedOut('Token not found.');
    return usable(session, path);
  }

  return {
    remembered,
    async verify(token, path) {
      const believed = remembered(token, path);
      if (believed) return believed;
      const { id, secret } = partsOf(token);
      const before = changes;
      const session = await load(id, secret);
      if (known.size >= MAX_REMEMBERED) known.clear();
      if (changes === before) known.set(id, session);
      return usable(session, path);
    },
    changed: (userIds) => forget((session) => userIds.includes(session.user.id)),
    close: () => {
      for (const stop of off) stop();
    },
  };
}

export interface NewSession {
  loginType: ApiKeyRow['login_type'];
  lifetimeMs: number;
  /** The token that created it. Both end together, so it expires no later, whatever its lifetime. */
  parent?: { id: string; expiresAt: Date } | undefined;
  tokenName?: string;
  /** Default: no limits. */
  scope?: TokenScope;
  /** The resource for which an app gets the token. Null or absent: every route. */
  audience?: string | null;
}

export interface IssuedToken {
  /** What its holder sends. It is not stored. */
  text: string;
  key: ApiKeyRow;
}

/** Creates a token. */
export async function issueToken(
  ctx: Ctx,
  owner: KeyOwner,
  session: NewSession,
  db: Db = ctx.sql,
): Promise<IssuedToken> {
  const { parent, scope = FULL_SCOPE } = session;
  const all = scope.allowList.includes(ALLOW_ALL);
  const scoped = !isFull(scope) && !(isAppsOnly(scope) && all);
  const token = newToken(session.loginType === 'oauth2_provider_app' ? 'oauth2' : scoped ? 'scoped' : '');
  const now = ctx.clock.now().getTime();
  const expiresAt = Math.min(now + session.lifetimeMs, parent?.expiresAt.getTime() ?? Number.POSITIVE_INFINITY);
  const key = await insertApiKey(db, owner, {
    id: token.id,
    hashed_secret: token.hashedSecret,
    token_name: session.tokenName ?? '',
    login_type: session.loginType,
    scope: !isFull(scope) ? 'application_connect' : 'all',
    ...(scoped ? { scopes: [...scope.names], allow_list: [...scope.allowList] } : {}),
    ...(parent ? { parent_id: parent.id } : {}),
    ...(session.audience ? { audience: session.audience } : {}),
    // the parent may have just expired
    lifetime_seconds: Math.max(0, Math.floor((expiresAt - now) / 1000)),
    ip_address: ctx.ip,
    expires_at: new Date(expiresAt),
  });
  return { text: token.text, key };
}

/** Revokes a token and the tokens created with it. `record` adds the audit entry in the transaction. */
export async function revokeToken(ctx: Ctx, key: RevocableKey, record: (tx: Tx) => Promise<void>): Promise<void> {
  await ctx.sql.begin(async (tx) => {
    await record(tx);
    await ctx.events.publish(tx, 'revoked', { api_key_ids: await deleteApiKey(tx, key) });
  });
}
