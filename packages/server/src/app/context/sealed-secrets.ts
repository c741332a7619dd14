import { AppError } from '@ropewalk/kit';
import { type SystemTask, systemTask } from '../../authz/proofs.ts';
import type { Db } from '../../db/connect.ts';
import { changeSecrets, deleteEncrypted, keysInUse } from '../../db/queries/sealed-secrets.ts';
import { storedText } from '../../db/sealed.ts';
import type { Ctx } from './context.ts';
import { createVault, type Vault } from './vault.ts';

/**
 * Verifies that the vault has the keys of all stored secrets: without one of them, the server would fail later, for some
 * people only.
 * @throws AppError `invalid` that names the missing keys by their fingerprints, followed by `advice`
 */
export async function checkVault(db: Db, by: SystemTask, vault: Vault, advice: string): Promise<void> {
  const missing = [...(await keysInUse(db, by))].filter((key) => !vault.fingerprints.includes(key));
  if (missing.length === 0) return;
  const keys = missing.length === 1 ? `the key ${missing[0]}` : `the keys ${missing.join(' and ')}`;
  throw new AppError('invalid', `The database contains secrets that are encrypted with ${keys}. ${advice}`);
}

/** Encrypts all secrets with a new key, in one transaction. Secrets without encryption are encrypted, too. */
export function rotateSecrets(ctx: Ctx, newKey: string, oldKeys: readonly string[]): Promise<number> {
  const old = createVault(oldKeys, '--old-keys');
  const [first] = createVault([newKey], '--new-key').fingerprints;
  const next = createVault([newKey, ...oldKeys]);
  return ctx.sql.begin(async (tx) => {
    await checkVault(tx, systemTask(ctx), next, 'Add it to --old-keys.');
    return changeSecrets(tx, systemTask(ctx), (stored) => {
      const key = next.keyOf(stored);
      return key === first ? stored : next.seal(key === undefined ? storedText(stored) : old.open(stored));
    });
  });
}

/** Stores all secrets without encryption, in one transaction. */
export function decryptSecrets(ctx: Ctx, keys: readonly string[]): Promise<number> {
  const vault = createVault(keys, '--keys');
  const plain = createVault([]);
  return ctx.sql.begin(async (tx) => {
    await checkVault(tx, systemTask(ctx), vault, 'Add it to --keys.');
    return changeSecrets(tx, systemTask(ctx), (stored) => plain.seal(vault.open(stored)));
  });
}

/** Deletes all encrypted secrets. People connect their accounts again, and get new Git SSH keys. */
export function deleteSecrets(ctx: Ctx): Promise<number> {
  return ctx.sql.begin((tx) => deleteEncrypted(tx, systemTask(ctx)));
}
