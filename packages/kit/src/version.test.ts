import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { headCommit } from './head-commit.ts';
import { isAtLeast, parseVersion, VERSION } from './version.ts';

const ROOT = join(import.meta.dirname, '../../..');

function git(dir: string, ...args: string[]): string {
  const who = ['-c', 'user.name=Test', '-c', 'user.email=test@example.com'];
  const { stdout, stderr, status } = spawnSync('git', ['-C', dir, ...who, ...args], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return stdout.trim();
}

test('the version names the release and the commit, after the version of upstream that clients compare', () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  const commit = existsSync(join(ROOT, '.git')) ? `.${git(ROOT, 'rev-parse', 'HEAD').slice(0, 12)}` : '';
  assert.equal(VERSION, `v2.36.0+platform.${version}${commit}`);
  assert.deepEqual(parseVersion(VERSION)?.version, [2, 36, 0]);
});

test('finds the commit of a checkout in all ways in which git stores it', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'platform-git-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  assert.equal(headCommit(dir), undefined, 'no checkout');
  git(dir, 'init', '-q');
  assert.equal(headCommit(dir), undefined, 'no commit');
  git(dir, 'commit', '-q', '--allow-empty', '-m', 'one');
  const head = () => git(dir, 'rev-parse', 'HEAD').slice(0, 12);
  assert.equal(headCommit(dir), head());
  git(dir, 'pack-refs', '--all');
  assert.equal(headCommit(dir), head(), 'in one file with others');
  git(dir, 'worktree', 'add', '-q', '-b', 'other', join(dir, 'tree'));
  git(join(dir, 'tree'), 'commit', '-q', '--allow-empty', '-m', 'two');
  assert.equal(headCommit(join(dir, 'tree')), git(join(dir, 'tree'), 'rev-parse', 'HEAD').slice(0, 12), 'a worktree');
  git(dir, 'checkout', '-q', '--detach');
  assert.equal(headCommit(dir), head(), 'no branch');
});

test('compares versions by number, without regard to pre-release tags', () => {
  assert.ok(isAtLeast('1.10.0', '1.9.9'));
  assert.ok(isAtLeast('v1.1.0-rc1', '1.1.0'));
  assert.ok(isAtLeast('2', '1.13.0'));
  assert.ok(!isAtLeast('1.3.99', '1.4.0'));
  assert.ok(!isAtLeast('unknown', '0.0.0'));
  assert.deepEqual(parseVersion('2.19')?.parts, 2);
});
