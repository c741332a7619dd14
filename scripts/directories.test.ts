import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

/** Finds calls of Node's mkdir with the option `recursive`, which does not always end: see ensureDirectory in the kit. */
const RECURSIVE = /\bmkdir(?:Sync)?\([^;]*?\brecursive\b/g;

const isTest = (file: string) =>
  /\.(test|bench)\.ts$/.test(file) || /\/(testing|testkit|node_modules|gen)\//.test(file);

test('directories are created with ensureDirectory, which always ends', () => {
  const files = globSync(['packages/*/src/**/*.{ts,tsx}', 'scripts/**/*.{ts,mjs}', 'deploy/**/*.{ts,mjs}']);
  const wrong = files
    .filter((file) => !isTest(file))
    .flatMap((file) => (readFileSync(file, 'utf8').match(RECURSIVE) ?? []).map((call) => `${file}: ${call}`));
  assert.ok(files.length > 500, `${files.length}`);
  assert.deepEqual(wrong, []);
});

test('the check finds calls on one line and on several', () => {
  assert.equal('await mkdir(dir, { recursive: true });'.match(RECURSIVE)?.length, 1);
  assert.equal('mkdirSync(\n  join(a, b),\n  { mode, recursive: true },\n);'.match(RECURSIVE)?.length, 1);
  assert.equal('mkdirSync(dir);\nrmSync(dir, { recursive: true });'.match(RECURSIVE), null);
});

/** Finds searches of /proc with `glob`, which sometimes return nothing: see processIds in the testkit. */
const GLOB_OF_PROC = /\bglob(?:Sync)?\(\s*\[?\s*['"`]\/proc\b/;

test('processes are found with readdir', () => {
  const files = globSync(['packages/*/src/**/*.ts', 'e2e/**/*.ts', 'bench/**/*.ts', 'scripts/**/*.ts']);
  const wrong = files.filter((file) => GLOB_OF_PROC.test(readFileSync(file, 'utf8')));
  assert.ok(files.length > 1_000, `${files.length}`);
  assert.deepEqual(
    wrong.filter((file) => file !== 'packages/testkit/src/processes.ts'),
    [],
  );
});
