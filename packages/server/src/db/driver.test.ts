import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, freshDatabase } from '@ropewalk/testkit';
import { connect, type Sql, type Tx } from './connect.ts';
import { together } from './together.ts';

// What the driver does when a statement fails on this side of the wire (patches/, docs/decisions/0023).

let database: Awaited<ReturnType<typeof freshDatabase>>;
let admin: Sql;
before(async () => {
  database = await freshDatabase();
  admin = connect(database.url, { max: 1 });
  await admin`CREATE TABLE things (id int PRIMARY KEY, names text[], data jsonb, raw bytea, ok boolean)`;
});
after(async () => {
  await admin.end();
  await database.drop();
});

async function withPool(work: (sql: Sql) => Promise<void>, max = 2): Promise<void> {
  // the limit ends a transaction that hangs
  const sql = connect(database.url, { max, statementTimeoutMs: 5_000 });
  try {
    await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** The transactions of this test that are open. Without those of vacuum, which PostgreSQL starts when it wants. */
async function open(): Promise<number> {
  const [row] = await admin<{ count: number }[]>`SELECT count(*) AS count FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
      AND backend_type = 'client backend'`;
  return row!.count;
}

const circular: Record<string, unknown> = {};
circular['self'] = circular;

/** Statements that cannot be sent. */
const unsendable: Record<string, (tx: Tx) => PromiseLike<unknown>> = {
  'an undefined parameter': (tx) => tx`INSERT INTO things (id) VALUES (${undefined as unknown as number})`,
  'an undefined item of an array': (tx) =>
    tx`INSERT INTO things (id, names) VALUES (8, ${[undefined as unknown as string]}::text[])`,
  'a value that JSON cannot express': (tx) =>
    tx`INSERT INTO things (id, data) VALUES (8, ${tx.json(circular as never)})`,
  'a value without a text': (tx) => tx`INSERT INTO things (id) VALUES (${Object.create(null)}::int)`,
  'an invalid date': (tx) => tx`SELECT ${new Date(Number.NaN)}::timestamptz`,
  'a symbol': (tx) => tx`SELECT ${Symbol('x') as unknown as string}::text`,
  'a value that throws': (tx) => {
    const value = {
      toString() {
        throw new Error('no text');
      },
    };
    return tx`SELECT ${value as unknown as string}::text`;
  },
  'a number for bytes': (tx) => tx`INSERT INTO things (id, raw) VALUES (8, ${5 as unknown as Buffer}::bytea)`,
  'too many parameters': (tx) =>
    tx`SELECT 1 WHERE 1 IN ${tx(Array.from({ length: 70_000 }, (_, i) => i) as unknown as number[])}`,
};

/** Where in a transaction the statement stands, `bad`. */
const places: Record<string, (tx: Tx, bad: () => PromiseLike<unknown>) => Promise<unknown>> = {
  first: async (_, bad) => bad(),
  'after an answer': async (tx, bad) => {
    await tx`INSERT INTO things (id) VALUES (1)`;
    await bad();
  },
  'behind others that wait': (tx, bad) =>
    together([tx`INSERT INTO things (id) VALUES (1)`, tx`SELECT pg_sleep(0.01)`, bad(), tx`SELECT 3`]),
  'before others': (tx, bad) => together([bad(), tx`INSERT INTO things (id) VALUES (1)`, tx`SELECT ${2}::int`]),
  'behind one that is prepared first': (tx, bad) =>
    together([tx`SELECT ${Math.random()}::float8 AS ${tx(`n${Math.floor(Math.random() * 1e9)}`)}`, bad(), bad()]),
  'without a wait for all': (tx, bad) =>
    Promise.all([tx`INSERT INTO things (id) VALUES (1)`, bad(), tx`INSERT INTO things (id) VALUES (2)`]),
  'within a savepoint': async (tx, bad) => {
    await tx.savepoint((inner) => together([inner`INSERT INTO things (id) VALUES (1)`, bad()]));
  },
};

for (const [what, bad] of Object.entries(unsendable)) {
  for (const [where, work] of Object.entries(places)) {
    test(`${what}, ${where}: the transaction rolls back, and its connection serves others`, () =>
      withPool(async (sql) => {
        // once as a new statement and once as a prepared one
        for (const _ of [1, 2]) {
          await assert.rejects(
            sql.begin((tx) => work(tx, () => bad(tx))),
            (err) => (err as { code?: string }).code !== 'TRANSACTION_ENDED',
          );
          const answers = await Promise.all([1, 2, 3].map((n) => sql<{ n: number }[]>`SELECT ${n}::int AS n`));
          assert.deepEqual(
            answers.map(([row]) => row!.n),
            [1, 2, 3],
          );
          assert.equal(await open(), 0);
        }
        assert.deepEqual([...(await sql`SELECT id FROM things`)], []);
      }));
  }
}

test('a statement outside of a transaction that cannot be sent fails alone', () =>
  withPool(async (sql) => {
    const one = (n: number) => sql<{ n: number }[]>`SELECT ${n}::int AS n`;
    await Promise.all([one(1), one(2)]);
    const all = await Promise.allSettled(
      Array.from({ length: 40 }, (_, n) => one(n % 4 === 3 ? (undefined as unknown as number) : n)),
    );
    for (const [n, ended] of all.entries()) {
      if (n % 4 === 3) assert.equal(ended.status, 'rejected', String(n));
      else assert.deepEqual(ended.status === 'fulfilled' && ended.value[0]!.n, n);
    }
  }));

test('a statement after the end of its transaction is rejected', () =>
  withPool(async (sql) => {
    let late: Promise<unknown> | undefined;
    const ended = sql.begin((tx) => {
      late = (async () => {
        await tx`SELECT pg_sleep(0.02)`;
        await tx`INSERT INTO things (id) VALUES (5)`;
      })();
      late.catch(() => {});
      return Promise.all([late, Promise.reject(new Error('first'))]);
    });
    await assert.rejects(ended, /first/);
    await assert.rejects(late!, { code: 'TRANSACTION_ENDED' });
    assert.deepEqual([...(await sql`SELECT id FROM things`)], []);
  }));

test('a transaction is not committed if a statement that nobody waited for failed', () =>
  withPool(async (sql) => {
    const done = sql.begin(async (tx) => {
      await tx`INSERT INTO things (id) VALUES (6)`;
      tx`SELECT 1 / 0`.catch(() => {});
    });
    await assert.rejects(done, { code: '22012' });
    assert.deepEqual([...(await sql`SELECT id FROM things`)], []);
  }));

test('a transaction gets its connection while the connection is full', () =>
  withPool(async (sql) => {
    await Promise.all([sql`SELECT pg_sleep(0.01)`, sql`SELECT pg_sleep(0.01)`]);
    for (let before = 195; before <= 203; before++) {
      const others = Array.from({ length: before }, () => sql`SELECT 1`);
      const transaction = sql.begin((tx) => tx`SELECT 1`);
      await Promise.all([...others, transaction]);
    }
    assert.equal(await open(), 0);
  }));

test('statements that wait in a transaction whose connection is lost are rejected', () =>
  withPool(async (sql) => {
    const { promise: waiting, resolve } = Promise.withResolvers<Promise<unknown>[]>();
    const lost = sql.begin(async (tx) => {
      const [row] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
      const all = [tx`SELECT pg_sleep(${60}::float8)`, tx`SELECT ${1}::int`, tx`SELECT ${2}::int`].map((one) =>
        one.then(() => {}),
      );
      resolve(all);
      await admin`SELECT pg_terminate_backend(${row!.pid})`;
      await Promise.allSettled(all);
    });
    await assert.rejects(lost);
    assert.deepEqual(
      (await Promise.allSettled(await waiting)).map(({ status }) => status),
      ['rejected', 'rejected', 'rejected'],
    );
  }));

test('a statement that is sent again after a change of the schema keeps its values', () =>
  withPool(async (sql) => {
    const data = { a: [1, 'x'] };
    const write = (id: number) => sql`INSERT INTO things (id, names, data, raw, ok)
      VALUES (${id}, ${['a', 'b"c']}::text[], ${sql.json(data)}, ${Buffer.from([0, 255])}, ${true}) RETURNING *`;
    await write(10);
    await admin`ALTER TABLE things ADD COLUMN added int`;
    const [row] = await write(11);
    const { id: _, ...values } = row!;
    assert.deepEqual(values, { names: ['a', 'b"c'], data, raw: Buffer.from([0, 255]), ok: true, added: null });
    await sql`DELETE FROM things`;
  }, 1));

test('a connection that turns out to be read-only is replaced', () =>
  withPool(async (sql) => {
    const name = new URL(database.url).pathname.slice(1);
    await admin.unsafe(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    await assert.rejects(sql`DELETE FROM things`, { code: '25006' });
    await admin.unsafe(
      `SET default_transaction_read_only = off; ALTER DATABASE ${name} RESET default_transaction_read_only`,
    );
    await eventually('a connection accepts writes', () =>
      sql`DELETE FROM things`.then(
        () => true,
        () => false,
      ),
    );
  }, 1));

test('transactions go on while a migration changes the columns of their tables', () =>
  withPool(async (sql) => {
    await admin`CREATE TABLE changing (id serial PRIMARY KEY, n int NOT NULL, ok boolean NOT NULL)`;
    await admin`INSERT INTO changing (n, ok) VALUES (0, true)`;
    const step = () =>
      sql.begin(async (tx) => {
        const [row] = await tx<{ n: number }[]>`SELECT * FROM changing WHERE id = ${1} FOR UPDATE`;
        const [, after] = await together([
          tx`INSERT INTO changing (n, ok) VALUES (${row!.n}, ${true}) RETURNING *`,
          tx<{ n: number; ok: boolean }[]>`UPDATE changing SET n = n + 1, ok = ${true} WHERE id = ${1} RETURNING *`,
        ]);
        assert.deepEqual([after[0]!.n, after[0]!.ok], [row!.n + 1, true]);
      });
    // each gets the answer to its own question
    const read = async () => {
      const asked = Math.floor(Math.random() * 1e6);
      const [row] = await sql`SELECT *, ${asked}::int AS asked FROM changing WHERE ok = ${true} LIMIT ${1}`;
      assert.equal(row!['asked'], asked);
    };
    await Promise.all([step(), step(), step(), read()]);
    for (let column = 0; column < 8; column += 1) {
      const work = [step(), read(), step(), step(), ...Array.from({ length: 20 }, read)];
      await admin.unsafe(`ALTER TABLE changing ADD COLUMN c${column} int`);
      await Promise.all([...work, step(), step(), ...Array.from({ length: 20 }, read), step()]);
    }
    const [row] = await sql<{ n: number; rows: number }[]>`SELECT n, (SELECT count(*) FROM changing) AS rows
      FROM changing WHERE id = 1`;
    assert.deepEqual([row!.n, row!.rows], [3 + 8 * 6, 1 + 3 + 8 * 6]);
    await admin`DROP TABLE changing`;
  }, 4));

test('transactions that block each other both succeed', () =>
  withPool(async (sql) => {
    await admin`CREATE TABLE pairs (id int PRIMARY KEY, n int NOT NULL)`;
    await admin`INSERT INTO pairs VALUES (1, 0), (2, 0)`;
    const { promise: both, resolve } = Promise.withResolvers<void>();
    let begun = 0;
    const add = (first: number, second: number) =>
      sql.begin(async (tx) => {
        await tx`UPDATE pairs SET n = n + 1 WHERE id = ${first}`;
        begun += 1;
        if (begun === 2) resolve();
        await both;
        await tx`UPDATE pairs SET n = n + 1 WHERE id = ${second}`;
      });
    await Promise.all([add(1, 2), add(2, 1)]);
    assert.ok(begun > 2, 'one of them was run again');
    assert.deepEqual([...(await sql`SELECT n FROM pairs ORDER BY id`)], [{ n: 2 }, { n: 2 }]);
    await admin`DROP TABLE pairs`;
  }));
