// Codes and refresh tokens of apps. All refresh tokens that follow from one code are a family, which ends as a whole.

import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask, VerifiedToken } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import { type AppChange, appIdOf, type OAuth2SecretRow } from './oauth2-apps.ts';

export interface OAuth2CodeRow {
  id: string;
  secret_prefix: string;
  hashed_secret: Buffer;
  app_id: string;
  user_id: string;
  scopes: string[];
  /** As the request for the code contained it. Null: it was absent. */
  redirect_uri: string | null;
  resource_uri: string | null;
  code_challenge: string | null;
  /** The family of the tokens that were made from the code. Null: it is unused. */
  family: string | null;
  created_at: Date;
  expires_at: Date;
}

export interface OAuth2TokenRow {
  id: string;
  family: string;
  hash_prefix: string;
  refresh_hash: Buffer;
  app_id: string;
  /** The secret that the app used. Null: it is public. */
  app_secret_id: string | null;
  user_id: string;
  scopes: string[];
  audience: string | null;
  /** The access token. Null: the refresh token was used. */
  api_key_id: string | null;
  used_at: Date | null;
  created_at: Date;
  expires_at: Date;
}

/** Adds a code. Unused ones of the same app and person end, so that there is one at a time. */
export async function insertOAuth2Code(
  tx: Tx,
  { userId }: VerifiedToken,
  code: Omit<OAuth2CodeRow, 'id' | 'user_id' | 'family' | 'created_at'>,
): Promise<void> {
  await tx`DELETE FROM oauth2_provider_app_codes WHERE user_id = ${userId} AND app_id = ${code.app_id} AND family IS NULL`;
  await tx`INSERT INTO oauth2_provider_app_codes ${tx({ ...code, user_id: userId } as never)}`;
}

/** A code, which other transactions cannot use until this one ends. */
export async function lockOAuth2Code(tx: Tx, prefix: string): Promise<OAuth2CodeRow | undefined> {
  const [row] = await tx<OAuth2CodeRow[]>`SELECT * FROM oauth2_provider_app_codes WHERE secret_prefix = ${prefix}
    FOR UPDATE`;
  return row;
}

export async function useOAuth2Code(tx: Tx, _by: SystemTask, id: string, family: string): Promise<void> {
  await tx`UPDATE oauth2_provider_app_codes SET family = ${family} WHERE id = ${id}`;
}

export async function deleteOAuth2Code(tx: Tx, _by: SystemTask, id: string): Promise<void> {
  await tx`DELETE FROM oauth2_provider_app_codes WHERE id = ${id}`;
}

/** A refresh token, which other transactions cannot use until this one ends. */
export async function lockOAuth2Token(tx: Tx, prefix: string): Promise<OAuth2TokenRow | undefined> {
  const [row] = await tx<OAuth2TokenRow[]>`SELECT * FROM oauth2_provider_app_tokens WHERE hash_prefix = ${prefix}
    FOR UPDATE`;
  return row;
}

export async function oauth2TokenOfKey(db: Db, apiKeyId: string): Promise<OAuth2TokenRow | undefined> {
  const [row] = await db<OAuth2TokenRow[]>`SELECT * FROM oauth2_provider_app_tokens WHERE api_key_id = ${apiKeyId}`;
  return row;
}

export async function insertOAuth2Token(
  tx: Tx,
  _by: SystemTask,
  token: Omit<OAuth2TokenRow, 'id' | 'used_at' | 'created_at'>,
): Promise<void> {
  await tx`INSERT INTO oauth2_provider_app_tokens ${tx(token as never)}`;
}

/** Marks a refresh token as used, and deletes its access token with all keys that were made with it. Returns their ids. */
export async function useOAuth2Token(tx: Tx, _by: SystemTask, token: OAuth2TokenRow, at: Date): Promise<string[]> {
  await tx`UPDATE oauth2_provider_app_tokens SET used_at = ${at}, api_key_id = NULL WHERE id = ${token.id}`;
  return deleteKeysWithChildren(tx, token.api_key_id === null ? [] : [token.api_key_id]);
}

/** Deletes a family with its access tokens. Returns the ids of these. */
export async function deleteOAuth2Family(tx: Tx, _by: SystemTask, family: string): Promise<string[]> {
  const rows = await tx<Pick<OAuth2TokenRow, 'api_key_id'>[]>`DELETE FROM oauth2_provider_app_tokens
    WHERE family = ${family} RETURNING api_key_id`;
  return deleteKeysWithChildren(tx, keysOf(rows));
}

