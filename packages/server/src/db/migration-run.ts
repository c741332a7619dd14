import { AppError, type Logger } from '@ropewalk/kit';
import type { Sql } from './connect.ts';
import type { Migration } from './migrations/index.ts';

/** The last migration without a header. It runs in one transaction, and programs that know fewer migrations don't start on it. */
export const LAST_WITHOUT_HEADER = 61;
/**
 * How long a step waits for a table that a transaction of another server uses, in ms. Requests for the table queue behind
 * the step meanwhile, so it lets them pass before it tries again.
 */
export const LOCK_TIMEOUT_MS = 3_000;
/** How long one batch should take, in ms. Writers of the same rows wait that long. */
const BATCH_MS = 40;
const FIRST_BATCH_ROWS = 500;
const MAX_BATCH_ROWS = 50_000;
/** How often a migration in batches reports how far it is, in ms. */
const PROGRESS_MS = 10_000;

const WAYS = ['in one transaction', 'without a transaction', 'in batches'] as const;

/** What the first comment lines of a migration say about it. docs/recipes/add-a-migration.md describes them. */
export interface MigrationHeader {
  /** The newest migration of the oldest program that works on the result. */
  oldestProgram: number;
  runs: (typeof WAYS)[number];
}

/** @throws AppError `internal` for a header that is missing or wrong */
export function readHeader({ version, name, text }: Migration): MigrationHeader {
  const value = (key: string) => new RegExp(`^-- ${key}: (.+)$`, 'm').exec(text)?.[1];
  const oldest = value('oldest program') ?? (version <= LAST_WITHOUT_HEADER ? `${version}` : '');
  const runs = value('runs') ?? WAYS[0];
  if (!/^\d+$/.test(oldest) || Number(oldest) > version || !WAYS.some((way) => way === runs)) {
    throw new AppError(
      'internal',
      `The header of migration ${version} (${name}) must have "-- oldest program: N" with a number up to ${version}, ` +
        `and may have "-- runs: ${WAYS.join('" or "')}".`,
    );
  }
  return { oldestProgram: Number(oldest), runs: runs as MigrationHeader['runs'] };
}

/** Runs one migration and records it as done by `program`, a version. Interrupted, it can run again. */
export async function runMigration(connection: Sql, migration: Migration, program: string, log: Logger): Promise<void> {
  const { oldestProgram, runs } = readHeader(migration);
  const { version, name, text } = migration;
  const record = `INSERT INTO schema_migrations (version, name, oldest_program, program)
    VALUES (${version}, '${name}', ${oldestProgram}, '${program.replaceAll("'", "''")}')`;
  log.debug('applying migration', { version, name });
  if (runs === 'in one transaction') {
    // a step that rewrites a large table takes longer than any request may
    await connection.unsafe(`BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}; ${text}
      ${record}; COMMIT`);
    return;
  }
  if (runs === 'in batches') {
    // a plan for any number of rows reads the whole table
    await withSetting(connection, 'plan_cache_mode', 'force_custom_plan', () =>
      runInBatches(connection, migration, log),
    );
  } else await withSetting(connection, 'statement_timeout', '0', () => runOutside(connection, text));
  await connection.unsafe(record);
}

/** Runs `work` with another value of a setting of the connection, which goes back to its pool afterwards. */
async function withSetting(connection: Sql, name: string, value: string, work: () => Promise<void>): Promise<void> {
  const [before] = await connection<{ value: string }[]>`SELECT current_setting(${name}) AS value`;
  await connection`SELECT set_config(${name}, ${value}, false)`;
  try {
    await work();
  } finally {
    // a connection that was lost has no settings
    await connection`SELECT set_config(${name}, ${before!.value}, false)`.catch(() => {});
  }
}

/** Statements such as CREATE INDEX CONCURRENTLY, which keep no lock that readers or writers wait for. */
async function runOutside(connection: Sql, text: string): Promise<void> {
  // an attempt that was interrupted leaves an index that nothing uses
  const invalid = await connection<{ name: string }[]>`
    SELECT quote_ident(relname) AS name FROM pg_index JOIN pg_class ON oid = indexrelid
    WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace`;
  const words = text.split(/[^\w"]+/);
  for (const { name } of invalid) {
    if (words.includes(name)) await connection.unsafe(`DROP INDEX CONCURRENTLY ${name}`);
  }
  await connection.unsafe(text);
}

/**
 * Repeats the statement until it returns no row. $1 is the `last` of the batch before, null for the first, and $2 the number
 * of rows. Each batch is a transaction, and has as many rows as take BATCH_MS.
 */
async function runInBatches(connection: Sql, { version, text }: Migration, log: Logger): Promise<void> {
  let rows = FIRST_BATCH_ROWS;
  let [done, reportedAt] = [0, Date.now()];
  for (let last: string | null = null; ; ) {
    const began = performance.now();
    const [batch]: { last: string }[] = await connection.unsafe<{ last: string }[]>(text, [last, rows]);
    if (!batch) return;
    last = batch.last;
    done += rows;
    const took = Math.max(performance.now() - began, 1);
    // at most doubled, since a batch may have met rows with less to do
    rows = Math.min(Math.max(Math.round(rows * Math.min(BATCH_MS / took, 2)), 1), MAX_BATCH_ROWS);
    if (Date.now() - reportedAt >= PROGRESS_MS) {
      log.info('migrating in batches', { version, rows: done });
      reportedAt = Date.now();
    }
  }
}
