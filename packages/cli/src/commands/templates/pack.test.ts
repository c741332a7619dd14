import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { extract, pack } from 'tar-stream';
import { packTemplate, unpackTemplate } from './pack.ts';

function template(files: Record<string, string>): string {
  const dir = mkdtempSync(join(tmpdir(), 'archive-'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(dir, path, '..'), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
  return dir;
}

test('unpacks the files that it packed, without state, values and hidden files', async () => {
  const dir = template({
    'main.tf': 'a',
    '.terraform.lock.hcl': 'lock',
    '.git/HEAD': 'x',
    '.terraform/providers/p': 'x',
    'terraform.tfstate': 'x',
    'terraform.tfstate.backup': 'x',
    'terraform.tfvars': 'x',
    'x.auto.tfvars.json': 'x',
    'modules/a/b.tf': 'b',
    'build/Dockerfile': 'FROM x',
  });
  symlinkSync('main.tf', join(dir, 'link'));
  const out = mkdtempSync(join(tmpdir(), 'archive-out-'));
  await unpackTemplate((await packTemplate(dir)).bytes, out);
  const files = readdirSync(out, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  assert.deepEqual(files.map(({ name }) => name).sort(), ['.terraform.lock.hcl', 'Dockerfile', 'b.tf', 'main.tf']);
  assert.equal(readFileSync(join(out, 'modules/a/b.tf'), 'utf8'), 'b');
});

test('rejects a directory without a template, a missing one and a large one', async () => {
  await assert.rejects(packTemplate(template({ 'README.md': 'x' })), /is not a template/);
  await assert.rejects(packTemplate('/nonexistent/x'), /Could not read the template's directory/);
  const big = template({ 'main.tf': 'a', 'big.bin': 'x'.repeat((1 << 20) + 1) });
  await assert.rejects(packTemplate(big), /exceeds 1024 KiB.*big\.bin \(1025 KiB\)/);
});

test('rejects archives with paths outside of the directory', async () => {
  for (const name of ['../evil', '/etc/evil', 'a/../../evil']) {
    const tar = pack();
    tar.entry({ name }, 'x');
    tar.finalize();
    const out = mkdtempSync(join(tmpdir(), 'archive-evil-'));
    await assert.rejects(unpackTemplate(await buffer(tar), out), /leads out of the directory/, name);
    assert.deepEqual(readdirSync(out), []);
  }
});

test('leaves symbolic links out and names them', async () => {
  const dir = template({ 'main.tf': 'a', 'modules/a/b.tf': 'b' });
  symlinkSync('main.tf', join(dir, 'other.tf'));
  symlinkSync('/etc', join(dir, 'modules/etc'));
  symlinkSync('x', join(dir, '.hidden'));
  const { bytes, links } = await packTemplate(dir);
  assert.deepEqual(links, ['modules/etc', 'other.tf']);
  const names: string[] = [];
  const reading = extract();
  reading.end(Buffer.from(bytes));
  for await (const entry of reading) {
    names.push(entry.header.name);
    entry.resume();
  }
  assert.deepEqual(names, ['main.tf', 'modules/', 'modules/a/', 'modules/a/b.tf']);
  const only = template({ 'README.md': 'x' });
  symlinkSync(join(dir, 'main.tf'), join(only, 'main.tf'));
  await assert.rejects(packTemplate(only), /is not a template.*symbolic links do not count/);
});
