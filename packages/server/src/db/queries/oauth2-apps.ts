// The apps that sign people in with this server, and their secrets.

import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';

export interface OAuth2AppRow {
  id: string;
  name: string;
  icon: string;
  callback_url: string;
  /** Never empty. The first one is the callback URL. */
  redirect_uris: string[];
  client_type: 'confidential' | 'public';
  dynamically_registered: boolean;
  /** The registered metadata of RFC 7591. */
  metadata: Record<string, unknown>;
  /** Scopes that the app may ask for, separated by spaces. Empty: all. */
  scope: string;
  /** The hash of the token that manages the registration. Null for apps of administrators. */
  registration_hash: Buffer | null;
  created_at: Date;
  updated_at: Date;
}

export type OAuth2AppFields = Omit<OAuth2AppRow, 'id' | 'created_at' | 'updated_at'>;

export interface OAuth2SecretRow {
  id: string;
  app_id: string;
  secret_prefix: string;
  hashed_secret: Buffer;
  /** The last characters of the secret. */
  display_secret: string;
  last_used_at: Date | null;
  created_at: Date;
}

/** An app may be created by a person who may create apps, or by its own registration. */
type AppMaker = Allowed<'create', { type: 'oauth2_app' }> | SystemTask;
export type AppChange<A extends 'update' | 'delete'> =
  | Allowed<A, OAuth2AppRow>
  | (SystemTask & { readonly row: OAuth2AppRow });

export const appIdOf = (app: AppChange<'update'> | AppChange<'delete'>): string => ('row' in app ? app.row.id : app.id);

export async function oauth2AppById(db: Db, id: string): Promise<OAuth2AppRow | undefined> {
  const [row] = await db<OAuth2AppRow[]>`SELECT * FROM oauth2_provider_apps WHERE id = ${id}`;
  return row;
}

/** Apps by name: all, or those that have unused refresh tokens of a person. */
export async function oauth2Apps(db: Db, userId: string | undefined, at: Date, most: number): Promise<OAuth2AppRow[]> {
  return db<OAuth2AppRow[]>`SELECT * FROM oauth2_provider_apps a ${
    userId === undefined
      ? db``
      : db`WHERE EXISTS (SELECT FROM oauth2_provider_app_tokens t WHERE t.app_id = a.id AND t.user_id = ${userId}
          AND t.used_at IS NULL AND t.expires_at > ${at})`
  } ORDER BY lower(name), id LIMIT ${most}`;
}

export async function countOAuth2Apps(db: Db, registered: boolean): Promise<number> {
  const [row] = await db<{ count: number }[]>`SELECT count(*)::integer AS count FROM oauth2_provider_apps
    WHERE dynamically_registered = ${registered}`;
  return row!.count;
}

export async function insertOAuth2App(tx: Tx, _by: AppMaker, fields: OAuth2AppFields): Promise<OAuth2AppRow> {
  const row = { ...fields, metadata: tx.json(fields.metadata as never) };
  const [app] = await tx<OAuth2AppRow[]>`INSERT INTO oauth2_provider_apps ${tx(row as never)} RETURNING *`;
  return app!;
}

export async function updateOAuth2App(
  tx: Tx,
  app: AppChange<'update'>,
  fields: OAuth2AppFields,
): Promise<OAuth2AppRow | undefined> {
  const row = { ...fields, metadata: tx.json(fields.metadata as never), updated_at: new Date() };
  const [changed] = await tx<OAuth2AppRow[]>`UPDATE oauth2_provider_apps SET ${tx(row as never)}
    WHERE id = ${appIdOf(app)} RETURNING *`;
  return changed;
}

export async function oauth2Secrets(db: Db, appId: string): Promise<OAuth2SecretRow[]> {
  return db<OAuth2SecretRow[]>`SELECT * FROM oauth2_provider_app_secrets WHERE app_id = ${appId}
    ORDER BY created_at, id`;
}

export async function oauth2SecretByPrefix(db: Db, prefix: string): Promise<OAuth2SecretRow | undefined> {
  const [row] = await db<OAuth2SecretRow[]>`SELECT * FROM oauth2_provider_app_secrets WHERE secret_prefix = ${prefix}`;
  return row;
}

export async function insertOAuth2Secret(
  tx: Tx,
  _by: Allowed<'create', { type: 'oauth2_app_secret' }> | SystemTask,
  secret: Pick<OAuth2SecretRow, 'app_id' | 'secret_prefix' | 'hashed_secret' | 'display_secret'>,
): Promise<OAuth2SecretRow> {
  const [row] = await tx<OAuth2SecretRow[]>`INSERT INTO oauth2_provider_app_secrets ${tx(secret as never)} RETURNING *`;
  return row!;
}

export async function touchOAuth2Secret(db: Db, _by: SystemTask, id: string, at: Date): Promise<void> {
  await db`UPDATE oauth2_provider_app_secrets SET last_used_at = ${at} WHERE id = ${id}`;
}

/** Deletes apps that registered before this time and that nobody has let in since. */
export async function purgeUnusedOAuth2Apps(
  db: Db,
  _task: SystemTask,
  { before, most }: { before: Date; most: number },
): Promise<number> {
  const { count } = await db`DELETE FROM oauth2_provider_apps WHERE id = ANY (ARRAY(
    SELECT a.id FROM oauth2_provider_apps a WHERE a.dynamically_registered AND a.updated_at < ${before}
      AND NOT EXISTS (SELECT FROM oauth2_provider_app_tokens t WHERE t.app_id = a.id)
      AND NOT EXISTS (SELECT FROM oauth2_provider_app_codes c WHERE c.app_id = a.id)
    LIMIT ${most} FOR UPDATE SKIP LOCKED))`;
  return count;
}
