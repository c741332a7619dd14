import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { defaultDataDir, defaultLogDir, SCRIPT_DATA } from './data-dir.ts';

test('does not look for programs in a directory that others can write to', (t) => {
  const base = mkdtempSync(join(tmpdir(), 'data-dir-'));
  t.after(() => rmSync(base, { recursive: true }));
  assert.equal(defaultDataDir(base), base);
  assert.equal(statSync(join(base, SCRIPT_DATA)).mode & 0o777, 0o700);
  assert.equal(defaultDataDir(base), base, 'the next start finds it again');

  chmodSync(join(base, SCRIPT_DATA), 0o777);
  const mine = defaultDataDir(base);
  assert.equal(mine, join(base, `coder-${process.getuid!()}`));
  assert.ok(existsSync(join(mine, SCRIPT_DATA)));

  // A link to a directory of ours may be somebody's trick, too.
  rmSync(mine, { recursive: true });
  mkdirSync(join(base, 'elsewhere'));
  symlinkSync(join(base, 'elsewhere'), mine);
  const fresh = defaultDataDir(base);
  assert.equal(dirname(fresh), base);
  assert.ok(![base, mine].includes(fresh));
});

test('gives each workspace of a host its own directory for logs, and the same one at every start', (t) => {
  const base = mkdtempSync(join(tmpdir(), 'log-dir-'));
  t.after(() => rmSync(base, { recursive: true }));
  const [one, two] = [defaultLogDir(base, 'a-main'), defaultLogDir(base, 'b-main')];
  assert.deepEqual([one, two], [base, join(base, 'coder-logs-b-main')]);
  assert.deepEqual([defaultLogDir(base, 'a-main'), defaultLogDir(base, 'b-main')], [one, two]);
  // A directory that others can write to may be a trick.
  chmodSync(two, 0o777);
  const fresh = defaultLogDir(base, 'b-main');
  assert.equal(dirname(fresh), base);
  assert.notEqual(fresh, two);
});
