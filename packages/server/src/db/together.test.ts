import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { freshDatabase } from '@ropewalk/testkit';
import { connect, isPgError, type Sql, UNIQUE_VIOLATION } from './connect.ts';
import { together } from './together.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let sql: Sql;

before(async () => {
  database = await freshDatabase({ forServer: true });
  sql = connect(database.url);
  await sql`CREATE TABLE notes (id int PRIMARY KEY)`;
});
after(async () => {
  await sql.end();
  await database.drop();
});

test('returns the results of its steps, whose statements run in the order of the steps', async () => {
  const rows = await sql.begin((tx) =>
    together([tx`SELECT count(*) FROM notes`, tx`INSERT INTO notes VALUES (1)`, tx`SELECT count(*) FROM notes`]),
  );
  assert.deepEqual([rows[0][0], rows[2][0]], [{ count: 0 }, { count: 1 }]);
});

test('rejects with the error that made the others fail, and only when every step has ended', async () => {
  const attempt = sql.begin((tx) =>
    together([
      (async () => {
        await tx`SELECT 1`;
        // fails because of the next step
        await tx`SELECT 2`;
      })(),
      tx`INSERT INTO notes VALUES (2), (2)`,
    ]),
  );
  await assert.rejects(attempt, (err) => isPgError(err, UNIQUE_VIOLATION));
  let slow: Promise<unknown> | undefined;
  const ended = sql.begin((tx) => {
    slow = (async () => {
      await tx`SELECT pg_sleep(0.05)`;
      await tx`INSERT INTO notes VALUES (3)`;
    })();
    return together([Promise.reject(new Error('immediately')), slow]);
  });
  await assert.rejects(ended, /immediately/);
  await slow?.catch(() => {});
  // a statement after the end of the transaction would be on the same connection, in nobody's transaction
  assert.deepEqual([...(await sql`SELECT id FROM notes WHERE id > 1`)], []);
});
