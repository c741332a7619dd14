// The only file that reads and writes the tokens of external auth providers.

import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { UserRow } from '../rows.ts';
import { type Sealed, storedText } from '../sealed.ts';
import { unchanged, WRITTEN, type Written } from './written.ts';

export interface ExternalAuthLinkRow extends Written {
  provider_id: string;
  user_id: string;
  access_token: Sealed;
  /** Empty if the provider gave none. */
  refresh_token: Sealed;
  expires_at: Date | null;
  /** Further fields of the provider's answer as JSON. Empty if there are none. */
  extra: Sealed;
  failure: string;
  created_at: Date;
  updated_at: Date;
}

/** What a provider gave, as it is stored. */
export type SealedTokens = Pick<ExternalAuthLinkRow, 'access_token' | 'refresh_token' | 'expires_at' | 'extra'>;

const COLUMNS = (db: Db) =>
  db`provider_id, user_id, access_token, refresh_token, expires_at, extra, failure, created_at, updated_at,
    ${WRITTEN(db)}`;

export async function externalAuthLink(
  db: Db,
  userId: string,
  providerId: string,
): Promise<ExternalAuthLinkRow | undefined> {
  const [row] = await db<ExternalAuthLinkRow[]>`SELECT ${COLUMNS(db)} FROM external_auth_links
    WHERE user_id = ${userId} AND provider_id = ${providerId}`;
  return row;
}

/** A person's links, by provider. */
export async function externalAuthLinksOf(db: Db, userId: string): Promise<ExternalAuthLinkRow[]> {
  return db<ExternalAuthLinkRow[]>`SELECT ${COLUMNS(db)} FROM external_auth_links
    WHERE user_id = ${userId} ORDER BY provider_id`;
}

/** Stores the tokens of an account that the person connected. */
export async function saveExternalAuthLink(
  tx: Tx,
  user: Allowed<'update_personal', UserRow>,
  providerId: string,
  tokens: SealedTokens,
): Promise<ExternalAuthLinkRow> {
  const { access_token, refresh_token, expires_at, extra } = tokens;
  const [row] = await tx<ExternalAuthLinkRow[]>`INSERT INTO external_auth_links
      (provider_id, user_id, access_token, refresh_token, expires_at, extra)
    VALUES (${providerId}, ${user.id}, ${storedText(access_token)}, ${storedText(refresh_token)}, ${expires_at}, ${storedText(extra)})
    ON CONFLICT (user_id, provider_id) DO UPDATE SET access_token = excluded.access_token,
      refresh_token = excluded.refresh_token, expires_at = excluded.expires_at, extra = excluded.extra,
      failure = '', refreshing_until = NULL, updated_at = now()
    RETURNING ${COLUMNS(tx)}`;
  return row!;
}

export async function deleteExternalAuthLink(
  tx: Tx,
  user: Allowed<'update_personal', UserRow>,
  providerId: string,
): Promise<ExternalAuthLinkRow | undefined> {
  const [row] = await tx<ExternalAuthLinkRow[]>`DELETE FROM external_auth_links
    WHERE user_id = ${user.id} AND provider_id = ${providerId} RETURNING ${COLUMNS(tx)}`;
  return row;
}

/**
 * Takes a link to refresh it, unless another request or server has taken it or its tokens have changed. Nobody else
 * gets it until it is saved or the time is over.
 */
export async function takeExternalAuthLink(
  db: Db,
  _by: SystemTask,
  link: ExternalAuthLinkRow,
  seconds: number,
): Promise<boolean> {
  const rows = await db`UPDATE external_auth_links SET refreshing_until = now() + ${seconds} * interval '1 second'
    WHERE user_id = ${link.user_id} AND provider_id = ${link.provider_id} AND ${unchanged(db, link)}
      AND (refreshing_until IS NULL OR refreshing_until < now())
    RETURNING 1`;
  return rows.length > 0;
}

/** Stores refreshed tokens, unless the person has connected the account again meanwhile. */
export async function saveRefreshedTokens(
  db: Db,
  _by: SystemTask,
  before: ExternalAuthLinkRow,
  tokens: SealedTokens,
): Promise<void> {
  await db`UPDATE external_auth_links SET access_token = ${storedText(tokens.access_token)},
      refresh_token = ${storedText(tokens.refresh_token)}, expires_at = ${tokens.expires_at},
      extra = ${storedText(tokens.extra)}, failure = '', refreshing_until = NULL, updated_at = now()
    WHERE user_id = ${before.user_id} AND provider_id = ${before.provider_id}
      AND ${unchanged(db, before)}`;
}

/** Lets others refresh a link again. */
export async function releaseExternalAuthLink(db: Db, _by: SystemTask, link: ExternalAuthLinkRow): Promise<void> {
  await db`UPDATE external_auth_links SET refreshing_until = NULL
    WHERE user_id = ${link.user_id} AND provider_id = ${link.provider_id} AND ${unchanged(db, link)}`;
}

/** Stores why the provider rejects these tokens, and removes the refresh token, which cannot be used again. */
export async function failExternalAuthLink(
  db: Db,
  _by: SystemTask,
  link: ExternalAuthLinkRow,
  failure: string,
): Promise<void> {
  await db`UPDATE external_auth_links SET failure = ${failure}, refresh_token = '', refreshing_until = NULL,
      updated_at = now()
    WHERE user_id = ${link.user_id} AND provider_id = ${link.provider_id} AND ${unchanged(db, link)}`;
}
