import { AppError, type Logger } from '@platform/kit';
import type { Sql } from './connect.ts';
import { migrations } from './migrations/index.ts';

/** Any number that only this program uses. */
const LOCK = 0x636f6465;

/**
 * Migrates the database to this program's schema. Forward only, by one server at a time, each step in one transaction.
 */
export async function migrate(sql: Sql, log: Logger): Promise<void> {
  const connection = await sql.reserve();
  try {
    await connection`SELECT pg_advisory_lock(${LOCK})`;
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
      await connection.unsafe(`BEGIN; SET LOCAL statement_timeout = 0; ${text}
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
