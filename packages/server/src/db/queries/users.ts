import type postgres from 'postgres';
import type { Allowed, Outranked } from '../../authz/authorize.ts';
import type { SystemTask, VerifiedSignIn, VerifiedToken } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { UserRow, UserWithAccess, UserWithRoles } from '../rows.ts';
import { CUSTOM_ROLE } from './custom-roles.ts';

/**
 * Columns of a `UserWithRoles`. The default organization is the first, and the others follow as the person joined them:
 * upstream's Terraform provider takes the first one. `jsonb` would sort them.
 */
const ROLES = (db: Db) => db`u.*, coalesce(
  (SELECT json_object_agg(m.organization_id, to_json(m.roles) ORDER BY o.is_default DESC, m.created_at, o.id)
   FROM organization_members m JOIN organizations o ON o.id = m.organization_id AND NOT o.deleted
   WHERE m.user_id = u.id), '{}') AS organizations`;

/** Columns and tables of a `UserWithAccess`, up to WHERE. */
const WITH_ACCESS = (db: Db) => db`
  SELECT ${ROLES(db)}, ARRAY(SELECT g.group_id::text FROM group_members g WHERE g.user_id = u.id) AS groups,
    coalesce((SELECT jsonb_object_agg(c.organization_id, c.roles) FROM (
      SELECT r.organization_id, jsonb_agg(${CUSTOM_ROLE(db)}) AS roles
      FROM organization_members m JOIN custom_roles r ON r.organization_id = m.organization_id AND r.name = ANY(m.roles)
      WHERE m.user_id = u.id GROUP BY r.organization_id) c), '{}') AS custom_roles,
    coalesce((SELECT jsonb_object_agg(o.id, o.shareable_workspace_owners)
      FROM organization_members m JOIN organizations o ON o.id = m.organization_id WHERE m.user_id = u.id), '{}') AS shareable_owners,
    coalesce((SELECT jsonb_object_agg(o.id, to_jsonb(o.default_org_member_roles))
      FROM organization_members m JOIN organizations o ON o.id = m.organization_id WHERE m.user_id = u.id), '{}') AS default_roles
  FROM users u`;

/** Returns the user with this id, which must be a UUID, with roles and groups. Undefined for a deleted user. */
export async function userById(db: Db, id: string): Promise<UserWithAccess | undefined> {
  const [row] = await db<UserWithAccess[]>`${WITH_ACCESS(db)} WHERE u.id = ${id} AND NOT u.deleted`;
  return row;
}

export async function userByName(db: Db, username: string): Promise<UserWithAccess | undefined> {
  const [row] = await db<
    UserWithAccess[]
  >`${WITH_ACCESS(db)} WHERE lower(u.username) = lower(${username}) AND NOT u.deleted`;
  return row;
}

export async function userByEmail(db: Db, email: string): Promise<UserWithAccess | undefined> {
  const [row] = await db<
    UserWithAccess[]
  >`${WITH_ACCESS(db)} WHERE lower(u.email) = lower(${email}) AND u.email <> '' AND NOT u.deleted`;
  return row;
}

/** The number of people, without the program's own accounts. */
export async function countUsers(db: Db): Promise<number> {
  const [row] = await db<{ count: number }[]>`SELECT count(*) AS count FROM users WHERE NOT deleted AND NOT is_system`;
  return row!.count;
}

/** Whether any person exists. Cheaper than counting. */
export async function anyUserExists(db: Db): Promise<boolean> {
  const [row] = await db<{ found: boolean }[]>`
    SELECT EXISTS (SELECT FROM users WHERE NOT deleted AND NOT is_system) AS found`;
  return row!.found;
}

export interface NewUser {
  username: string;
  email: string;
  name: string;
  hashed_password: string;
  login_type: UserRow['login_type'];
  status: UserRow['status'];
  rbac_roles: string[];
  is_service_account?: boolean;
}

export async function insertUser(db: Db, _by: Allowed<'create', { type: 'user' }>, user: NewUser): Promise<UserRow> {
  const [row] = await db<UserRow[]>`INSERT INTO users ${db(user as never)} RETURNING *`;
  return row!;
}

/** Records that a person uses the server now, which activates a dormant account. */
export async function touchUser(db: Db, { userId }: VerifiedSignIn | VerifiedToken, at: Date): Promise<void> {
  await db`UPDATE users SET last_seen_at = ${at}, status = CASE status WHEN 'dormant' THEN 'active' ELSE status END
    WHERE id = ${userId}`;
}

