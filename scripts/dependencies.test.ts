import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const root = dirname(import.meta.dirname);
const KINDS = ['dependencies', 'devDependencies', 'optionalDependencies'] as const;
const read = (file: string) => JSON.parse(readFileSync(join(root, file), 'utf8'));

test('each package that runs a script when it is installed is allowed or denied', () => {
  const { packages } = read('package-lock.json') as { packages: Record<string, { hasInstallScript?: boolean }> };
  const withScript = Object.entries(packages).filter(([path, found]) => path !== '' && found.hasInstallScript);
  const names = withScript.map(([path]) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length));
  assert.deepEqual([...new Set(names)].sort(), Object.keys(read('package.json').allowScripts).sort());
});

// The executable contains no native parts of ssh2, so that tests must not use them either.
test('ssh2 and what it loads have no native parts here', () => {
  for (const native of ['ssh2/lib/protocol/crypto/build', 'cpu-features/build'])
    assert.ok(!existsSync(join(root, 'node_modules', native)), `node_modules/${native} exists: run npm ci again.`);
});

const manifests = globSync(['package.json', 'packages/*/package.json'], { cwd: root }).map((file) => ({
  file,
  ...(read(file) as Partial<Record<(typeof KINDS)[number], Record<string, string>>>),
}));

test('each package.json names exact versions, the same one everywhere', () => {
  const chosen = new Map<string, string>();
  for (const { file, ...manifest } of manifests)
    for (const [name, version] of KINDS.flatMap((kind) => Object.entries(manifest[kind] ?? {}))) {
      assert.match(version, /^\d+\.\d+\.\d+(-[\w.]+)?$/, `${name} in ${file}`);
      assert.equal(version, chosen.get(name) ?? version, `${name} in ${file}`);
      chosen.set(name, version);
    }
  assert.ok(chosen.size > 50);
});

test('decision 0010 names each dependency, and no other', () => {
  const text = readFileSync(join(root, 'docs/decisions/0010-dependencies.md'), 'utf8');
  const names = new Set(manifests.flatMap((manifest) => KINDS.flatMap((kind) => Object.keys(manifest[kind] ?? {}))));
  const ours = [...names].filter((name) => !name.startsWith('@ropewalk/'));
  const rows = text.split('\n').filter((line) => line.startsWith('| '));
  const listed = rows.flatMap((row) => [...row.split('|')[2]!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!));
  const covers = (name: string) => (pattern: string) =>
    pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
  assert.deepEqual(
    ours.filter((name) => !listed.some(covers(name))),
    [],
    'missing in the decision',
  );
  assert.deepEqual(
    listed.filter((pattern) => !ours.some((name) => covers(name)(pattern))),
    [],
    'only in the decision',
  );
});
