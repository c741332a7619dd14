import type {
  APIKey,
  APIKeyWithOwner,
  CreateTokenRequest,
  ExternalAPIKeyScopes,
  GenerateAPIKeyResponse,
  TokenConfig,
  UserSession,
} from '@ropewalk/contract';
import { allowEntryProblem, canonicalScope, normalizeAllowList, TOKEN_SCOPES } from '@ropewalk/contract/token-scopes';
import { AppError, formatDuration } from '@ropewalk/kit';
import { type Allowed, allow, authorize, may } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { covers, FULL_SCOPE, isAppsOnly, type TokenScope, tokenScope } from '../../authz/scope.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import {
  type ApiKeyRow,
  apiKeyById,
  apiTokenByName,
  apiTokens,
  deleteSessions,
  expireApiKey,
  isSession,
  sessionKeys,
} from '../../db/queries/apikeys.ts';
import { usernames } from '../../db/queries/users.ts';
import type { UserRow } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requireTokenRoom } from '../context/limits.ts';
import { issueToken, type NewSession, revokeToken, scopeOfKey } from '../context/session.ts';
import { findUser, requirePerson } from '../find/user.ts';
import { beginInTurn } from '../lists/turns.ts';
import { time } from '../values/time.ts';
import { randomText } from '../values/token.ts';

type CreatableKey = Allowed<'create', { type: 'api_key'; ownerId: string }>;

const NANOSECONDS_PER_MS = 1_000_000;
/** The lifetime of keys for a program that acts as the person, for example an editor. */
const KEY_LIFETIME_MS = 7 * 24 * 3_600_000;

/** The scope by its older name. Undefined for a token with other limits. */
function olderScope(scope: TokenScope): APIKey['scope'] {
  if (isAppsOnly(scope)) return 'application_connect';
  return scope.names.includes('coder:all') ? 'all' : undefined;
}

function toApiKey(row: ApiKeyRow): APIKey {
  const scope = scopeOfKey(row);
  const older = olderScope(scope);
  return {
    id: row.id,
    user_id: row.user_id,
    token_name: row.token_name,
    login_type: row.login_type,
    ...(older ? { scope: older } : {}),
    scopes: [...scope.names],
    allow_list: [...scope.allowList],
    lifetime_seconds: row.lifetime_seconds,
    last_used: time(row.last_used),
    expires_at: time(row.expires_at),
    created_at: time(row.created_at),
    updated_at: time(row.updated_at),
  };
}

function longestLifetime(ctx: Ctx, user: UserRow): number {
  return user.rbac_roles.includes('owner') ? ctx.config.maxAdminTokenLifetime : ctx.config.maxTokenLifetime;
}

/** Creates a session key that is valid for a week, to hand to a program. */
export async function createKey(ctx: Ctx, user: string): Promise<GenerateAPIKeyResponse> {
  const owner = await findUser(ctx, 'read', user);
  requirePerson(owner);
  const allowed = authorize(ctx, 'create', { type: 'api_key', ownerId: owner.id });
  const own = await ownKey(ctx);
  const maker = own && isToken(own) ? makerOf(own) : undefined;
  // use extends a session, but not a key that a token created. A session of a provider ends when the provider says so
  const session = maker
    ? { loginType: 'none' as const, lifetimeMs: KEY_LIFETIME_MS, parent: maker }
    : { loginType: own?.login_type ?? ('password' as const), lifetimeMs: KEY_LIFETIME_MS };
  return {
    key: await beginInTurn(ctx, async (tx) => {
      await requireTokenRoom(ctx, tx, owner, false);
      return createRecorded(ctx, tx, allowed, { ...session, scope: scopeOfMaker(ctx) });
    }),
  };
}

/** Creates a key with its audit entry. */
async function createRecorded(ctx: Ctx, tx: Tx, owner: CreatableKey, session: NewSession): Promise<string> {
  const { text, key } = await issueToken(ctx, owner, session, tx);
  await audit(ctx, tx, { ...entryOf(key), action: 'create', status: 201, after: key });
  return text;
}

/** An entry about a key. Keys have no uuid, so the entry names the owner's, and the key itself in its fields. */
const entryOf = (row: ApiKeyRow) => ({
  resourceType: 'api_key',
  resourceId: row.user_id,
  target: row.token_name,
  fields: { api_key_id: row.id, scopes: [...scopeOfKey(row).names], allow_list: row.allow_list },
});

/** The key that makes the request. */
const ownKey = async ({ actor, sql }: Ctx): Promise<ApiKeyRow | undefined> =>
  actor.kind === 'user' ? apiKeyById(sql, actor.apiKeyId) : undefined;

