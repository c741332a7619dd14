import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { archiveModules } from './modules.ts';

test('does not wait for a pipe instead of the list of modules', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'modules-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const modules = join(dir, '.terraform/modules');
  mkdirSync(modules, { recursive: true });
  execFileSync('mkfifo', [join(modules, 'modules.json')]);
  await assert.rejects(archiveModules(dir), /is not a file/);
});
