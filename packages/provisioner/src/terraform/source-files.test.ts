import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MANIFEST } from './modules.ts';
import { planSources } from './source-files.ts';

const MODULES = JSON.stringify({
  Modules: [
    { Key: '', Dir: '.' },
    { Key: 'm', Source: './m', Dir: 'm' },
    { Key: 'far', Source: 'example.com/far', Dir: '.terraform/modules/far' },
  ],
});

async function initialized(t: TestContext): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'sources-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  for (const folder of ['m', 'other', '.terraform/modules/far']) {
    await mkdir(join(dir, folder), { recursive: true });
    for (const name of ['main.tf', 'more.tf.json', 'terraform.tfvars', 'notes.txt'])
      await writeFile(join(dir, folder, name), folder);
  }
  for (const name of ['main.tf', 'a.auto.tfvars', 'notes.txt']) await writeFile(join(dir, name), '');
  await writeFile(join(dir, MANIFEST), MODULES);
  return dir;
}

test('reads the Terraform files of the template and its modules, and the variables of the template', async (t) => {
  const files = await planSources(await initialized(t), undefined);
  assert.deepEqual(
    [...(files ?? new Map()).keys()].sort(),
    [
      ...[MANIFEST, 'a.auto.tfvars', 'main.tf', 'm/main.tf', 'm/more.tf.json'],
      ...['.terraform/modules/far/main.tf', '.terraform/modules/far/more.tf.json'],
    ].sort(),
  );
  assert.equal(String(files?.get('m/main.tf')), 'm');
});

const unusable: Record<string, (dir: string) => Promise<unknown>> = {
  'files of OpenTofu': (dir) => writeFile(join(dir, 'm/main.tofu'), ''),
  'JSON files of OpenTofu': (dir) => writeFile(join(dir, 'main.tofu.json'), ''),
  'a large file': (dir) => writeFile(join(dir, 'm/large.tf'), Buffer.alloc((1 << 20) + 1)),
  'much in all': (dir) =>
    Promise.all(Array.from({ length: 21 }, (_, i) => writeFile(join(dir, `m/${i}.tf`), Buffer.alloc(1 << 20)))),
  'a pipe': async (dir) => assert.equal(spawnSync('mkfifo', [join(dir, 'm/pipe.tf')]).status, 0),
  'a folder': (dir) => mkdir(join(dir, 'm/folder.tf')),
  'a link to nothing': (dir) => symlink('nothing', join(dir, 'm/link.tf')),
  'a module without a folder': (dir) => rm(join(dir, 'm'), { recursive: true }),
};

for (const [what, change] of Object.entries(unusable))
  test(`${what}: the sources are not read as a whole`, { timeout: 10_000 }, async (t) => {
    const dir = await initialized(t);
    await change(dir);
    assert.equal(await planSources(dir, undefined), undefined);
  });
