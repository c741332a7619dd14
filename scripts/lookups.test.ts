import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';

// Every object has `constructor`, `toString` and `__proto__`. A table of texts that is indexed with a name from outside
// returns them as if they were entries.

const root = join(import.meta.dirname, '..');
const DECLARED = /\bconst ([A-Z][A-Z0-9_]*): (?:Readonly<|Partial<)*Record<string, .*? = /g;

/** The constants of a file that have any text as key. */
function tablesOf(source: string): string[] {
  return [...source.matchAll(DECLARED)].map(([, name]) => name!);
}

/** Where a table is read with a key that the source does not spell out, as `line: text`. */
function indexed(source: string, tables: readonly string[]): string[] {
  if (tables.length === 0) return [];
  const read = new RegExp(`(?<![\\w.])(?:${tables.join('|')})\\[(?!['"])`);
  return source.split('\n').flatMap((line, at) => (read.test(line) ? [`${at + 1}: ${line.trim()}`] : []));
}

test('reads tables that have texts as keys with ownValue', () => {
  const files = globSync(['packages/*/src/**/*.ts', 'packages/*/src/**/*.tsx'], { cwd: root })
    .filter((file) => !/\.test\.tsx?$|\/testing|\/testkit\/|\/gen\//.test(file))
    .map((file) => ({ file, source: readFileSync(join(root, file), 'utf8') }));
  // an exported table may be read elsewhere
  const exported = new Map<string, string[]>();
  for (const { file, source } of files) {
    const names = tablesOf(source).filter((name) => new RegExp(`export const ${name}:`).test(source));
    if (names.length > 0) exported.set(join(root, file), names);
  }
  const found = files.flatMap(({ file, source }) => {
    const imported = [...source.matchAll(/import \{([^}]*)\} from '(\.[^']*)'/g)].flatMap(([, names, from]) => {
      const tables = exported.get(join(root, file, '..', from!)) ?? [];
      return tables.filter((name) => new RegExp(`\\b${name}\\b`).test(names!));
    });
    return indexed(source, [...tablesOf(source), ...imported]).map((line) => `${relative('.', file)}:${line}`);
  });
  assert.deepEqual(found, []);
});

test('finds a table that is indexed with a name', () => {
  const source = `const WORDS: Readonly<Record<string, string>> = { a: 'b' };\nWORDS['a'];\nWORDS[name];\nother.WORDS[name];`;
  assert.deepEqual(tablesOf(source), ['WORDS']);
  assert.deepEqual(indexed(source, tablesOf(source)), ['3: WORDS[name];']);
});