/** Ends what an app may do for a person: codes, refresh tokens and access tokens. Returns the ids of the latter. */
export async function deleteOAuth2Grants(
  tx: Tx,
  { ownerId }: Allowed<'delete', { type: 'oauth2_app_code_token'; ownerId: string }>,
  appId: string,
): Promise<string[]> {
  await tx`DELETE FROM oauth2_provider_app_codes WHERE user_id = ${ownerId} AND app_id = ${appId}`;
  const rows = await tx<Pick<OAuth2TokenRow, 'api_key_id'>[]>`DELETE FROM oauth2_provider_app_tokens
    WHERE user_id = ${ownerId} AND app_id = ${appId} RETURNING api_key_id`;
  return deleteKeysWithChildren(tx, keysOf(rows));
}

/** Deletes an app with its secrets, codes and refresh tokens. Returns the ids of its access tokens, also deleted. */
export async function deleteOAuth2App(tx: Tx, app: AppChange<'delete'>): Promise<string[]> {
  const id = appIdOf(app);
  const rows = await tx<Pick<OAuth2TokenRow, 'api_key_id'>[]>`DELETE FROM oauth2_provider_app_tokens
    WHERE app_id = ${id} RETURNING api_key_id`;
  await tx`DELETE FROM oauth2_provider_apps WHERE id = ${id}`;
  return deleteKeysWithChildren(tx, keysOf(rows));
}

/** Deletes a secret with the refresh tokens that were made with it. Returns the ids of the access tokens, also deleted. */
export async function deleteOAuth2Secret(tx: Tx, { id }: Allowed<'delete', OAuth2SecretRow>): Promise<string[]> {
  const rows = await tx<Pick<OAuth2TokenRow, 'api_key_id'>[]>`DELETE FROM oauth2_provider_app_tokens
    WHERE app_secret_id = ${id} RETURNING api_key_id`;
  await tx`DELETE FROM oauth2_provider_app_secrets WHERE id = ${id}`;
  return deleteKeysWithChildren(tx, keysOf(rows));
}

/** The oldest families of an app and a person beyond `kept`. */
export async function oldOAuth2Families(
  tx: Tx,
  { appId, userId, kept }: { appId: string; userId: string; kept: number },
): Promise<string[]> {
  const rows = await tx<{ family: string }[]>`SELECT family FROM oauth2_provider_app_tokens
    WHERE user_id = ${userId} AND app_id = ${appId} GROUP BY family ORDER BY max(created_at) DESC OFFSET ${kept}`;
  return rows.map(({ family }) => family);
}

const keysOf = (rows: readonly Pick<OAuth2TokenRow, 'api_key_id'>[]): string[] =>
  rows.flatMap(({ api_key_id: id }) => (id === null ? [] : [id]));

async function deleteKeysWithChildren(tx: Tx, ids: string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const rows = await tx<{ id: string }[]>`WITH RECURSIVE made (id) AS (
      SELECT id FROM api_keys WHERE id = ANY(${ids})
      UNION SELECT k.id FROM api_keys k JOIN made ON k.parent_id = made.id)
    DELETE FROM api_keys WHERE id IN (SELECT id FROM made) RETURNING id`;
  return rows.map(({ id }) => id);
}

/** Deletes codes that expired before this time. */
export async function purgeOAuth2Codes(
  db: Db,
  _task: SystemTask,
  { before, most }: { before: Date; most: number },
): Promise<number> {
  const { count } = await db`DELETE FROM oauth2_provider_app_codes WHERE id = ANY (ARRAY(
    SELECT id FROM oauth2_provider_app_codes WHERE expires_at < ${before} LIMIT ${most} FOR UPDATE SKIP LOCKED))`;
  return count;
}

/** Deletes refresh tokens that expired before this time. Their access tokens have expired as well. */
export async function purgeOAuth2Tokens(
  db: Db,
  _task: SystemTask,
  { before, most }: { before: Date; most: number },
): Promise<number> {
  const { count } = await db`DELETE FROM oauth2_provider_app_tokens WHERE id = ANY (ARRAY(
    SELECT id FROM oauth2_provider_app_tokens WHERE expires_at < ${before} LIMIT ${most} FOR UPDATE SKIP LOCKED))`;
  return count;
}
