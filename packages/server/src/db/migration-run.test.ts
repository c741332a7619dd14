// How migrations run next to servers of the release before: in batches, without locks, and on schemas that are newer.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createLogger, silentLogger } from '@ropewalk/kit';
import { eventually, freshDatabase } from '@ropewalk/testkit';
import { connect, type Sql } from './connect.ts';
import { migrate } from './migrate.ts';
import { LAST_WITHOUT_HEADER, readHeader, runMigration } from './migration-run.ts';
import { type Migration, migrations } from './migrations/index.ts';

const NEWEST = migrations.at(-1)!.version;
const ROWS = 1_000_000;
/** The longest that a request may wait for a migration, in ms. The machine may delay some for longer. */
const MAX_WAIT_MS = 100;
/** The locks that neither readers nor writers of a table wait for. */
const LETS_PASS = ['AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock'];

interface Migrated {
  sql: Sql;
  url: string;
}

/** A database with this program's schema. */
async function migrated(t: TestContext): Promise<Migrated> {
  const { url, drop } = await freshDatabase();
  const sql = connect(url, { max: 4 });
  t.after(async () => {
    await sql.end({ timeout: 1 });
    await drop();
  });
  await migrate(sql, silentLogger);
  return { sql, url };
}

const step = (version: number, text: string): Migration => ({ version, name: 'next', text });

const IN_BATCHES = step(
  NEWEST + 1,
  `-- oldest program: 61
-- runs: in batches
WITH batch AS (
  SELECT id FROM items WHERE id > coalesce($1::bigint, 0) ORDER BY id LIMIT $2
), changed AS (
  UPDATE items SET length = length(label) FROM batch WHERE items.id = batch.id AND items.length IS NULL
)
SELECT id::text AS last FROM batch ORDER BY id DESC LIMIT 1`,
);

const INDEX = step(
  NEWEST + 2,
  `-- oldest program: 61
-- runs: without a transaction
CREATE INDEX CONCURRENTLY items_label ON items (label)`,
);

/** Starts a migration on a separate connection. `isUnderWay` says when to end that. Resolves when it has failed. */
async function interrupt(url: string, migration: Migration, isUnderWay: () => Promise<boolean>): Promise<void> {
  const doomed = connect(url, { max: 1 });
  const connection = await doomed.reserve();
  const [own] = await connection<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
  const failed = assert.rejects(runMigration(connection, migration, 'v1', silentLogger));
  const other = connect(url, { max: 1 });
  try {
    await eventually('the migration is under way', isUnderWay);
    await other`SELECT pg_terminate_backend(${own!.pid})`;
    await failed;
    const recorded = await other`SELECT 1 FROM schema_migrations WHERE version = ${migration.version}`;
    assert.equal(recorded.length, 0, 'it is recorded as done');
  } finally {
    await other.end({ timeout: 1 });
    await doomed.end({ timeout: 1 });
  }
}

/** Runs a migration while people read and write the table. */
async function runUnderLoad({ sql, url }: Migrated, migration: Migration): Promise<void> {
  const own = connect(url, { max: 1, applicationName: 'migration' });
  const connection = await own.reserve();
  let over = false;
  const running = runMigration(connection, migration, 'v1', silentLogger).finally(() => {
    over = true;
  });
  running.catch(() => {});
  let [requests, delayed] = [0, 0];
  const modes = new Set<string>();
  do {
    const id = 1 + Math.floor(Math.random() * ROWS);
    const began = performance.now();
    await sql`UPDATE items SET label = label || '.' WHERE id = ${id}`;
    await sql`SELECT label FROM items WHERE id = ${id}`;
    if (performance.now() - began > MAX_WAIT_MS) delayed += 1;
    requests += 1;
    const locks = await sql<{ mode: string }[]>`
      SELECT DISTINCT mode FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE application_name = 'migration' AND locktype = 'relation' AND relation = 'items'::regclass`;
    for (const { mode } of locks) modes.add(mode);
  } while (!over);
  await running;
  await own.end({ timeout: 1 });
  assert.ok(requests > 10, `only ${requests} requests`);
  assert.ok(delayed <= requests / 100, `${delayed} of ${requests} requests waited for more than ${MAX_WAIT_MS} ms`);
  assert.ok(modes.size > 0, 'the migration had a lock');
  assert.deepEqual(
    [...modes].filter((mode) => !LETS_PASS.includes(mode)),
    [],
  );
}

