import type { Allowed, Outranked } from '../../authz/authorize.ts';
import type { SystemTask, VerifiedSignIn, VerifiedToken } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { UserRow } from '../rows.ts';

export interface ApiKeyRow {
  id: string;
  user_id: string;
  hashed_secret: Buffer;
  token_name: string;
  login_type: 'password' | 'github' | 'oidc' | 'token' | 'none' | 'oauth2_provider_app';
  /** What servers before there were scopes permit: less than the scopes. */
  scope: 'all' | 'application_connect';
  /** Names of scopes. Null: the one of `scope`. */
  scopes: string[] | null;
  /** Entries `type:id`. Never empty. */
  allow_list: string[];
  /** The token that created this one. Both are revoked together. */
  parent_id: string | null;
  lifetime_seconds: number;
  ip_address: string;
  /** The resource for which an app got the token. Null: every route. */
  audience: string | null;
  last_used: Date;
  expires_at: Date;
  created_at: Date;
  updated_at: Date;
}

/** Whether a person signed in with it, as opposed to tokens of people, of apps and of the server. */
export const isSession = ({ login_type: type }: Pick<ApiKeyRow, 'login_type'>): boolean =>
  type === 'password' || type === 'github' || type === 'oidc';

export async function apiKeyById(db: Db, id: string): Promise<ApiKeyRow | undefined> {
  const [row] = await db<ApiKeyRow[]>`SELECT * FROM api_keys WHERE id = ${id}`;
  return row;
}

/** The owner of a new key: the person who signs in, or a person whose keys the actor may create. */
export type KeyOwner = VerifiedSignIn | Allowed<'create', { type: 'api_key'; ownerId: string }>;

export type NewApiKey = Omit<
  ApiKeyRow,
  'user_id' | 'created_at' | 'updated_at' | 'last_used' | 'parent_id' | 'scopes' | 'allow_list' | 'audience'
> & {
  audience?: string;
  parent_id?: string;
  scopes?: string[];
  allow_list?: string[];
};

export async function insertApiKey(db: Db, owner: KeyOwner, key: NewApiKey): Promise<ApiKeyRow> {
  const user_id = 'userId' in owner ? owner.userId : owner.ownerId;
  const [row] = await db<ApiKeyRow[]>`INSERT INTO api_keys ${db({ ...key, user_id } as never)} RETURNING *`;
  return row!;
}

/** A key that made the request, or that the actor may delete. */
export type RevocableKey = VerifiedToken | Allowed<'delete', ApiKeyRow>;

/** Deletes a key and all keys that were created with it, recursively. Returns their ids. */
export async function deleteApiKey(tx: Tx, key: RevocableKey): Promise<string[]> {
  const id = 'apiKeyId' in key ? key.apiKeyId : key.id;
  const children = await tx<{ id: string }[]>`WITH RECURSIVE made (id) AS (
      SELECT id FROM api_keys WHERE parent_id = ${id}
      UNION SELECT k.id FROM api_keys k JOIN made ON k.parent_id = made.id)
    SELECT id FROM made`;
  const ids = [id, ...children.map((child) => child.id)];
  await tx`DELETE FROM api_keys WHERE id = ANY(${ids})`;
  return ids;
}

/** Expires a key and all keys that were created with it, unless they have expired. Returns the ids of the expired ones. */
export async function expireApiKey(tx: Tx, { id }: Allowed<'update', ApiKeyRow>, at: Date): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`WITH RECURSIVE made (id) AS (
      SELECT id FROM api_keys WHERE id = ${id}
      UNION SELECT k.id FROM api_keys k JOIN made ON k.parent_id = made.id)
    UPDATE api_keys SET expires_at = ${at}, updated_at = ${at}
    WHERE id IN (SELECT id FROM made) AND expires_at > ${at} RETURNING id`;
  return rows.map((row) => row.id);
}

