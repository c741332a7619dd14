import type { Db } from '../connect.ts';

export interface UserRow {
  id: string;
  username: string;
  email: string;
  name: string;
  avatar_url: string;
  hashed_password: string;
  login_type: 'password' | 'github' | 'oidc' | 'token' | 'none';
  status: 'active' | 'dormant' | 'suspended';
  rbac_roles: string[];
  theme_preference: string;
  terminal_font: string;
  quiet_hours_schedule: string;
  is_system: boolean;
  deleted: boolean;
  last_seen_at: Date | null;
  created_at: Date;
  updated_at: Date;
}

/** A user with what the policy needs to know: organization id → roles there. */
export interface UserWithRoles extends UserRow {
  organizations: Record<string, string[]>;
}

export const WITH_ROLES = (db: Db) => db`
  SELECT u.*, coalesce(
    (SELECT jsonb_object_agg(m.organization_id, to_jsonb(m.roles))
     FROM organization_members m JOIN organizations o ON o.id = m.organization_id AND NOT o.deleted
     WHERE m.user_id = u.id), '{}') AS organizations
  FROM users u`;

export async function userById(db: Db, id: string): Promise<UserWithRoles | undefined> {
  const [row] = await db<UserWithRoles[]>`${WITH_ROLES(db)} WHERE u.id = ${id} AND NOT u.deleted`;
  return row;
}

export async function userByName(db: Db, username: string): Promise<UserWithRoles | undefined> {
  const [row] = await db<
    UserWithRoles[]
  >`${WITH_ROLES(db)} WHERE lower(u.username) = lower(${username}) AND NOT u.deleted`;
  return row;
}

export async function userByEmail(db: Db, email: string): Promise<UserWithRoles | undefined> {
  const [row] = await db<UserWithRoles[]>`${WITH_ROLES(db)} WHERE lower(u.email) = lower(${email}) AND NOT u.deleted`;
  return row;
}

/** People, not the program's own accounts. */
export async function countUsers(db: Db): Promise<number> {
  const [row] = await db<{ count: number }[]>`SELECT count(*) AS count FROM users WHERE NOT deleted AND NOT is_system`;
  return row!.count;
}

export interface NewUser {
  username: string;
  email: string;
  name: string;
  hashed_password: string;
  login_type: UserRow['login_type'];
  status: UserRow['status'];
  rbac_roles: string[];
}

export async function insertUser(db: Db, user: NewUser): Promise<UserRow> {
  const [row] = await db<UserRow[]>`INSERT INTO users ${db(user as never)} RETURNING *`;
  return row!;
}

export async function touchUser(db: Db, id: string, at: Date): Promise<void> {
  await db`UPDATE users SET last_seen_at = ${at}, status = CASE status WHEN 'dormant' THEN 'active' ELSE status END
    WHERE id = ${id}`;
}

/** Whether somebody beside this user could still administer: an owner who is not suspended. Lock the table first. */
export async function anotherOwner(db: Db, id: string): Promise<boolean> {
  const [row] = await db<{ found: boolean }[]>`SELECT EXISTS (SELECT 1 FROM users
    WHERE id <> ${id} AND NOT deleted AND NOT is_system AND status <> 'suspended' AND 'owner' = ANY (rbac_roles)) AS found`;
  return row!.found;
}