const isToken = (key: ApiKeyRow): boolean => !isSession(key);

const makerOf = (key: ApiKeyRow) => ({ id: key.id, expiresAt: key.expires_at });

/** The token that makes the request, as opposed to a session. Keys that it creates expire with it. */
async function makerToken(ctx: Ctx): Promise<ReturnType<typeof makerOf> | undefined> {
  const key = await ownKey(ctx);
  return key && isToken(key) ? makerOf(key) : undefined;
}

const scopeOfMaker = ({ actor }: Pick<Ctx, 'actor'>): TokenScope => (actor.kind === 'user' ? actor.scope : FULL_SCOPE);

/** The requested limits. By default, those of the token that makes the request, which a new one cannot exceed. */
function requestedScope(ctx: Ctx, { scope, scopes = [], allow_list: allowList = [] }: CreateTokenRequest): TokenScope {
  const invalid = (field: string, detail: string) =>
    new AppError('invalid', 'Failed to create API key.', { detail, validations: [{ field, detail }] });
  const maker = scopeOfMaker(ctx);
  const asked = scopes.length > 0 ? scopes : scope ? [scope] : maker.names;
  const names = [...new Set(asked.map(canonicalScope))];
  const unknown = names.find((name) => !TOKEN_SCOPES.has(name));
  if (unknown !== undefined)
    throw invalid(
      'scopes',
      `invalid or unsupported API key scope: ${JSON.stringify(unknown)}. GET /auth/scopes lists them`,
    );
  for (const entry of allowList) {
    const problem = allowEntryProblem(entry.trim());
    if (problem !== undefined) throw invalid('allow_list', problem);
  }
  const wanted = tokenScope(names, allowList.length > 0 ? normalizeAllowList(allowList) : maker.allowList);
  if (covers(maker, wanted)) return wanted;
  throw new AppError('forbidden', 'Forbidden.', {
    detail: 'A token cannot create a token that may do more. Choose scopes and objects of the token that you use.',
  });
}

