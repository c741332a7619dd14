import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

test('docs/decisions/0019 says what bounds the rows of each table', () => {
  const decision = readFileSync(join(import.meta.dirname, '../../../../docs/decisions/0019-budgets.md'), 'utf8');
  const [, walk] = decision.split('| table | who adds rows | bound |');
  const named = [...walk!.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell]) => cell!.match(/[a-z0-9_*]+/g) ?? []);
  const covers = (table: string) =>
    named.some((name) => (name.endsWith('*') ? table.startsWith(name.slice(0, -1)) : table === name));
  const sources = globSync(['**/*.ts'], { cwd: import.meta.dirname }).filter((file) => !file.endsWith('.test.ts'));
  const filled = sources.flatMap((file) =>
    [...readFileSync(join(import.meta.dirname, file), 'utf8').matchAll(/INSERT INTO (\w+)/g)].map(
      ([, table]) => table!,
    ),
  );
  assert.ok(filled.length > 50);
  assert.deepEqual([...new Set(filled)].filter((table) => !covers(table)).sort(), []);
  // a row of a table that is gone
  const gone = named.filter((name) => !filled.some((table) => table === name || name.endsWith('*')));
  assert.deepEqual(gone, []);
});
