import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, type Logger, retry } from '@ropewalk/kit';
import { VERSION } from '@ropewalk/kit/version';
import { isPgError, isTransient, isUnreachable, LOCK_NOT_AVAILABLE, type Sql } from './connect.ts';
import { LOCK_TIMEOUT_MS, runMigration } from './migration-run.ts';
import { type Migration, migrations } from './migrations/index.ts';

/** Any number that only this program uses. */
const LOCK = 0x636f6465;
/** How often a server asks whether the one that migrates is done, in ms. */
const LOCK_POLL_MS = 200;
/** How often it says that it waits, in ms. */
const LOCK_LOG_MS = 30_000;
/** How long a migration tries again, in ms: longer than any transaction of a server lasts. */
const PATIENCE_MS = 5 * 60_000;

/**
 * Migrates the database to this program's schema. Forward only, by one server at a time. Waits for a server that migrates
 * already. A step that meets the transactions of other servers runs again, for up to five minutes. A newer schema stays as it
 * is.
 * @param steps only some of them, in a test
 * @throws AppError `unavailable` if a transaction uses a table for longer, and `internal` if this program is too old for a
 *   newer schema
 */
export async function migrate(sql: Sql, log: Logger, steps: readonly Migration[] = migrations): Promise<void> {
  const until = Date.now() + PATIENCE_MS;
  try {
    await retry(() => migrateOnce(sql, log, steps), {
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

async function migrateOnce(sql: Sql, log: Logger, steps: readonly Migration[]): Promise<void> {
  const connection = await sql.reserve();
  try {
    await lock(connection, log);
    await createJournal(connection);
    const [row] = await connection<
      { version: number }[]
    >`SELECT coalesce(max(version), 0) AS version FROM schema_migrations`;
    const at = row!.version;
    if (at > migrations.at(-1)!.version) return await checkNewerSchema(connection, log);
    for (const step of steps.filter(({ version }) => version > at)) {
      await runMigration(connection, step, VERSION, log);
    }
  } catch (err) {
    await connection.unsafe('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    await connection`SELECT pg_advisory_unlock(${LOCK})`.catch(() => {});
    connection.release();
  }
}

/** The table of the migrations that have run. Older programs made it without the last two columns. */
async function createJournal(connection: Sql): Promise<void> {
  const [found] = await connection<{ columns: string[] | null }[]>`
    SELECT array_agg(attname::text) AS columns FROM pg_attribute
    WHERE attrelid = to_regclass('schema_migrations') AND attnum > 0 AND NOT attisdropped`;
  if (found!.columns?.includes('program')) return;
  await connection.unsafe(`BEGIN; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS};
    CREATE TABLE IF NOT EXISTS schema_migrations (
      version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
    ALTER TABLE schema_migrations ADD COLUMN oldest_program integer, ADD COLUMN program text; COMMIT`);
}

/** Starts on a schema that a newer program made, if its migrations allow this one. So releases can be replaced one by one. */
async function checkNewerSchema(connection: Sql, log: Logger): Promise<void> {
  const own = migrations.at(-1)!.version;
  const newer = await connection<{ version: number; oldest: number | null; program: string | null }[]>`
    SELECT version, oldest_program AS oldest, program FROM schema_migrations WHERE version > ${own} ORDER BY version`;
  const { version, program } = newer.at(-1)!;
  const made = program ? `version ${program}` : 'a newer version';
  if (newer.every(({ oldest }) => oldest !== null && oldest <= own)) {
    log.info(`the database has the schema of ${made}, on which this version works too`, { schema: version, own });
    return;
  }
  throw new AppError(
    'internal',
    `The database has schema ${version} of ${made}. This is version ${VERSION}, which works with schema ${own}. ` +
      'Run the newer version, or restore a backup from before the upgrade.',
  );
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