/** Creates a named token. Its lifetime is in nanoseconds; 0 or absent means the default. */
export async function createToken(ctx: Ctx, user: string, input: CreateTokenRequest): Promise<GenerateAPIKeyResponse> {
  const owner = await findUser(ctx, 'read', user);
  requirePerson(owner);
  const allowed = authorize(ctx, 'create', { type: 'api_key', ownerId: owner.id });
  const scope = requestedScope(ctx, input);
  const longest = longestLifetime(ctx, owner);
  const asked = (input.lifetime ?? 0) / NANOSECONDS_PER_MS;
  const invalid = (detail: string) =>
    new AppError('invalid', 'Failed to validate create API key request.', {
      detail,
      validations: [{ field: 'lifetime', detail }],
    });
  if (asked < 0) throw invalid('lifetime must be positive');
  if (asked > longest) throw invalid(`lifetime must be at most ${formatDuration(longest)}`);
  if (asked !== 0 && asked < 1000) throw invalid('lifetime must be at least one second');
  const maker = await makerToken(ctx);
  const leftMs = maker ? maker.expiresAt.getTime() - ctx.clock.now().getTime() : Number.POSITIVE_INFINITY;
  if (asked > leftMs)
    throw invalid(
      `lifetime must be at most ${formatDuration(Math.floor(leftMs / 1000) * 1000)}, the remaining lifetime of the token that ` +
        'makes this request. Sign in with a password to create a token with a longer lifetime.',
    );
  const name = input.token_name || `token-${randomText(8).toLowerCase()}`;
  if (name.length > 64 || /\s|\//.test(name)) {
    const detail = 'must be at most 64 characters, without spaces or slashes';
    throw new AppError('invalid', 'Invalid token name.', { validations: [{ field: 'token_name', detail }] });
  }
  try {
    return await beginInTurn(ctx, async (tx) => {
      await requireTokenRoom(ctx, tx, owner, true);
      const session = {
        loginType: 'token',
        lifetimeMs: asked || Math.min(ctx.config.defaultTokenLifetime, longest),
        parent: maker,
        tokenName: name,
        scope,
      } as const;
      return { key: await createRecorded(ctx, tx, allowed, session) };
    });
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `A token with name "${name}" already exists.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
}

interface TokensQuery {
  include_all?: boolean;
  include_expired?: boolean;
}

/** Lists the user's tokens. With `include_all`, every token that the actor may read. */
export async function listTokens(ctx: Ctx, user: string, query: TokensQuery): Promise<APIKeyWithOwner[]> {
  const owner = await findUser(ctx, 'read', user);
  authorize(ctx, 'read', { type: 'api_key', ownerId: owner.id });
  const everybody = query.include_all && may(ctx.actor, 'read', { type: 'api_key' });
  const rows = await apiTokens(
    ctx.sql,
    everybody ? undefined : owner.id,
    query.include_expired ? undefined : ctx.clock.now(),
  );
  const names = new Map([[owner.id, owner.username]]);
  const others = rows.map((row) => row.user_id).filter((id) => !names.has(id));
  if (others.length > 0) {
    for (const [id, username] of await usernames(ctx.sql, others)) names.set(id, username);
  }
  return rows.map((row) => ({ ...toApiKey(row), username: names.get(row.user_id) ?? '' }));
}

async function findKey<A extends 'read' | 'update' | 'delete'>(
  ctx: Ctx,
  user: string,
  action: A,
  load: (ownerId: string) => Promise<ApiKeyRow | undefined>,
): Promise<Allowed<A, ApiKeyRow>> {
  const owner = await findUser(ctx, 'read', user);
  const row = await load(owner.id);
  if (!row) throw notFound();
  return allow(ctx, action, row, { type: 'api_key', ownerId: row.user_id });
}

export async function getTokenByName(ctx: Ctx, user: string, name: string): Promise<APIKey> {
  return toApiKey(await findKey(ctx, user, 'read', (ownerId) => apiTokenByName(ctx.sql, ownerId, name)));
}

export async function getKey(ctx: Ctx, user: string, id: string): Promise<APIKey> {
  return toApiKey(await findKey(ctx, user, 'read', () => apiKeyById(ctx.sql, id)));
}

export async function deleteKey(ctx: Ctx, user: string, id: string): Promise<undefined> {
  const row = await findKey(ctx, user, 'delete', () => apiKeyById(ctx.sql, id));
  await revokeToken(ctx, row, (tx) => audit(ctx, tx, { ...entryOf(row), action: 'delete', status: 204, before: row }));
}

/** Ends a key, and the keys that were created with it. Lists still contain it with `include_expired`. */
export async function expireKey(ctx: Ctx, user: string, id: string): Promise<undefined> {
  const row = await findKey(ctx, user, 'update', () => apiKeyById(ctx.sql, id));
  const now = ctx.clock.now();
  await ctx.sql.begin(async (tx) => {
    const ids = await expireApiKey(tx, row, now);
    if (ids.length === 0) return;
    const after = { ...row, expires_at: now };
    await audit(ctx, tx, { ...entryOf(row), action: 'write', status: 204, before: row, after });
    await ctx.events.publish(tx, 'revoked', { api_key_ids: ids });
  });
}

/** The names of the scopes that a token can have. */
export const listScopes = (): ExternalAPIKeyScopes => ({ external: [...TOKEN_SCOPES.keys()] });

/** The sessions in which a person is signed in: browsers and programs, but not tokens. The last used one first. */
export async function listSessions(ctx: Ctx, user: string): Promise<UserSession[]> {
  const owner = await findUser(ctx, 'read', user);
  authorize(ctx, 'read', { type: 'api_key', ownerId: owner.id });
  const current = ctx.actor.kind === 'user' ? ctx.actor.apiKeyId : '';
  const rows = await sessionKeys(ctx.sql, owner.id, ctx.clock.now());
  return rows.map((row) => ({
    id: row.id,
    login_type: row.login_type,
    ip_address: row.ip_address,
    created_at: time(row.created_at),
    last_used: time(row.last_used),
    expires_at: time(row.expires_at),
    current: row.id === current,
  }));
}

/** Signs a person out everywhere. One's own current session stays. */
export async function revokeSessions(ctx: Ctx, user: string): Promise<undefined> {
  const owner = await findUser(ctx, 'read', user);
  const place = authorize(ctx, 'delete', { type: 'api_key', ownerId: owner.id });
  const kept = ctx.actor.kind === 'user' ? ctx.actor.apiKeyId : '';
  await ctx.sql.begin(async (tx) => {
    const ids = await deleteSessions(tx, place, kept);
    if (ids.length === 0) return;
    await audit(ctx, tx, {
      resourceType: 'api_key',
      resourceId: owner.id,
      target: owner.username,
      action: 'delete',
      status: 204,
      fields: { api_key_ids: ids },
    });
    await ctx.events.publish(tx, 'revoked', { api_key_ids: ids });
  });
}

/** The longest lifetime that a token of this user may have, in nanoseconds. */
export async function tokenConfig(ctx: Ctx, user: string): Promise<TokenConfig> {
  return { max_token_lifetime: longestLifetime(ctx, await findUser(ctx, 'read', user)) * NANOSECONDS_PER_MS };
}
