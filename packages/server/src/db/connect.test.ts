import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, freshDatabase } from '@platform/testkit';
import { pipeDatabase } from '@platform/testkit/database-pipe';
import { connect } from './connect.ts';

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