/** Stores what the identity provider says of a person who signs in. */
export async function setIdentityProfile(
  tx: Tx,
  { userId }: VerifiedSignIn,
  { email, name, avatar_url }: Pick<UserRow, 'email' | 'name' | 'avatar_url'>,
): Promise<void> {
  await tx`UPDATE users SET email = ${email}, name = ${name}, avatar_url = ${avatar_url}, updated_at = now()
    WHERE id = ${userId} AND (email, name, avatar_url) IS DISTINCT FROM (${email}, ${name}, ${avatar_url})`;
}

/** Makes a password account one of an identity provider. The password no longer works. */
export async function convertToProvider(tx: Tx, { userId }: VerifiedSignIn, type: 'github' | 'oidc'): Promise<void> {
  await tx`UPDATE users SET login_type = ${type}, hashed_password = '', updated_at = now() WHERE id = ${userId}`;
}

/** Makes active accounts dormant whose people were not seen since this time. Returns the rows before and after. */
export async function makeDormant(
  tx: Tx,
  _by: SystemTask,
  unseenSince: Date,
): Promise<{ before: UserRow; after: UserRow }[]> {
  const before = await tx<UserRow[]>`SELECT * FROM users
    WHERE status = 'active' AND NOT deleted AND NOT is_system AND NOT is_service_account AND coalesce(last_seen_at, created_at) < ${unseenSince}
    ORDER BY id FOR UPDATE SKIP LOCKED`;
  const after = await tx<UserRow[]>`UPDATE users SET status = 'dormant', updated_at = now()
    WHERE id = ANY (${before.map(({ id }) => id)}) RETURNING *`;
  return before.flatMap((row) => {
    const changed = after.find(({ id }) => id === row.id);
    return changed ? [{ before: row, after: changed }] : [];
  });
}

/** Makes other changes of users wait until the transaction ends. */
export async function lockUsers(tx: Tx): Promise<void> {
  await tx`LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`;
}

/** Whether there is another owner who is not suspended. Lock the users first. */
export async function anotherOwner(db: Db, id: string): Promise<boolean> {
  const [row] = await db<{ found: boolean }[]>`SELECT EXISTS (SELECT 1 FROM users
    WHERE id <> ${id} AND NOT deleted AND NOT is_system AND NOT is_service_account AND status <> 'suspended' AND 'owner' = ANY (rbac_roles)) AS found`;
  return row!.found;
}

const TIMES = {
  lastSeenBefore: 'u.last_seen_at <=',
  lastSeenAfter: 'u.last_seen_at >=',
  createdBefore: 'u.created_at <=',
  createdAfter: 'u.created_at >=',
} as const;

/** What a search for people asks for. Empty lists do not filter. */
export interface PeopleSearch {
  /** LIKE patterns. `text` is for the user name, email address or full name. */
  text?: string | undefined;
  name?: string | undefined;
  /** The number of the GitHub account that the person signs in with. */
  githubId?: string | undefined;
  statuses: string[];
  logins: string[];
  /** Roles of the site. */
  roles: string[];
  times: { [K in keyof typeof TIMES]?: Date | undefined };
  serviceAccount?: boolean | undefined;
  /** Whether `text` is not for email addresses, which the actor may not read. */
  withoutEmail?: boolean;
}

/** The conditions for `users u` that a search makes, each with its AND. */
function peopleFound(db: Db, search: PeopleSearch) {
  const { text, name, githubId, statuses, logins, roles, times, serviceAccount, withoutEmail } = search;
  const email = withoutEmail ? db`` : db`OR u.email ILIKE ${text ?? ''}`;
  return db`${text ? db`AND (u.username ILIKE ${text} OR u.name ILIKE ${text} ${email})` : db``}
    ${name ? db`AND u.name ILIKE ${name}` : db``}
    ${
      githubId === undefined
        ? db``
        : db`AND u.id IN (SELECT l.user_id FROM user_links l WHERE l.login_type = 'github' AND l.linked_id = ${githubId})`
    }
    ${statuses.length > 0 ? db`AND u.status = ANY (${statuses})` : db``}
    ${logins.length > 0 ? db`AND u.login_type = ANY (${logins})` : db``}
    ${roles.length > 0 ? db`AND u.rbac_roles && ${roles}` : db``}
    ${serviceAccount === undefined ? db`` : db`AND u.is_service_account = ${serviceAccount}`}
    ${(Object.keys(TIMES) as (keyof typeof TIMES)[]).map((key) => {
      const at = times[key];
      return at ? db`AND ${db.unsafe(TIMES[key])} ${at}` : db``;
    })}`;
}

/** A page of a list of people, which is sorted by user name. */
export interface PeoplePage {
  /** Only people who come after this one. The count ignores it. */
  afterId: string | undefined;
  limit: number;
  offset: number;
}

