// Several servers start, and older ones work meanwhile: a migration waits for the others.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createLogger, type Logger, silentLogger } from '@ropewalk/kit';
import { eventually, freshDatabase } from '@ropewalk/testkit';
import { connect, isPgError, type Sql } from './connect.ts';
import { migrate } from './migrate.ts';
import { LOCK_TIMEOUT_MS, readHeader } from './migration-run.ts';
import { migrations } from './migrations/index.ts';

/** The migrations up to the newest that runs in a transaction. The tests change what such a step meets. */
const steps = migrations.slice(0, migrations.findLastIndex((one) => readHeader(one).runs === 'in one transaction') + 1);
const NEWEST = steps.at(-1)!.version;
/** Far below the time for which the tests make migrations wait. */
const STATEMENT_TIMEOUT_MS = 300;

interface Bench {
  /** With a statement timeout, like a server's. */
  sql: Sql;
  other: Sql;
  /** One connection of `other`. It is released before the connections end, which would wait for it. */
  reserve(): ReturnType<Sql['reserve']>;
  log: Logger;
  lines: string[];
}

async function bench(t: TestContext): Promise<Bench> {
  const database = await freshDatabase();
  const sql = connect(database.url, { statementTimeoutMs: STATEMENT_TIMEOUT_MS });
  const other = connect(database.url, { max: 2, statementTimeoutMs: 2 * LOCK_TIMEOUT_MS });
  const reserved: Awaited<ReturnType<Sql['reserve']>>[] = [];
  t.after(async () => {
    for (const connection of reserved) connection.release();
    await Promise.all([sql.end({ timeout: 1 }), other.end({ timeout: 1 })]);
    await database.drop();
  });
  const lines: string[] = [];
  const log = createLogger({ level: 'info', sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
  const reserve = async () => {
    const connection = await other.reserve();
    reserved.push(connection);
    return connection;
  };
  return { sql, other, reserve, log, lines };
}

/** Brings a database to the schema before the newest migration. */
const migrateToLast = (sql: Sql) => migrate(sql, silentLogger, steps.slice(0, -1));

async function schemaOf(sql: Sql): Promise<number> {
  const [row] = await sql<{ version: number }[]>`SELECT max(version) AS version FROM schema_migrations`;
  return row!.version;
}

test('a server waits for one that migrates for longer than any statement may run, and says so', async (t) => {
  const { sql, other, reserve, log, lines } = await bench(t);
  const first = await reserve();
  const [lock] = await first<{ key: number }[]>`SELECT pg_advisory_lock(${0x636f6465}), 1 AS key`;
  assert.ok(lock);
  const second = migrate(sql, log, steps);
  const early = second.then(
    () => 'the migration ended without the lock',
    (err: Error) => err.message,
  );
  const waited = first`SELECT pg_sleep(${(3 * STATEMENT_TIMEOUT_MS) / 1_000})`.then(() => 'it waits');
  assert.equal(await Promise.race([early, waited]), 'it waits');
  assert.match(lines.join('\n'), /another server migrates the database/);
  await first`SELECT pg_advisory_unlock(${0x636f6465})`;
  await second;
  assert.equal(await schemaOf(other), NEWEST);
});

test('a step that meets other transactions or a lack of memory runs again, and has happened once', async (t) => {
  const { sql, other, log, lines } = await bench(t);
  await migrateToLast(other);
  const codes = ['40P01', '40001', '55P03', '53200'];
  // no rollback resets the sequence
  await other.unsafe(`CREATE SEQUENCE faults;
    CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE code text := ('{${codes.join()}}'::text[])[nextval('faults')];
    BEGIN
      IF code IS NOT NULL THEN RAISE EXCEPTION 'injected %', code USING ERRCODE = code; END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER fault BEFORE INSERT ON schema_migrations FOR EACH ROW EXECUTE FUNCTION fault()`);
  await migrate(sql, log, steps);
  assert.equal(await schemaOf(other), NEWEST);
  for (const code of codes) assert.match(lines.join('\n'), new RegExp(`injected ${code}`));
});

test('an error of the step itself ends the start', async (t) => {
  const { sql, other, log } = await bench(t);
  await migrateToLast(other);
  await other.unsafe(`ALTER TABLE schema_migrations ADD CHECK (version < ${NEWEST})`);
  await assert.rejects(migrate(sql, log, steps), (err) => isPgError(err, '23514'));
});

test('requests of older servers pass while a step waits for a table that a transaction uses', async (t) => {
  const { sql, other, reserve, log } = await bench(t);
  await migrateToLast(other);
  const busy = await reserve();
  await busy.unsafe('BEGIN; SELECT 1 FROM schema_migrations');
  await other.unsafe(`CREATE FUNCTION rebuild() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      LOCK TABLE users IN ACCESS EXCLUSIVE MODE;
      RETURN NEW;
    END $$;
    CREATE TRIGGER rebuild BEFORE INSERT ON schema_migrations FOR EACH ROW EXECUTE FUNCTION rebuild()`);
  await busy`SELECT 1 FROM users`;
  const migrating = migrate(sql, log, steps);
  await eventually('the step waits', async () => {
    const rows = await other`SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'users'::regclass`;
    return rows.length > 0;
  });
  await other`SELECT 1 FROM users`; // within its statement timeout
  await busy.unsafe('COMMIT');
  await migrating;
  assert.equal(await schemaOf(other), NEWEST);
});
