import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { expandPath, expandVariables } from './environment.ts';
import { createAccountProbe } from './testing/account-probe.ts';

const account = { username: 'ann', home: '/home/ann', shell: '/bin/sh' };

test('expands variables and home in paths', () => {
  assert.equal(expandVariables(`$A/\${B}/$C-`, { A: 'a', B: 'b' }), 'a/b/-');
  assert.equal(expandPath('~/x', account, {}), '/home/ann/x');
  assert.equal(expandPath('$HOME/y', account, { HOME: '/other' }), '/home/ann/y');
  assert.equal(expandPath('rel', account, {}), '/home/ann/rel');
  assert.equal(expandPath('', account, {}), '/home/ann');
});

const root = process.getuid?.() === 0;
test('runs sessions for a uid without a passwd entry', { skip: root ? false : 'needs root to change uid' }, () => {
  const { path, remove } = createAccountProbe();
  try {
    const env = { HOME: '/tmp', SHELL: '/bin/sh' };
    const got = spawnSync(process.execPath, [path], { uid: 54_321, gid: 54_321, cwd: '/', env, encoding: 'utf8' });
    assert.equal(got.status, 0, got.stderr);
    assert.deepEqual(JSON.parse(got.stdout), { username: '54321', home: '/tmp', shell: '/bin/sh' });
  } finally {
    remove();
  }
});
