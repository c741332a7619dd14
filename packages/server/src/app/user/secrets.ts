// A person's secrets for the own workspaces. Nobody but the person reads or changes them, not even owners of the site, and
// no response contains a value. Agents get them (agent-secrets.ts).

import type {
  CreateUserSecretRequest,
  ImportUserSecretsRequest,
  UpdateUserSecretRequest,
  UserSecret,
} from '@ropewalk/contract';
import { AppError, isAppError, type Validation } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { parseSecretFile } from '@ropewalk/rules/secret-file';
import {
  MAX_ALL_SECRETS_BYTES,
  MAX_SECRET_BYTES,
  MAX_SECRETS,
  type NewSecret,
  NO_TARGET,
  newSecretProblems,
  secretProblems,
} from '@ropewalk/rules/user-secret';
import { parseAllDocuments } from 'yaml';
import { type Allowed, allow, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { type Db, isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { lockLimit } from '../../db/queries/limits.ts';
import {
  deleteUserSecret,
  insertUserSecret,
  sumUserSecrets,
  type UserSecretInfo,
  type UserSecretRow,
  updateUserSecret,
  userSecretByName,
  userSecrets,
} from '../../db/queries/user-secrets.ts';
import type { UserRow } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findUser, requirePerson } from '../find/user.ts';
import { beginInTurn } from '../lists/turns.ts';
import { time } from '../values/time.ts';

const toUserSecret = (row: UserSecretInfo): UserSecret => ({
  id: row.id,
  name: row.name,
  description: row.description,
  env_name: row.env_name,
  file_path: row.file_path,
  enabled: row.enabled,
  created_at: time(row.created_at),
  updated_at: time(row.updated_at),
});

const objectOf = ({ id, user_id: ownerId }: Pick<UserSecretRow, 'id' | 'user_id'>) =>
  ({ type: 'user_secret', id, ownerId }) as const;

export async function listSecrets(ctx: Ctx, user: string): Promise<UserSecret[]> {
  const owner = await findUser(ctx, 'read', user);
  authorize(ctx, 'read', { type: 'user_secret', ownerId: owner.id });
  return (await userSecrets(ctx.sql, owner.id)).map(toUserSecret);
}

/** Finds a secret for this action. Another person's secret does not exist for anyone. */
async function findSecret<A extends 'read' | 'update' | 'delete'>(
  ctx: Ctx,
  db: Db,
  owner: Pick<UserRow, 'id'>,
  name: string,
  action: A,
): Promise<Allowed<A, UserSecretRow>> {
  const row = await userSecretByName(db, owner.id, name);
  if (!row) throw notFound();
  return allow(ctx, action, row, objectOf(row));
}

export async function getSecret(ctx: Ctx, user: string, name: string): Promise<UserSecret> {
  return toUserSecret(await findSecret(ctx, ctx.sql, await findUser(ctx, 'read', user), name, 'read'));
}

/** Finds a person whose secrets the actor may create. */
async function findOwner(ctx: Ctx, user: string) {
  const owner = await findUser(ctx, 'read', user);
  requirePerson(owner);
  return authorize(ctx, 'create', { type: 'user_secret', ownerId: owner.id });
}

const rejected = (validations: Validation[], code: 'invalid' | 'conflict' = 'invalid') =>
  new AppError(code, 'Validation failed.', { validations });

/** @throws AppError `invalid` if the secrets of a person, which this transaction has changed, exceed a limit */
async function requireSecretRoom(tx: Tx, ownerId: string): Promise<void> {
  const { count, bytes, env_bytes: envBytes } = await sumUserSecrets(tx, ownerId);
  if (count > MAX_SECRETS)
    throw new AppError('invalid', 'User secrets limit reached.', {
      detail: `A person can have at most ${MAX_SECRETS} secrets. Delete one and try again.`,
    });
  if (bytes > MAX_ALL_SECRETS_BYTES)
    throw new AppError('invalid', 'User secrets value-bytes limit reached.', {
      detail: `The values of a person can have ${MAX_ALL_SECRETS_BYTES} bytes together, the per-user budget. These have ${bytes}.`,
    });
  if (envBytes > MAX_SECRET_BYTES)
    throw new AppError('invalid', 'Environment-injected user secrets bytes limit reached.', {
      detail: `The values of environment variables can have ${MAX_SECRET_BYTES} bytes together. These have ${envBytes}. Use a file (file_path) instead of env_name.`,
    });
}

const TAKEN: Readonly<Record<string, Validation>> = {
  user_secrets_name: { field: 'name', detail: 'name already in use' },
  user_secrets_env_name: { field: 'env_name', detail: 'environment variable already in use' },
  user_secrets_file_path: { field: 'file_path', detail: 'file path already in use' },
};

/**
 * Runs a change of a person's secrets, and announces it to running workspaces. Further changes of this person wait, so that
 * the limits hold.
 */
function change<T>(ctx: Ctx, ownerId: string, run: (tx: Tx) => Promise<T>): Promise<T> {
  return beginInTurn(
    ctx,
    async (tx) => {
      await lockLimit(tx, 'secrets', ownerId);
      const result = await run(tx);
      await ctx.events.publish(tx, 'user_secrets_changed', { user_id: ownerId });
      return result;
    },
    'secrets',
  );
}

/** The error for a statement that a unique index rejected. Other errors stay. */
function conflict(err: unknown): unknown {
  if (!isPgError(err, UNIQUE_VIOLATION)) return err;
  const taken = ownValue(TAKEN, (err as { constraint_name?: string }).constraint_name ?? '');
  return taken ? rejected([taken], 'conflict') : err;
}

async function insert(
  ctx: Ctx,
  tx: Tx,
  owner: Awaited<ReturnType<typeof findOwner>>,
  { name, value, description = '', env_name = '', file_path = '', enabled = true }: NewSecret,
): Promise<UserSecretRow> {
  const row = await insertUserSecret(tx, owner, {
    name,
    description,
    value: ctx.vault.seal(value),
    value_bytes: Buffer.byteLength(value),
    env_name,
    file_path,
    enabled,
  }).catch((err: unknown) => {
    throw conflict(err);
  });
  if (!row) throw notFound();
  await requireSecretRoom(tx, owner.ownerId);
  await audit(ctx, tx, { ...entryOf(row), action: 'create', status: 201, after: row });
  return row;
}

/** The index of the audit log has no room for the longest names. */
const MAX_TARGET = 256;

const entryOf = ({ id, name }: UserSecretRow) => ({
  resourceType: 'user_secret',
  resourceId: id,
  target: name.slice(0, MAX_TARGET),
});

export async function createSecret(ctx: Ctx, user: string, input: CreateUserSecretRequest): Promise<UserSecret> {
  const owner = await findOwner(ctx, user);
  const problems = newSecretProblems(input);
  if (problems.length > 0) throw rejected(problems);
  return change(ctx, owner.ownerId, async (tx) => toUserSecret(await insert(ctx, tx, owner, input)));
}

/** Creates the secrets of a file, all or none. Errors name the entry of the file. */
export async function importSecrets(
  ctx: Ctx,
  user: string,
  { format, content }: ImportUserSecretsRequest,
): Promise<UserSecret[]> {
  const owner = await findOwner(ctx, user);
  const secrets = readSecretFile(format, content);
  const at = (index: number, { field, detail }: Validation) => ({ field: `secrets[${index}].${field}`, detail });
  const problems = secrets.flatMap((secret, index) => newSecretProblems(secret).map((problem) => at(index, problem)));
  if (problems.length > 0) throw rejected(problems);
  return change(ctx, owner.ownerId, async (tx) => {
    const made: UserSecret[] = [];
    for (const [index, secret] of secrets.entries()) {
      try {
        made.push(toUserSecret(await insert(ctx, tx, owner, secret)));
      } catch (err) {
        if (!isAppError(err) || err.code === 'not_found') throw err;
        if (err.validations)
          throw rejected(
            err.validations.map((one) => at(index, one)),
            'conflict',
          );
        const detail = `Entry secrets[${index}] (${JSON.stringify(secret.name)}): ${err.detail}`;
        throw new AppError(err.code, err.message, { detail });
      }
    }
    return made;
  });
}

function readSecretFile(format: ImportUserSecretsRequest['format'], content: string): NewSecret[] {
  try {
    return parseSecretFile(format, content, parseAllDocuments);
  } catch (err) {
    if (!isAppError(err)) throw err;
    throw new AppError('invalid', 'Failed to parse secrets file.', { detail: err.message });
  }
}

export async function updateSecret(
  ctx: Ctx,
  user: string,
  name: string,
  input: UpdateUserSecretRequest,
): Promise<UserSecret> {
  const owner = await findUser(ctx, 'read', user);
  await findSecret(ctx, ctx.sql, owner, name, 'update');
  if (Object.values(input).every((field) => field === undefined))
    throw new AppError('invalid', 'At least one field must be provided.');
  const problems = secretProblems(input);
  if (problems.length > 0) throw rejected(problems);
  return change(ctx, owner.id, async (tx) => {
    const before = await findSecret(ctx, tx, owner, name, 'update');
    const { value, description = before.description, enabled = before.enabled } = input;
    const { env_name = before.env_name, file_path = before.file_path } = input;
    if (enabled && env_name === '' && file_path === '') throw rejected([NO_TARGET]);
    const secret =
      value === undefined
        ? { value: before.value, value_bytes: before.value_bytes }
        : { value: ctx.vault.seal(value), value_bytes: Buffer.byteLength(value) };
    const fields = { ...secret, description, env_name, file_path, enabled };
    const after = await updateUserSecret(tx, before, fields).catch((err: unknown) => {
      throw conflict(err);
    });
    if (!after) throw notFound();
    await requireSecretRoom(tx, owner.id);
    await audit(ctx, tx, { ...entryOf(after), action: 'write', before, after });
    return toUserSecret(after);
  });
}

export async function deleteSecret(ctx: Ctx, user: string, name: string): Promise<undefined> {
  const owner = await findUser(ctx, 'read', user);
  await change(ctx, owner.id, async (tx) => {
    const row = await findSecret(ctx, tx, owner, name, 'delete');
    await deleteUserSecret(tx, row);
    await audit(ctx, tx, { ...entryOf(row), action: 'delete', status: 204, before: row });
  });
}
