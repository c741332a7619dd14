import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';

export type SyncKind = 'organization' | 'group' | 'role';

/** The stored settings. Undefined if nobody changed the defaults. */
export async function syncSettingsRow(
  db: Db,
  kind: SyncKind,
  organizationId: string,
): Promise<Record<string, unknown> | undefined> {
  const [row] = await db<{ settings: Record<string, unknown> }[]>`SELECT settings FROM idp_sync_settings
    WHERE kind = ${kind} AND organization_id = ${organizationId}`;
  return row?.settings;
}

/** Makes other changes of these settings wait until the transaction ends. */
export async function lockSyncSettings(tx: Tx, kind: SyncKind, organizationId: string): Promise<void> {
  await tx`SELECT pg_advisory_xact_lock(hashtextextended(${`idp sync ${kind} ${organizationId}`}, 0))`;
}

export async function saveSyncSettings(
  tx: Tx,
  _by: Allowed<'update', { type: 'idpsync_settings' }>,
  { kind, organizationId }: { kind: SyncKind; organizationId: string },
  settings: object,
): Promise<void> {
  await tx`INSERT INTO idp_sync_settings (kind, organization_id, settings)
    VALUES (${kind}, ${organizationId}, ${tx.json(settings as never)})
    ON CONFLICT (kind, organization_id) DO UPDATE SET settings = excluded.settings, updated_at = now()`;
}

/** The maximum number of names and values that a page offers. */
const MOST = 1_000;

/** Links of the deployment or of an organization's members. */
const LINKS = (db: Db, organizationId: string | undefined) => db`user_links l
  ${
    organizationId === undefined
      ? db``
      : db`JOIN organization_members m ON m.user_id = l.user_id AND m.organization_id = ${organizationId}`
  }`;

/** The names of the claims that people had at their last sign-in. */
export async function claimFields(db: Db, organizationId?: string): Promise<string[]> {
  const rows = await db<{ name: string }[]>`SELECT DISTINCT name
    FROM ${LINKS(db, organizationId)}, jsonb_object_keys(l.claims) AS name
    WHERE l.login_type = 'oidc' ORDER BY name LIMIT ${MOST}`;
  return rows.map(({ name }) => name);
}

/** The values that a claim had, one by one if it is a list. */
export async function claimValues(db: Db, field: string, organizationId?: string): Promise<string[]> {
  const rows = await db<{ value: string }[]>`SELECT DISTINCT value FROM (
      SELECT jsonb_array_elements_text(CASE jsonb_typeof(l.claims -> ${field})
        WHEN 'array' THEN l.claims -> ${field} ELSE jsonb_build_array(l.claims -> ${field}) END) AS value
      FROM ${LINKS(db, organizationId)} WHERE l.login_type = 'oidc' AND l.claims ? ${field}) AS given
    WHERE value IS NOT NULL AND value <> '' ORDER BY value LIMIT ${MOST}`;
  return rows.map(({ value }) => value);
}
