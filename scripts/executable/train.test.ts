import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

test('a part runs without the options of the shell or server that builds the executable', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'platform-train-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const [source, cache] = [join(dir, 'command.js'), join(dir, 'command.cache')];
  writeFileSync(source, "(() => process.exit(process.env['CODER_PROMETHEUS_ADDRESS'] === undefined ? 0 : 1))");
  const { status, stderr } = spawnSync(
    process.execPath,
    [join(import.meta.dirname, 'train.ts'), 'command', source, cache],
    { encoding: 'utf8', env: { ...process.env, CODER_PROMETHEUS_ADDRESS: '127.0.0.1:2112' } },
  );
  assert.equal(status, 0, stderr);
  assert.ok(existsSync(cache));
});
