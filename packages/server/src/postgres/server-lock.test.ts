import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { eventually, freshDatabase } from '@ropewalk/testkit';
import { connect, type Sql } from '../db/connect.ts';
import { holdServerLock } from './server-lock.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let sql: Sql;
before(async () => {
  database = await freshDatabase();
  sql = connect(database.url, { max: 1 });
});
after(async () => {
  await sql.end();
  await database.drop();
});

const lines: string[] = [];
const log = createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
const hold = () => holdServerLock(database.url, '/data', log);
const holders = async () =>
  sql<{ pid: number }[]>`SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
/** Ends the connection that has the lock. */
async function cut(): Promise<number> {
  const [{ pid } = { pid: 0 }] = await holders();
  await sql`SELECT pg_terminate_backend(${pid}, 5000)`;
  return pid;
}

test('a server whose connection was lost takes the lock again, so that a second server is still rejected', async () => {
  const lock = await hold();
  const pid = await cut();
  await eventually('it has the lock again', async () => {
    const [now] = await holders();
    return now !== undefined && now.pid !== pid;
  });
  await assert.rejects(hold(), /Another server uses the database in \/data/);
  assert.equal(lock.isTaken(), false);
  await lock.release();
});

test('a server whose lock another one took reports it, and takes the lock again afterwards', async () => {
  const first = await hold();
  await cut();
  const second = await hold();
  await eventually('it notices', () => first.isTaken());
  assert.ok(lines.some((line) => /another server has begun to use the same bundled database/.test(line)));
  await second.release();
  await eventually('it has the lock again', () => !first.isTaken());
  await first.release();
  assert.equal((await holders()).length, 0);
});
