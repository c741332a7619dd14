// Servers of the release before use the tables while a migration runs, so no migration may lock a large table for long.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LAST_WITHOUT_HEADER, readHeader } from './migration-run.ts';
import { migrations } from './migrations/index.ts';

/** A kind of statement that holds a lock for as long as the table is long. The first group of the pattern is the table. */
const BLOCKING: { why: string; pattern: RegExp }[] = [
  { why: 'reads the table for an index', pattern: /^CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY).*?\bON (?:ONLY )?(\w+)/ },
  { why: 'changes rows', pattern: /^(?:UPDATE|DELETE FROM) (?:ONLY )?(\w+)/ },
  { why: 'changes rows', pattern: /^WITH .*?(?:UPDATE|DELETE FROM) (\w+)/ },
  { why: 'rewrites the table', pattern: /^ALTER TABLE (\w+) .*?ALTER (?:COLUMN )?\w+ (?:SET DATA )?TYPE/ },
  {
    why: 'rewrites the table',
    pattern: /^ALTER TABLE (\w+) .*?ADD COLUMN .*?(?:RANDOM|CLOCK_TIMESTAMP|NEXTVAL|\bBIGSERIAL|\bSERIAL|GENERATED )/,
  },
  { why: 'reads the table', pattern: /^ALTER TABLE (\w+) .*?SET NOT NULL/ },
  {
    why: 'reads the table',
    pattern: /^ALTER TABLE (\w+) .*?\b(?:CHECK|UNIQUE|PRIMARY KEY|FOREIGN KEY)\b(?!.*(?:NOT VALID|USING INDEX))/,
  },
  { why: 'rewrites the table', pattern: /^(?:CLUSTER|VACUUM FULL|REINDEX (?:TABLE|INDEX)(?! CONCURRENTLY)) (\w+)/ },
  { why: 'locks the table', pattern: /^LOCK (?:TABLE )?(\w+)/ },
];

/** The statements, in capitals and on one line each. Bodies of functions, between dollars, are left out. */
function statementsOf(text: string): string[] {
  const plain = text.replace(/--.*$/gm, '').replace(/\$(\w*)\$[\s\S]*?\$\1\$/g, "''");
  return plain
    .split(';')
    .map((statement) => statement.replace(/\s+/g, ' ').trim().toUpperCase())
    .filter((statement) => statement !== '');
}

/** Why statements of a migration block others, if tables that it does not create are long. */
function blocking(text: string): string[] {
  const statements = statementsOf(text);
  const created = new Set(statements.map((each) => /^CREATE TABLE (?:IF NOT EXISTS )?(\w+)/i.exec(each)?.[1]));
  return statements.flatMap((statement) =>
    BLOCKING.flatMap(({ why, pattern }) => {
      const table = pattern.exec(statement)?.[1];
      return table && !created.has(table) ? [`${table.toLowerCase()}: ${why}`] : [];
    }),
  );
}

for (const [statement, expected] of [
  ['CREATE INDEX a ON users (name)', 'users: reads the table for an index'],
  ['CREATE UNIQUE INDEX ON users (name)', 'users: reads the table for an index'],
  ['UPDATE users SET name = 1', 'users: changes rows'],
  ['DELETE FROM users', 'users: changes rows'],
  ['WITH a AS (SELECT 1) UPDATE users SET name = 1', 'users: changes rows'],
  ['ALTER TABLE users ALTER COLUMN name TYPE text', 'users: rewrites the table'],
  ['ALTER TABLE users ADD COLUMN key uuid DEFAULT gen_random_uuid()', 'users: rewrites the table'],
  ['ALTER TABLE users ADD COLUMN n int GENERATED ALWAYS AS (1) STORED', 'users: rewrites the table'],
  ['ALTER TABLE users\n  ALTER COLUMN name SET NOT NULL', 'users: reads the table'],
  ['ALTER TABLE users ADD CONSTRAINT c CHECK (n > 0)', 'users: reads the table'],
  ['ALTER TABLE users ADD UNIQUE (name)', 'users: reads the table'],
  ['LOCK TABLE users IN SHARE MODE', 'users: locks the table'],
] as const)
  test(`rejects a migration with ${statement}`, () =>
    assert.deepEqual(blocking(`-- words\n${statement};`), [expected]));

test('accepts what holds a lock for a moment only', () => {
  const text = `
    CREATE TABLE new (id int PRIMARY KEY, n int CHECK (n > 0));
    CREATE INDEX new_n ON new (n);
    UPDATE new SET n = 1;
    CREATE INDEX CONCURRENTLY a ON users (name);
    ALTER TABLE users ADD COLUMN note text NOT NULL DEFAULT '', ADD COLUMN at timestamptz DEFAULT now();
    ALTER TABLE users ADD CONSTRAINT c CHECK (n > 0) NOT VALID;
    ALTER TABLE users ADD CONSTRAINT u UNIQUE USING INDEX a;
    CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE users SET n = 1; RETURN NEW; END $$;`;
  assert.deepEqual(blocking(text), []);
});

test('no migration locks a long table for long', () => {
  const found = migrations
    .filter((each) => each.version > LAST_WITHOUT_HEADER && readHeader(each).runs !== 'in batches')
    .flatMap(({ version, text }) => blocking(text).map((problem) => `${version}: ${problem}`));
  assert.deepEqual(found, [], 'See docs/recipes/add-a-migration.md');
});
