// The columns of encrypted secrets, for work on all of them: a new key, or none.

import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import { SEALED_PREFIX, type Sealed, storedText } from '../sealed.ts';

/** The tables with encrypted secrets: the columns that identify a row, and those with secrets. */
const PLACES = [
  { table: 'git_ssh_keys', id: ['user_id'], secrets: ['private_key'] },
  { table: 'external_auth_links', id: ['user_id', 'provider_id'], secrets: ['access_token', 'refresh_token', 'extra'] },
  { table: 'user_secrets', id: ['id'], secrets: ['value'] },
  { table: 'user_links', id: ['user_id', 'login_type'], secrets: ['access_token', 'refresh_token'] },
] as const;

const BATCH = 500;

/** How many stored secrets each key encrypts, by its fingerprint. The empty text stands for secrets without encryption. */
async function countAll(db: Db): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const { table, secrets } of PLACES) {
    for (const column of secrets) {
      const rows = await db<{ key: string; count: number }[]>`
        SELECT CASE WHEN ${db(column)} LIKE ${`${SEALED_PREFIX}%`} THEN split_part(${db(column)}, ':', 2) ELSE '' END AS key,
          count(*) FROM ${db(table)} WHERE ${db(column)} <> '' GROUP BY 1`;
      for (const { key, count } of rows) counts.set(key, (counts.get(key) ?? 0) + count);
    }
  }
  return counts;
}

/** The fingerprints of all keys with which stored secrets are encrypted. */
export async function keysInUse(db: Db, _by: SystemTask): Promise<Set<string>> {
  const keys = new Set((await countAll(db)).keys());
  keys.delete('');
  return keys;
}

/** The number of stored secrets by the fingerprint of their key, which is empty for secrets without encryption. */
export function countByKey(db: Db, _by: Allowed<'read', { type: 'deployment_config' }>): Promise<Map<string, number>> {
  return countAll(db);
}

/**
 * Replaces every stored secret, encrypted or not, with the result of `change`. Returns how many secrets changed.
 * Other writes to these rows wait until the end of the transaction.
 */
export async function changeSecrets(tx: Tx, _by: SystemTask, change: (stored: Sealed) => Sealed): Promise<number> {
  let changed = 0;
  for (const { table, id, secrets } of PLACES) {
    const cursor = tx<Record<string, string>[]>`SELECT * FROM ${tx(table)} FOR UPDATE`.cursor(BATCH);
    for await (const rows of cursor) {
      for (const row of rows) {
        const values: Record<string, string> = {};
        for (const column of secrets) {
          const after = row[column] === '' ? '' : storedText(change(row[column] as unknown as Sealed));
          if (after !== row[column]) values[column] = after;
        }
        const count = Object.keys(values).length;
        if (count === 0) continue;
        changed += count;
        const same = id
          .map((column) => tx`${tx(column)} = ${row[column]!}`)
          .reduce((all, one) => tx`${all} AND ${one}`);
        await tx`UPDATE ${tx(table)} SET ${tx(values)} WHERE ${same}`;
      }
    }
  }
  return changed;
}

/** Deletes the rows of all encrypted secrets. Returns how many. */
export async function deleteEncrypted(tx: Tx, _by: SystemTask): Promise<number> {
  let deleted = 0;
  for (const { table, secrets } of PLACES) {
    const encrypted = secrets
      .map((column) => tx`${tx(column)} LIKE ${`${SEALED_PREFIX}%`}`)
      .reduce((any, one) => tx`${any} OR ${one}`);
    deleted += (await tx`DELETE FROM ${tx(table)} WHERE ${encrypted}`).count;
  }
  return deleted;
}
