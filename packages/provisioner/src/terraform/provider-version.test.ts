import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { askedVersions, isServed } from './provider-version.ts';

test('accepts constraints that some release up to ours satisfies', () => {
  for (const asked of [
    [],
    ['>= 2.13'],
    ['~> 2.0', '>= 2.4.0, < 3'],
    ['2.19.0'],
    ['0.6.10'],
    ['~> 1.0'],
    ['~> 0.12.1'],
    ['> 2.18', '!= 2.18.1'],
    ['< 1'],
    ['< 2.5.0'],
    ['~> 2'],
  ])
    assert.ok(isServed(asked), asked.join(' '));
  for (const asked of [['>= 99'], ['~> 3.0'], ['> 2.20.0'], ['= 2.21'], ['>= 2.0', '< 2.0'], ['~> 1.0', '~> 2.0']])
    assert.ok(!isServed(asked), asked.join(' '));
});

test('finds the constraints for our provider in a template and its modules', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'provider-version-'));
  t.after(() => rm(dir, { recursive: true }));
  const write = async (folder: string, entries: Record<string, string>) => {
    const lines = Object.entries(entries).map(([name, value]) => `    ${name} = ${value}`);
    await mkdir(join(dir, folder), { recursive: true });
    await writeFile(join(dir, folder, 'main.tf'), `terraform {\n  required_providers {\n${lines.join('\n')}\n  }\n}\n`);
  };
  await write('.', {
    coder: '{ source = "coder/coder", version = ">= 1" }',
    other: '{ source = "r/coder", version = "9.9.1" }',
  });
  await write('inner', { mine: '{ source = "registry.terraform.io/Coder/coder", version = ">= 2" }' });
  await write('legacy', { coder: '">= 3"' });
  await write('another-host', { coder: '{ source = "example.com/coder/coder", version = "9.9.2" }' });
  await write('unused', { coder: '{ source = "coder/coder", version = "9.9.3" }' });
  await mkdir(join(dir, '.terraform/modules'), { recursive: true });
  const Modules = ['', 'inner', 'legacy', 'another-host', 'absent'].map((name) => ({ Key: name, Dir: name || '.' }));
  await writeFile(join(dir, '.terraform/modules/modules.json'), JSON.stringify({ Modules }));
  assert.deepEqual(await askedVersions(dir, undefined), ['>= 1', '>= 2', '>= 3']);
});
