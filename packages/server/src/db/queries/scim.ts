import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { UserRow } from '../rows.ts';

export type ScimUserRow = UserRow & { scim_user_name: string; scim_external_id: string };

const USERS = (db: Db) =>
  db`users u LEFT JOIN scim_names n ON n.user_id = u.id WHERE NOT u.deleted AND NOT u.is_system`;
const COLUMNS = (db: Db) =>
  db`u.*, coalesce(n.user_name, u.email) AS scim_user_name, coalesce(n.external_id, '') AS scim_external_id`;

export interface ScimFilter {
  field: 'userName' | 'email' | 'id' | 'externalId' | 'active';
  value: string;
}

/** Accounts in the order of their creation, and the number of all matches. */
export async function scimUsers(
  db: Db,
  { filter, limit, offset }: { filter: ScimFilter | undefined; limit: number; offset: number },
): Promise<{ users: ScimUserRow[]; count: number }> {
  const value = filter?.value ?? '';
  const where = {
    userName: db`AND (lower(n.user_name) = lower(${value})
      OR (n.user_name IS NULL AND (lower(u.email) = lower(${value}) OR lower(u.username) = lower(${value}))))`,
    email: db`AND lower(u.email) = lower(${value})`,
    id: db`AND u.id::text = lower(${value})`,
    externalId: db`AND n.external_id = ${value}`,
    active: db`AND (u.status <> 'suspended') = ${value === 'true'}`,
  };
  const from = db`${USERS(db)} ${filter ? where[filter.field] : db``}`;
  const [total] = await db<{ count: number }[]>`SELECT count(*) AS count FROM ${from}`;
  const users = await db<ScimUserRow[]>`SELECT ${COLUMNS(db)} FROM ${from}
    ORDER BY u.created_at, u.id LIMIT ${limit} OFFSET ${offset}`;
  return { users, count: total!.count };
}

/** How an account came to be, and how its person signs in. */
export interface ScimStanding {
  /** Whether a SCIM client created it. */
  created: boolean;
  /** Whether its person has signed in with the identity provider. Before, the address decides who may. */
  linked: boolean;
  /** Whether somebody gave it roles, in the deployment or in an organization. */
  has_roles: boolean;
  login_type: UserRow['login_type'];
}

/** The standing of an account. It stays so until the transaction ends. */
export async function scimStanding(tx: Tx, userId: string): Promise<ScimStanding> {
  const [row] = await tx<ScimStanding[]>`SELECT u.login_type,
      EXISTS (SELECT FROM scim_names n WHERE n.user_id = u.id AND n.created) AS created,
      EXISTS (SELECT FROM user_links l WHERE l.user_id = u.id AND l.login_type = 'oidc') AS linked,
      u.rbac_roles <> '{}' OR EXISTS (SELECT FROM organization_members m WHERE m.user_id = u.id AND m.roles <> '{}') AS has_roles
    FROM users u WHERE u.id = ${userId} FOR UPDATE OF u`;
  return row!;
}

/** Stores how a client names an account. `created`: the client has just created it. */
export async function saveScimName(
  db: Db,
  _by: SystemTask,
  userId: string,
  { userName, externalId, created = false }: { userName: string; externalId: string; created?: boolean },
): Promise<void> {
  await db`INSERT INTO scim_names (user_id, user_name, external_id, created)
    VALUES (${userId}, ${userName}, ${externalId}, ${created})
    ON CONFLICT (user_id) DO UPDATE SET user_name = excluded.user_name, external_id = excluded.external_id`;
}