export interface UserFilter extends PeopleSearch, PeoplePage {
  /** The only people that the actor may read. Undefined: everyone. */
  only: readonly string[] | undefined;
}

type Fragment = postgres.PendingQuery<postgres.Row[]>;

/**
 * A page of people by user name, and the total number of matches. `from` has `users u` and ends with a condition.
 */
export async function pageOfPeople<Row extends object>(
  db: Db,
  { columns, from }: { columns: Fragment; from: Fragment },
  filter: UserFilter,
): Promise<{ rows: Row[]; count: number }> {
  const { only, afterId, limit, offset } = filter;
  const found = db`${from} AND NOT u.deleted AND NOT u.is_system
    ${only === undefined ? db`` : db`AND u.id = ANY(${[...only]}::uuid[])`} ${peopleFound(db, filter)}`;
  const [total] = await db<{ count: number }[]>`SELECT count(*) AS count ${found}`;
  const rows = await db<Row[]>`SELECT ${columns} ${found}
    ${afterId ? db`AND lower(u.username) > (SELECT lower(a.username) FROM users a WHERE a.id = ${afterId})` : db``}
    ORDER BY lower(u.username) LIMIT ${limit} OFFSET ${offset}`;
  return { rows, count: total!.count };
}

/** People by user name, and the total number of matches. */
export async function findUsers(db: Db, filter: UserFilter): Promise<{ users: UserWithRoles[]; count: number }> {
  const parts = { columns: ROLES(db), from: db`FROM users u WHERE true` };
  const { rows: users, count } = await pageOfPeople<UserWithRoles>(db, parts, filter);
  return { users, count };
}

/** User names by id. */
export async function usernames(db: Db, ids: string[]): Promise<Map<string, string>> {
  const rows = await db<{ id: string; username: string }[]>`SELECT id, username FROM users WHERE id = ANY (${ids})`;
  return new Map(rows.map(({ id, username }) => [id, username]));
}

/** Accounts by id, also deleted ones: records name them for ever. */
export async function usersOfRecords(db: Db, ids: string[]): Promise<Map<string, UserRow>> {
  const rows = await db<UserRow[]>`SELECT * FROM users WHERE id = ANY (${ids}::text[]::uuid[])`;
  return new Map(rows.map((row) => [row.id, row]));
}

/** The ids of accounts with this user name or address, also of deleted ones. */
export async function userIdsNamed(db: Db, given: { username: string } | { email: string }): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT id FROM users WHERE ${
    'email' in given ? db`lower(email) = lower(${given.email})` : db`lower(username) = lower(${given.username})`
  }`;
  return rows.map(({ id }) => id);
}

/** The people among these who are deleted or suspended. */
export async function usersWithoutAccess(db: Db, ids: string[]): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT u.id::text FROM unnest(${ids}::text[]::uuid[]) AS u (id)
    WHERE NOT EXISTS (SELECT FROM users WHERE users.id = u.id AND NOT deleted AND status <> 'suspended')`;
  return rows.map(({ id }) => id);
}

export async function countWorkspacesOfUser(db: Db, userId: string): Promise<number> {
  const [row] = await db<{ count: number }[]>`SELECT count(*) AS count FROM workspaces
    WHERE owner_id = ${userId} AND NOT deleted`;
  return row!.count;
}

/** The last value that a person gave for each parameter in builds of a template, without ephemeral parameters. */
export async function lastParametersOf(
  db: Db,
  userId: string,
  templateId: string,
): Promise<{ name: string; value: string }[]> {
  return db<{ name: string; value: string }[]>`SELECT DISTINCT ON (p.name) p.name, p.value
    FROM workspace_build_parameters p
    JOIN workspace_builds b ON b.id = p.workspace_build_id
    JOIN workspaces w ON w.id = b.workspace_id
    JOIN template_version_parameters t ON t.template_version_id = b.template_version_id AND t.name = p.name
    WHERE w.owner_id = ${userId} AND w.template_id = ${templateId} AND b.transition = 'start' AND NOT t.ephemeral
    ORDER BY p.name, b.created_at DESC`;
}

export async function setProfile(
  tx: Tx,
  user: Outranked<Allowed<'update_personal', UserRow>>,
  { username, name, avatar_url }: Pick<UserRow, 'username' | 'name' | 'avatar_url'>,
): Promise<void> {
  await tx`UPDATE users SET username = ${username}, name = ${name}, avatar_url = ${avatar_url}, updated_at = now()
    WHERE id = ${user.id}`;
}

