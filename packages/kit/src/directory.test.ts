import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ensureDirectory, ensureDirectorySync } from './directory.ts';

const dir = mkdtempSync(join(tmpdir(), 'directory-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const ways: [string, (path: string, options?: { mode?: number }) => Promise<void>][] = [
  ['ensureDirectory', ensureDirectory],
  ['ensureDirectorySync', async (path, options) => ensureDirectorySync(path, options)],
];

for (const [name, ensure] of ways) {
  test(`${name} creates parents with the mode and leaves what exists`, async () => {
    const path = join(dir, name, 'a/b');
    await ensure(path, { mode: 0o700 });
    await ensure(path, { mode: 0o755 });
    for (const made of [join(dir, name), path]) assert.equal(statSync(made).mode & 0o777, 0o700);
    symlinkSync(path, join(dir, name, 'link'));
    await ensure(join(dir, name, 'link/c/'));
    assert.ok(existsSync(join(path, 'c')));
    await ensure('/');
  });

  test(`${name} creates one directory for many callers`, async () => {
    const path = join(dir, `${name}-many/a/b/c/d`);
    await Promise.all(Array.from({ length: 20 }, () => ensure(path)));
    assert.ok(statSync(path).isDirectory());
  });

  test(`${name} reports a file in the way`, async () => {
    const file = join(dir, `${name}-file`);
    writeFileSync(file, '');
    await assert.rejects(ensure(file), { code: 'EEXIST' });
    await assert.rejects(ensure(join(file, 'a/b')), { code: 'ENOTDIR' });
  });

  test(`${name} ends where mkdir reports a missing parent that exists`, () => {
    // in a process that can be killed, because a call that repeats forever holds this thread
    const source = JSON.stringify(new URL('directory.ts', import.meta.url).href);
    const code = `import { ${name} } from ${source}; try { await ${name}('/proc/x/y/z'); } catch (err) { console.log(err.code, err.path); }`;
    const run = spawnSync(process.execPath, ['--input-type=module', '-e', code], { timeout: 20_000, encoding: 'utf8' });
    assert.equal(run.stdout, 'ENOENT /proc/x\n', run.stderr);
  });
}
