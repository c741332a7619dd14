import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import { type Sealed, storedText } from '../sealed.ts';

export interface UserSecretRow {
  id: string;
  user_id: string;
  name: string;
  description: string;
  value: Sealed;
  /** The length of the value before it was encrypted. */
  value_bytes: number;
  /** The environment variable with the value. Empty: none. */
  env_name: string;
  /** The file with the value. Empty: none. */
  file_path: string;
  enabled: boolean;
  created_at: Date;
  updated_at: Date;
}

/** What people may see of a secret. */
export type UserSecretInfo = Omit<UserSecretRow, 'value' | 'value_bytes'>;

export type UserSecretFields = Pick<
  UserSecretRow,
  'name' | 'description' | 'value' | 'value_bytes' | 'env_name' | 'file_path' | 'enabled'
>;

export async function userSecrets(db: Db, userId: string): Promise<UserSecretInfo[]> {
  return db<
    UserSecretInfo[]
  >`SELECT id, user_id, name, description, env_name, file_path, enabled, created_at, updated_at
    FROM user_secrets WHERE user_id = ${userId} ORDER BY name`;
}

export async function userSecretByName(db: Db, userId: string, name: string): Promise<UserSecretRow | undefined> {
  const [row] = await db<UserSecretRow[]>`SELECT * FROM user_secrets WHERE user_id = ${userId} AND name = ${name}`;
  return row;
}

/** The secrets for the workspaces of this person, with their values. */
export async function enabledUserSecrets(
  db: Db,
  ownerId: string,
): Promise<Pick<UserSecretRow, 'id' | 'value' | 'env_name' | 'file_path' | 'updated_at'>[]> {
  return db<UserSecretRow[]>`SELECT id, value, env_name, file_path, updated_at FROM user_secrets
    WHERE user_id = ${ownerId} AND enabled ORDER BY name`;
}

/** When each secret for the workspaces of these people changed last, in the order of the secrets. */
export async function changesOfUserSecrets(
  db: Db,
  ownerIds: string[],
): Promise<Pick<UserSecretRow, 'id' | 'user_id' | 'updated_at'>[]> {
  return db<UserSecretRow[]>`SELECT id, user_id, updated_at FROM user_secrets
    WHERE user_id = ANY(${ownerIds}) AND enabled ORDER BY name`;
}

/** Adds a secret. Undefined: the account was deleted. */
export async function insertUserSecret(
  tx: Tx,
  { ownerId }: Allowed<'create', { type: 'user_secret'; ownerId: string }>,
  secret: UserSecretFields,
): Promise<UserSecretRow | undefined> {
  const [row] = await tx<UserSecretRow[]>`WITH owner AS (
      SELECT id FROM users WHERE id = ${ownerId} AND NOT deleted FOR SHARE)
    INSERT INTO user_secrets (user_id, name, description, value, value_bytes, env_name, file_path, enabled)
    SELECT id, ${secret.name}, ${secret.description}, ${storedText(secret.value)}, ${secret.value_bytes},
      ${secret.env_name}, ${secret.file_path}, ${secret.enabled} FROM owner RETURNING *`;
  return row;
}

export async function updateUserSecret(
  tx: Tx,
  { id }: Allowed<'update', UserSecretRow>,
  secret: Omit<UserSecretFields, 'name'>,
): Promise<UserSecretRow | undefined> {
  const [row] = await tx<UserSecretRow[]>`UPDATE user_secrets SET description = ${secret.description},
    value = ${storedText(secret.value)}, value_bytes = ${secret.value_bytes}, env_name = ${secret.env_name},
    file_path = ${secret.file_path}, enabled = ${secret.enabled}, updated_at = now() WHERE id = ${id} RETURNING *`;
  return row;
}

export async function deleteUserSecret(tx: Tx, { id }: Allowed<'delete', UserSecretRow>): Promise<boolean> {
  return (await tx`DELETE FROM user_secrets WHERE id = ${id}`).count > 0;
}

/** How many secrets a person has, and the lengths of all values, and of those that are environment variables. */
export async function sumUserSecrets(
  tx: Tx,
  userId: string,
): Promise<{ count: number; bytes: number; env_bytes: number }> {
  const [row] = await tx<{ count: number; bytes: number; env_bytes: number }[]>`SELECT count(*)::integer AS count,
      coalesce(sum(value_bytes), 0)::integer AS bytes,
      coalesce(sum(value_bytes) FILTER (WHERE env_name <> ''), 0)::integer AS env_bytes
    FROM user_secrets WHERE user_id = ${userId}`;
  return row!;
}