export async function setPassword(
  tx: Tx,
  user: Outranked<Allowed<'update_personal', UserRow>>,
  hashed: string,
): Promise<void> {
  await tx`UPDATE users SET hashed_password = ${hashed}, updated_at = now() WHERE id = ${user.id}`;
}

/** Sets what the provisioning client says of a person. */
export async function setProvisionedProfile(
  tx: Tx,
  user: Outranked<Allowed<'update', UserRow>>,
  { email, name }: Pick<UserRow, 'email' | 'name'>,
): Promise<void> {
  await tx`UPDATE users SET email = ${email}, name = ${name}, updated_at = now() WHERE id = ${user.id}`;
}

/** Sets how a person signs in. Only an account of the type `password` has a password. */
export async function setLoginType(
  tx: Tx,
  user: Outranked<Allowed<'update', UserRow>>,
  type: UserRow['login_type'],
  hashed: string,
): Promise<void> {
  await tx`UPDATE users SET login_type = ${type}, hashed_password = ${hashed}, updated_at = now()
    WHERE id = ${user.id}`;
}

/**
 * Stores the hash of a code that sets a new password. It replaces an earlier one, unless that expires later than
 * `replaceable`. Returns whether it did.
 */
export async function setPasscode(
  tx: Tx,
  _by: SystemTask,
  userId: string,
  { hash, expires, replaceable }: { hash: Buffer; expires: Date; replaceable: Date },
): Promise<boolean> {
  const { count } = await tx`UPDATE users
    SET one_time_passcode_hash = ${hash}, one_time_passcode_expires_at = ${expires}
    WHERE id = ${userId} AND coalesce(one_time_passcode_expires_at <= ${replaceable}, true)`;
  return count > 0;
}

/** Sets a password in exchange for the code, and deletes all keys of the person. False if the code is not there any more. */
export async function setPasswordByPasscode(
  tx: Tx,
  { userId }: VerifiedSignIn,
  { hashed, passcodeHash }: { hashed: string; passcodeHash: Buffer },
): Promise<boolean> {
  const { count } = await tx`UPDATE users SET hashed_password = ${hashed}, one_time_passcode_hash = NULL,
      one_time_passcode_expires_at = NULL, updated_at = now()
    WHERE id = ${userId} AND one_time_passcode_hash = ${passcodeHash}`;
  if (count > 0) await tx`DELETE FROM api_keys WHERE user_id = ${userId}`;
  return count > 0;
}

export async function setUserStatus(
  tx: Tx,
  user: Outranked<Allowed<'update', UserRow>>,
  status: UserRow['status'],
): Promise<void> {
  await tx`UPDATE users SET status = ${status}, updated_at = now() WHERE id = ${user.id}`;
}

/** Sets a person's site roles. The proof is for the action `assign`. */
export async function setSiteRoles(
  tx: Tx,
  user: Outranked<Allowed<'assign', UserRow>>,
  roles: string[],
): Promise<void> {
  await tx`UPDATE users SET rbac_roles = ${roles}, updated_at = now() WHERE id = ${user.id}`;
}

/** Marks an account as deleted, so that its name is free again, and deletes its credentials. */
export async function markUserDeleted(tx: Tx, user: Outranked<Allowed<'delete', UserRow>>): Promise<void> {
  await tx`UPDATE users SET deleted = true, hashed_password = '', updated_at = now() WHERE id = ${user.id}`;
  await tx`DELETE FROM api_keys WHERE user_id = ${user.id}`;
  await tx`DELETE FROM organization_members WHERE user_id = ${user.id}`;
  await tx`DELETE FROM git_ssh_keys WHERE user_id = ${user.id}`;
  await tx`DELETE FROM user_links WHERE user_id = ${user.id}`;
  await tx`DELETE FROM user_secrets WHERE user_id = ${user.id}`;
  await tx`DELETE FROM oauth2_provider_app_codes WHERE user_id = ${user.id}`;
  await tx`DELETE FROM oauth2_provider_app_tokens WHERE user_id = ${user.id}`;
}

export async function setAppearance(
  db: Db,
  user: Allowed<'update_personal', UserRow>,
  { theme_preference, terminal_font }: Pick<UserRow, 'theme_preference' | 'terminal_font'>,
): Promise<void> {
  await db`UPDATE users SET theme_preference = ${theme_preference}, terminal_font = ${terminal_font},
    updated_at = now() WHERE id = ${user.id}`;
}

export async function setQuietHours(
  db: Db,
  user: Allowed<'update_personal', UserRow>,
  schedule: string,
): Promise<void> {
  await db`UPDATE users SET quiet_hours_schedule = ${schedule}, updated_at = now() WHERE id = ${user.id}`;
}
