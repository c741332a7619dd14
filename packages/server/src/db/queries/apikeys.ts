import type { Db } from '../connect.ts';

export interface ApiKeyRow {
  id: string;
  user_id: string;
  hashed_secret: Buffer;
  token_name: string;
  login_type: 'password' | 'github' | 'oidc' | 'token' | 'none';
  scope: 'all' | 'application_connect';
  /** The token that this one was made of, or made with: they end together. */
  parent_id: string | null;
  lifetime_seconds: number;
  ip_address: string;
  last_used: Date;
  expires_at: Date;
  created_at: Date;
  updated_at: Date;
}

export async function apiKeyById(db: Db, id: string): Promise<ApiKeyRow | undefined> {
  const [row] = await db<ApiKeyRow[]>`SELECT * FROM api_keys WHERE id = ${id}`;
  return row;
}

export async function insertApiKey(
  db: Db,
  key: Omit<ApiKeyRow, 'created_at' | 'updated_at' | 'last_used' | 'parent_id'> & { parent_id?: string },
): Promise<ApiKeyRow> {
  const [row] = await db<ApiKeyRow[]>`INSERT INTO api_keys ${db(key as never)} RETURNING *`;
  return row!;
}

/** Those that were made of these, or with these. */
export async function apiKeyChildren(db: Db, ids: string[]): Promise<string[]> {
  const rows = await db<{ id: string }[]>`WITH RECURSIVE made (id) AS (
      SELECT id FROM api_keys WHERE parent_id = ANY(${ids})
      UNION SELECT k.id FROM api_keys k JOIN made ON k.parent_id = made.id)
    SELECT id FROM made`;
  return rows.map(({ id }) => id);
}

export async function deleteApiKeys(db: Db, ids: string[]): Promise<void> {
  await db`DELETE FROM api_keys WHERE id = ANY(${ids})`;
}

/** Notes a use; a session's end moves with it, an API token's does not. */
export async function touchApiKey(db: Db, id: string, at: Date, expiresAt: Date): Promise<void> {
  await db`UPDATE api_keys SET last_used = ${at}, updated_at = ${at}, expires_at = ${expiresAt} WHERE id = ${id}`;
}

export async function apiTokens(db: Db, userId: string | undefined): Promise<ApiKeyRow[]> {
  return db<ApiKeyRow[]>`SELECT * FROM api_keys WHERE login_type = 'token'
    ${userId === undefined ? db`` : db`AND user_id = ${userId}`} ORDER BY created_at, id`;
}

export async function apiTokenByName(db: Db, userId: string, name: string): Promise<ApiKeyRow | undefined> {
  const [row] = await db<
    ApiKeyRow[]
  >`SELECT * FROM api_keys WHERE login_type = 'token' AND user_id = ${userId} AND token_name = ${name}`;
  return row;
}
