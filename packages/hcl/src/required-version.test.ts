import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requiredVersions, versionRequirements } from './index.ts';

const requires = (version: string) => `terraform {\n  required_version = "${version}"\n}\n`;
const calls = (name: string, source: string) => `module "${name}" {\n  source = "${source}"\n}\n`;

test('finds what a template and the modules that it calls require, each once', () => {
  const manifest = {
    Modules: [
      { Key: '', Source: '', Dir: '.' },
      { Key: 'near', Source: './near', Dir: 'near' },
      { Key: 'far', Source: 'example.com/a/far/coder', Dir: '.terraform/modules/far' },
      { Key: 'far.inner', Source: './modules/inner', Dir: '.terraform/modules/far/modules/inner' },
    ],
  };
  const files = {
    'main.tf': requires('>= 1.1') + calls('near', './near') + calls('far', 'example.com/a/far/coder'),
    'more.tf.json': JSON.stringify({
      terraform: [{ required_version: '< 2' }],
      module: { json: [{ source: './json' }] },
    }),
    'near/main.tf': requires('>= 1.2') + calls('deeper', '../deeper/') + calls('self', './'),
    'deeper/main.tf': requires('>= 1.1'),
    'json/main.tf.json': JSON.stringify({ terraform: { required_version: '>= 1.3' } }),
    'unused/main.tf': requires('>= 9'),
    '.terraform/modules/modules.json': JSON.stringify(manifest),
    '.terraform/modules/far/versions.tf': requires('>= 1.4') + calls('inner', './modules/inner'),
    '.terraform/modules/far/modules/inner/main.tf': requires('>= 1.5'),
  };
  assert.deepEqual(requiredVersions(files).sort(), ['< 2', '>= 1.1', '>= 1.2', '>= 1.3', '>= 1.4', '>= 1.5']);
  const unfetched = Object.fromEntries(Object.entries(files).filter(([path]) => !path.startsWith('.terraform/')));
  assert.deepEqual(requiredVersions(unfetched).sort(), ['< 2', '>= 1.1', '>= 1.2', '>= 1.3']);
});

test('names the module of each constraint, also without a manifest', () => {
  const files = {
    'main.tf':
      requires('>= 1.1') +
      calls('near', './near') +
      calls('git', 'git::https://example.com/x.git//parts/one?ref=v1') +
      calls('plain', 'example.com/a/plain/coder'),
    'near/main.tf': requires('>= 1.2') + calls('inner', 'example.com/a/inner/coder'),
    '.terraform/modules/git/main.tf': requires('>= 9'),
    '.terraform/modules/git/parts/one/main.tf': requires('>= 1.3') + calls('two', '../two'),
    '.terraform/modules/git/parts/two/main.tf': requires('>= 1.4'),
    '.terraform/modules/plain/main.tf': requires('>= 1.5'),
    '.terraform/modules/near.inner/main.tf': requires('>= 1.5'),
  };
  assert.deepEqual(
    versionRequirements(files).map(({ module, constraint }) => `${module} ${constraint}`),
    [' >= 1.1', 'near >= 1.2', 'git >= 1.3', 'plain >= 1.5', 'near.inner >= 1.5', 'git.two >= 1.4'],
  );
});

test('leaves out what cannot be read, in little time', () => {
  const before = process.threadCpuUsage();
  const many = Object.fromEntries(
    Array.from({ length: 2_000 }, (_, i) => [`m${i}/main.tf`, requires(`>= 1.${i}`) + calls('next', `../m${i + 1}`)]),
  );
  const files = {
    ...many,
    'main.tf': calls('first', './m0') + calls('away', '../../etc') + calls('odd', 'module'),
    'bad.tf': 'terraform {',
    'null.tf.json': 'null',
    'bad.tf.json': '{"terraform": 3, "module": [null, {"x": null}, 7, "y"]}',
    'large.tf': `${requires('>= 9')}# ${'x'.repeat(70_000)}`,
    '.terraform/modules/modules.json': '{"Modules": 7}',
  };
  assert.equal(requiredVersions(files).length, 499);
  const wide = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [`f${i}.tf`, `${requires(`>= 1.${i}`)}# ${'x'.repeat(60_000)}`]),
  );
  assert.ok(requiredVersions(wide).length < 20);
  const crowded = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`f${i}.tf`, '']));
  assert.deepEqual(requiredVersions({ ...crowded, 'z.tf': requires('>= 1.2') }), ['>= 1.2']);
  const { user, system } = process.threadCpuUsage(before);
  assert.ok(user + system < 5_000_000, `${user + system} µs`);
});
