import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const root = dirname(import.meta.dirname);
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
