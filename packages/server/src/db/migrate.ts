import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type Logger, retry } from '@ropewalk/kit';
import { isPgError, isTransient, isUnreachable, LOCK_NOT_AVAILABLE, type Sql } from './connect.ts';
import { migrations } from './migrations/index.ts';

/** Any number that only this program uses. */
const LOCK = 0x636f6465;
/** How often a server asks whether the one that migrates is done, in ms. */
const LOCK_POLL_MS = 200;
/** How often it says that it waits, in ms. */
const LOCK_LOG_MS = 30_000;
/**
 * How long a step waits for a table that a transaction of another server uses, in ms. Requests for the table queue behind
 * the step meanwhile, so it lets them pass before it tries again.
 */
export const LOCK_TIMEOUT_MS = 3_000;
/** How long a migration tries again, in ms: longer than any transaction of a server lasts. */
const PATIENCE_MS = 5 * 60_000;

/**
 * Migrates the database to this program's schema. Forward only, by one server at a time, each step in one transaction.
 * Waits for a server that migrates already. A step that meets the transactions of other servers runs again, for up to five
 * minutes.
 * @throws AppError `unavailable` if a transaction uses a table for longer
 */
export async function migrate(sql: Sql, log: Logger): Promise<void> {
  const until = Date.now() + PATIENCE_MS;
  try {
    await retry(() => migrateOnce(sql, log), {
      baseMs: 200,
      capMs: 2_000,
      retryable: (err) => isTransient(err) && !isUnreachable(err) && Date.now() < until,
      onRetry: (err, waitMs) => log.warn('a migration failed; trying again', { err: (err as Error).message, waitMs }),
    });
  } catch (err) {
    if (!isPgError(err, LOCK_NOT_AVAILABLE)) throw err;
    const reason =
      'Could not migrate the database: another transaction, such as that of a backup, has used a table for five minutes. ' +
      'Find it in pg_stat_activity, wait for its end or cancel it, and start the server again.';
    throw new AppError('unavailable', reason, { cause: err });
  }
}

async function migrateOnce(sql: Sql, log: Logger): Promise<void> {
  const connection = await sql.reserve();
  try {
    await lock(connection, log);
    await connection`CREATE TABLE IF NOT EXISTS schema_migrations (
      version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`;
    const [row] = await connection<
      { version: number }[]
    >`SELECT coalesce(max(version), 0) AS version FROM schema_migrations`;
    const at = row!.version;
    const newest = migrations.at(-1)!.version;
    if (at > newest) {
      throw new AppError(
        'internal',
        `The database is at schema ${at}, newer than this program's ${newest}. Run a newer program.`,
      );
    }
    for (const { version, name, text } of migrations.filter((step) => step.version > at)) {
      log.debug('applying migration', { version, name });
      // a step that rewrites a large table takes longer than any request may
      await connection.unsafe(`BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}; ${text}
        INSERT INTO schema_migrations (version, name) VALUES (${version}, '${name}'); COMMIT`);
    }
  } catch (err) {
    await connection.unsafe('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    await connection`SELECT pg_advisory_unlock(${LOCK})`.catch(() => {});
    connection.release();
  }
}

/** Takes the lock of the server that migrates. It asks again and again, because no statement may run as long as it waits. */
async function lock(connection: Sql, log: Logger): Promise<void> {
  for (let loggedAt = 0; ; ) {
    const [row] = await connection<{ taken: boolean }[]>`SELECT pg_try_advisory_lock(${LOCK}) AS taken`;
    if (row!.taken) return;
    if (Date.now() - loggedAt >= LOCK_LOG_MS) {
      log.info('another server migrates the database; waiting for it');
      loggedAt = Date.now();
    }
    await sleep(LOCK_POLL_MS);
  }
}
