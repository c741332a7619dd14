// The columns of encrypted secrets, for work on all of them: a new key, or none.

import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import { SEALED_PREFIX, type Sealed, storedText } from '../sealed.ts';

/** The tables with encrypted secrets: the columns that identify a row, and those with secrets. */
const PLACES = [
  { table: 'git_ssh_keys', id: ['user_id'], secrets: ['private_key'] },
  { table: 'external_auth_links', id: ['user_id', 'provider_id'], secrets: ['access_token', 'refresh_token', 'extra'] },
  { table: 'user_links', id: ['user_id', 'login_type'], secrets: ['access_token', 'refresh_token'] },
] as const;

const BATCH = 500;

/** The fingerprints of all keys with which stored secrets are encrypted. */
export async function keysInUse(db: Db, _by: SystemTask): Promise<Set<string>> {
  const used = new Set<string>();
  for (const { table, secrets } of PLACES) {
    for (const column of secrets) {
      const rows = await db<{ key: string }[]>`SELECT DISTINCT split_part(${db(column)}, ':', 2) AS key
        FROM ${db(table)} WHERE ${db(column)} LIKE ${`${SEALED_PREFIX}%`}`;
      for (const { key } of rows) used.add(key);
    }
  }
  return used;
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
