// The only file that reads and writes the tokens of identity providers.

import type { Allowed, Outranked } from '../../authz/authorize.ts';
import type { SystemTask, VerifiedSignIn } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { UserRow } from '../rows.ts';
import { type Sealed, storedText } from '../sealed.ts';
import { unchanged, WRITTEN, type Written } from './written.ts';

export interface UserLinkRow extends Written {
  user_id: string;
  login_type: 'github' | 'oidc';
  linked_id: string;
  access_token: Sealed;
  refresh_token: Sealed;
  expires_at: Date | null;
  claims: Record<string, unknown>;
}

const COLUMNS = (db: Db) => db`user_id, login_type, linked_id, access_token, refresh_token, expires_at, claims,
  ${WRITTEN(db)}`;

export async function linkBySubject(
  db: Db,
  type: UserLinkRow['login_type'],
  subject: string,
): Promise<UserLinkRow | undefined> {
  const [row] = await db<UserLinkRow[]>`SELECT ${COLUMNS(db)} FROM user_links
    WHERE login_type = ${type} AND linked_id = ${subject}`;
  return row;
}

export async function linkOfUser(
  db: Db,
  userId: string,
  type: UserLinkRow['login_type'],
): Promise<UserLinkRow | undefined> {
  const [row] = await db<UserLinkRow[]>`SELECT ${COLUMNS(db)} FROM user_links
    WHERE user_id = ${userId} AND login_type = ${type}`;
  return row;
}

/** Stores what a sign-in or a refresh brought. */
export async function saveLink(
  db: Db,
  { userId }: VerifiedSignIn,
  link: Omit<UserLinkRow, 'user_id' | keyof Written>,
): Promise<void> {
  const row = { ...link, user_id: userId, claims: db.json(link.claims as never) };
  await db`INSERT INTO user_links ${db(row as never)}
    ON CONFLICT (user_id, login_type) DO UPDATE SET linked_id = excluded.linked_id,
      access_token = excluded.access_token, refresh_token = excluded.refresh_token,
      expires_at = excluded.expires_at, claims = excluded.claims, refreshing_until = NULL, updated_at = now()`;
}

/** Removes a person's links, so that no identity signs in to the account. */
export async function deleteLinks(tx: Tx, user: Outranked<Allowed<'update', UserRow>>): Promise<void> {
  await tx`DELETE FROM user_links WHERE user_id = ${user.id}`;
}

/** How many accounts are linked to identities of each OpenID Connect provider, by its issuer. */
export async function oidcLinkIssuers(db: Db, _by: SystemTask): Promise<{ issuer: string; accounts: number }[]> {
  return db<{ issuer: string; accounts: number }[]>`
    SELECT split_part(linked_id, '||', 1) AS issuer, count(*)::int AS accounts
    FROM user_links WHERE login_type = 'oidc' GROUP BY 1 ORDER BY 2 DESC, 1`;
}

/** Deletes links to identities of OpenID Connect providers other than the issuer to keep. Returns how many. */
export async function deleteOidcLinks(db: Db, _by: SystemTask, keep: string | undefined): Promise<number> {
  const rows = await db`DELETE FROM user_links WHERE login_type = 'oidc'
    AND (${keep ?? null}::text IS NULL OR split_part(linked_id, '||', 1) <> ${keep ?? null}::text)`;
  return rows.count;
}

/**
 * Takes the links whose tokens expire before `expiring` and whose people used a session since `usedSince`, to refresh
 * them. No other server gets these links until they are saved, or a minute has passed.
 */
export async function takeExpiringLinks(
  db: Db,
  _by: SystemTask,
  { expiring, usedSince, most }: { expiring: Date; usedSince: Date; most: number },
): Promise<UserLinkRow[]> {
  return db<UserLinkRow[]>`UPDATE user_links SET refreshing_until = now() + interval '1 minute'
    WHERE (user_id, login_type) IN (
      SELECT l.user_id, l.login_type FROM user_links l
      WHERE l.expires_at < ${expiring} AND l.refresh_token <> '' AND (l.refreshing_until IS NULL OR l.refreshing_until < now())
        AND EXISTS (SELECT FROM api_keys k WHERE k.user_id = l.user_id AND k.login_type = l.login_type
          AND k.expires_at > now() AND k.last_used > ${usedSince})
      ORDER BY l.expires_at LIMIT ${most} FOR UPDATE SKIP LOCKED)
    RETURNING ${COLUMNS(db)}`;
}

/** Keeps the tokens for another try at this time. */
export async function postponeRefresh(db: Db, _by: SystemTask, link: UserLinkRow, until: Date): Promise<void> {
  await db`UPDATE user_links SET refreshing_until = ${until}
    WHERE user_id = ${link.user_id} AND login_type = ${link.login_type}`;
}

/** Stores refreshed tokens, unless the person has signed in again meanwhile. Whether it stored them. */
export async function saveRefreshed(
  db: Db,
  _by: SystemTask,
  before: UserLinkRow,
  after: Pick<UserLinkRow, 'access_token' | 'refresh_token' | 'expires_at' | 'claims'>,
): Promise<boolean> {
  const rows = await db`UPDATE user_links SET access_token = ${storedText(after.access_token)},
      refresh_token = ${storedText(after.refresh_token)}, expires_at = ${after.expires_at},
      claims = ${db.json(after.claims as never)}, refreshing_until = NULL, updated_at = now()
    WHERE user_id = ${before.user_id} AND login_type = ${before.login_type} AND ${unchanged(db, before)}
    RETURNING 1`;
  return rows.length > 0;
}

/**
 * Deletes the sessions of a link whose tokens no longer work, with the keys that were created with them, unless the
 * person has signed in again meanwhile. Returns the ids of the sessions.
 */
export async function endSessionsOfLink(tx: Tx, _by: SystemTask, link: UserLinkRow): Promise<string[]> {
  const same = await tx`UPDATE user_links SET access_token = '', refresh_token = '', expires_at = NULL,
      refreshing_until = NULL, updated_at = now()
    WHERE user_id = ${link.user_id} AND login_type = ${link.login_type} AND ${unchanged(tx, link)}
    RETURNING 1`;
  if (same.length === 0) return [];
  const rows = await tx<{ id: string }[]>`WITH RECURSIVE made (id) AS (
      SELECT id FROM api_keys WHERE user_id = ${link.user_id} AND login_type = ${link.login_type}
      UNION SELECT k.id FROM api_keys k JOIN made ON k.parent_id = made.id)
    DELETE FROM api_keys WHERE id IN (SELECT id FROM made) RETURNING id`;
  return rows.map(({ id }) => id);
}