/** Deletes all keys of a person but one. */
export async function deleteOtherApiKeys(
  tx: Tx,
  user: Outranked<Allowed<'update_personal', UserRow>> | Outranked<Allowed<'update', UserRow>>,
  keptId: string,
): Promise<void> {
  await tx`DELETE FROM api_keys WHERE user_id = ${user.id} AND id <> ${keptId}`;
}

/** Records a use. It extends a session, but not an API token. */
export async function touchApiKey(db: Db, { apiKeyId }: VerifiedToken, at: Date, expiresAt: Date): Promise<void> {
  await db`UPDATE api_keys SET last_used = ${at}, updated_at = ${at}, expires_at = ${expiresAt} WHERE id = ${apiKeyId}`;
}

/** Tokens by age: of one person or of everyone, and without those that expired before `after`. */
export async function apiTokens(db: Db, userId: string | undefined, after: Date | undefined): Promise<ApiKeyRow[]> {
  return db<ApiKeyRow[]>`SELECT * FROM api_keys WHERE login_type = 'token'
    ${userId === undefined ? db`` : db`AND user_id = ${userId}`}
    ${after === undefined ? db`` : db`AND expires_at > ${after}`} ORDER BY created_at, id`;
}

export async function apiTokenByName(db: Db, userId: string, name: string): Promise<ApiKeyRow | undefined> {
  const [row] = await db<
    ApiKeyRow[]
  >`SELECT * FROM api_keys WHERE login_type = 'token' AND user_id = ${userId} AND token_name = ${name}`;
  return row;
}

/** The keys among these that exist and have not expired at this time. */
export async function validApiKeys(db: Db, ids: string[], at: Date): Promise<ApiKeyRow[]> {
  return db<ApiKeyRow[]>`SELECT * FROM api_keys WHERE id = ANY(${ids}::text[]) AND expires_at > ${at}`;
}

/** The keys among these that were deleted. */
export async function deletedApiKeys(db: Db, ids: string[]): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT k.id FROM unnest(${ids}::text[]) AS k (id)
    WHERE NOT EXISTS (SELECT FROM api_keys WHERE api_keys.id = k.id)`;
  return rows.map(({ id }) => id);
}

/** The sessions of a person that have not expired at this time. */
export async function sessionKeys(db: Db, userId: string, at: Date): Promise<ApiKeyRow[]> {
  return db<ApiKeyRow[]>`SELECT * FROM api_keys WHERE user_id = ${userId} AND scope = 'all' AND expires_at > ${at}
    AND login_type IN ('password', 'github', 'oidc') ORDER BY last_used DESC, id`;
}

/** Deletes the sessions of a person but one, and the keys that were created with them. Returns the ids of all. */
export async function deleteSessions(
  tx: Tx,
  { ownerId }: Allowed<'delete', { type: 'api_key'; ownerId: string }>,
  keptId: string,
): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`WITH RECURSIVE made (id) AS (
      SELECT id FROM api_keys WHERE user_id = ${ownerId} AND id <> ${keptId} AND scope = 'all'
        AND login_type IN ('password', 'github', 'oidc')
      UNION SELECT k.id FROM api_keys k JOIN made ON k.parent_id = made.id)
    DELETE FROM api_keys WHERE id IN (SELECT id FROM made) RETURNING id`;
  return rows.map(({ id }) => id);
}

/**
 * Deletes sessions and tokens that expired before this time. An access token stays as long as its refresh token, which
 * ends with it.
 */
export async function purgeExpiredKeys(
  db: Db,
  _task: SystemTask,
  { before, most }: { before: Date; most: number },
): Promise<number> {
  const { count } = await db`DELETE FROM api_keys WHERE id = ANY (ARRAY(SELECT k.id FROM api_keys k
    WHERE k.expires_at < ${before}
      AND NOT EXISTS (SELECT FROM oauth2_provider_app_tokens t WHERE t.api_key_id = k.id) LIMIT ${most} FOR UPDATE SKIP LOCKED))`;
  return count;
}
