import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';
import type { UserRow } from '../rows.ts';
import { type Sealed, storedText } from '../sealed.ts';

export interface GitSshKeyRow {
  user_id: string;
  private_key: Sealed;
  public_key: string;
  created_at: Date;
  updated_at: Date;
}

export type SshKeyPair = Pick<GitSshKeyRow, 'private_key' | 'public_key'>;

export async function gitSshKey(db: Db, userId: string): Promise<GitSshKeyRow | undefined> {
  const [row] = await db<GitSshKeyRow[]>`SELECT * FROM git_ssh_keys WHERE user_id = ${userId}`;
  return row;
}

/** Stores a person's first key. An existing key stays. The server does this itself when a key is needed. */
export async function insertGitSshKey(
  db: Db,
  _by: SystemTask,
  userId: string,
  { private_key, public_key }: SshKeyPair,
): Promise<void> {
  await db`INSERT INTO git_ssh_keys (user_id, private_key, public_key)
    VALUES (${userId}, ${storedText(private_key)}, ${public_key}) ON CONFLICT DO NOTHING`;
}

export async function replaceGitSshKey(
  db: Db,
  user: Allowed<'update_personal', UserRow>,
  { private_key, public_key }: SshKeyPair,
): Promise<GitSshKeyRow> {
  const [row] = await db<GitSshKeyRow[]>`INSERT INTO git_ssh_keys (user_id, private_key, public_key)
    VALUES (${user.id}, ${storedText(private_key)}, ${public_key})
    ON CONFLICT (user_id) DO UPDATE SET private_key = excluded.private_key, public_key = excluded.public_key,
      updated_at = now() RETURNING *`;
  return row!;
}