test('a million rows are changed in batches, and get an index, while requests pass', async (t) => {
  const database = await migrated(t);
  const { sql, url } = database;
  await sql.unsafe(`CREATE TABLE items (id bigint PRIMARY KEY, label text NOT NULL, length integer);
    INSERT INTO items (id, label) SELECT n, 'item ' || n FROM generate_series(1, ${ROWS}) n`);

  await t.test('in batches, after an attempt that was interrupted', async () => {
    const hasBegun = async () => (await sql`SELECT 1 FROM items WHERE length IS NOT NULL LIMIT 1`).length > 0;
    await interrupt(url, IN_BATCHES, hasBegun);
    await runUnderLoad(database, IN_BATCHES);
    const [left] = await sql<{ count: number }[]>`SELECT count(*)::int AS count FROM items WHERE length IS NULL`;
    assert.equal(left!.count, 0);
    const [row] = await sql`SELECT oldest_program, program FROM schema_migrations WHERE version = ${NEWEST + 1}`;
    assert.deepEqual({ ...row }, { oldest_program: 61, program: 'v1' });
  });

  await t.test('an index, after an attempt that was interrupted', async () => {
    const isValid = async () => {
      const [index] = await sql<{ valid: boolean }[]>`
        SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass('items_label')`;
      return index?.valid;
    };
    await interrupt(url, INDEX, async () => (await isValid()) === false);
    assert.equal(await isValid(), false);
    await runUnderLoad(database, INDEX);
    assert.equal(await isValid(), true);
  });
});

test('a program starts on a newer schema whose migrations allow it', async (t) => {
  const { sql } = await migrated(t);
  const lines: string[] = [];
  const log = createLogger({ level: 'info', sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
  await sql`INSERT INTO schema_migrations (version, name, oldest_program, program) VALUES
    (${NEWEST + 1}, 'expand', ${NEWEST}, 'v9.1'), (${NEWEST + 2}, 'expand_more', 61, 'v9.2')`;
  await migrate(sql, log);
  assert.match(lines.join(), /the schema of version v9\.2, on which this version works too/);
});

test('a program does not start on a newer schema that needs a newer program', async (t) => {
  const { sql } = await migrated(t);
  await sql`INSERT INTO schema_migrations (version, name, oldest_program, program) VALUES
    (${NEWEST + 1}, 'contract', ${NEWEST + 1}, 'v9.1'), (${NEWEST + 2}, 'expand', ${NEWEST}, 'v9.2')`;
  await assert.rejects(migrate(sql, silentLogger), {
    message: new RegExp(
      `^The database has schema ${NEWEST + 2} of version v9\\.2\\. This is version \\S+, which works with schema ${NEWEST}\\. ` +
        'Run the newer version, or restore a backup from before the upgrade\\.$',
    ),
  });
  await sql`UPDATE schema_migrations SET oldest_program = NULL, program = NULL WHERE version > ${NEWEST}`;
  await assert.rejects(migrate(sql, silentLogger), /The database has schema \d+ of a newer version\./);
});

test('each migration names the oldest program that works on its result', () => {
  for (const each of migrations) assert.ok(readHeader(each).oldestProgram <= each.version);
  const header = (text: string) => readHeader({ version: LAST_WITHOUT_HEADER + 2, name: 'x', text });
  assert.deepEqual(header('-- Words.\n-- oldest program: 62\nSELECT 1'), {
    oldestProgram: 62,
    runs: 'in one transaction',
  });
  for (const wrong of ['', '-- oldest program: 99', '-- oldest program: x', '-- oldest program: 61\n-- runs: often']) {
    assert.throws(() => header(wrong), /The header of migration 63 \(x\) must have/, wrong);
  }
});
