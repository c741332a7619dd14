import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, freshDatabase } from '@ropewalk/testkit';
import { pipeDatabase } from '@ropewalk/testkit/database-pipe';
import { connect, isUnreachable } from './connect.ts';

test('a connection that is cut while reconnecting fails only its own queries, and arrays keep working', async () => {
  const database = await freshDatabase();
  let first = true;
  let cuts = 0;
  const pipe = await pipeDatabase(database.url, () => (bytes) => {
    if (first || cuts > 0 || !bytes.includes('typarray')) return;
    cuts++;
    cut();
  });
  const cut = () => {
    pipe.cut();
    pipe.mend();
  };
  const sql = connect(pipe.url, { max: 1 });
  const names = ['a', 'b"c'];
  const arrays = () => sql<{ names: string[] }[]>`SELECT ${names}::text[] AS names`;
  assert.deepEqual((await arrays())[0]!.names, names);
  first = false;
  cut();
  const [row] = await eventually('the database is back', () => arrays().catch(() => undefined));
  assert.deepEqual(row!.names, names);
  assert.equal(cuts, 0, 'the library queries the array types once');
  await sql.end({ timeout: 1 });
  pipe.close();
  await database.drop();
});

test('a transaction whose connection is lost fails, and none of its statements run on the next connection', async () => {
  const database = await freshDatabase();
  const pipe = await pipeDatabase(database.url);
  const sql = connect(pipe.url, { max: 1 });
  await sql`CREATE TABLE steps (name text)`;
  for (const wait of ['nothing', 'the closed connection', 'the next connection']) {
    let refused: unknown;
    const transaction = sql.begin(async (tx) => {
      await tx`INSERT INTO steps VALUES (${wait})`;
      const cut = tx`SELECT pg_sleep(60)`.catch(() => {});
      pipe.cut();
      pipe.mend();
      if (wait !== 'nothing') await cut;
      // the pool has one connection, so this query opens it again
      if (wait === 'the next connection')
        await eventually('the pool connects', () => sql`SELECT 1`.catch(() => undefined));
      await Promise.all([tx`INSERT INTO steps VALUES ('after')`, tx`INSERT INTO steps VALUES ('later')`]).catch(
        (err) => {
          refused = err;
          throw err;
        },
      );
    });
    await assert.rejects(transaction, (err) => isUnreachable(err), wait);
    await eventually('the statement was rejected', () => isUnreachable(refused));
    const rows = await eventually('the pool connects', () => sql`SELECT name FROM steps`.catch(() => undefined));
    assert.deepEqual([...rows!], [], wait);
  }
  await sql.end({ timeout: 1 });
  pipe.close();
  await database.drop();
});

test('a statement during which PostgreSQL ends the connection says why, and the next statement runs', async () => {
  const database = await freshDatabase();
  const sql = connect(database.url, { max: 1 });
  const ended = sql`SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)`;
  await assert.rejects(ended, { code: '57P01' });
  assert.equal((await sql`SELECT 1 AS one`)[0]!.one, 1);
  await sql.end({ timeout: 1 });
  await database.drop();
});

test('PostgreSQL plans a lookup once for each connection, and a search for its values', async () => {
  const database = await freshDatabase();
  for (const [searches, expected] of [
    [false, { generic: 3, custom: 0 }],
    [true, { generic: 0, custom: 3 }],
  ] as const) {
    const sql = connect(database.url, { max: 1, searches });
    for (const name of ['pg_class', 'pg_proc', 'pg_type'])
      await sql`SELECT oid AS looked_up FROM pg_class WHERE relname = ${name}`;
    const [plans] = await sql`SELECT generic_plans AS generic, custom_plans AS custom FROM pg_prepared_statements
      WHERE statement LIKE 'SELECT oid AS looked_up%'`;
    assert.deepEqual(plans, expected);
    await sql.end({ timeout: 1 });
  }
  await database.drop();
});
