import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

test('a process starts once more with the settings, keeps its arguments and passes the settings to no child', {
  skip: process.platform === 'linux' ? false : 'only glibc has these settings',
}, () => {
  const file = fileURLToPath(new URL('./allocator.ts', import.meta.url));
  const code = `
    import { readFileSync } from 'node:fs';
    import { spawnSync } from 'node:child_process';
    const { applyAllocator } = await import(${JSON.stringify(file)});
    applyAllocator(false);
    const own = readFileSync('/proc/self/environ', 'utf8').split('\\0').filter((pair) => pair.startsWith('MALLOC_'));
    const child = String(spawnSync('env').stdout).split('\\n').filter((pair) => pair.startsWith('MALLOC_'));
    console.log(JSON.stringify({ own, child, args: process.argv.slice(1) }));`;
  const { MALLOC_ARENA_MAX: _, ...env } = process.env;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', code, 'one', 'two words'], {
    encoding: 'utf8',
    env,
  });
  const { own, child, args } = JSON.parse(stdout || stderr) as Record<'own' | 'child' | 'args', string[]>;
  assert.deepEqual(own.sort(), [
    'MALLOC_ARENA_MAX=2',
    'MALLOC_MMAP_THRESHOLD_=131072',
    'MALLOC_TRIM_THRESHOLD_=131072',
  ]);
  assert.deepEqual(child, []);
  assert.deepEqual(args, ['one', 'two words']);
});
