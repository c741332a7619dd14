import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { eventually } from '@ropewalk/testkit/wait';
import { createBinaries } from './self.ts';

// stands for scripts/build.ts: notes that it runs, and makes the executable when it is let
const BUILD = `import { appendFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
appendFileSync('runs', 'x');
while (!existsSync('gate')) await new Promise((resolve) => setTimeout(resolve, 10));
mkdirSync('dist', { recursive: true });
writeFileSync('dist/coder-' + process.platform + '-' + { x64: 'amd64', arm64: 'arm64' }[process.arch], '');
`;
const mine = [process.platform, process.arch === 'arm64' ? 'arm64' : 'amd64'] as const;

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'platform-binaries-'));
  mkdirSync(join(root, 'scripts'));
  writeFileSync(join(root, 'scripts/build.ts'), BUILD);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test('builds the executable in advance, and makes requests wait for it', async () => {
  const binaries = createBinaries(root);
  assert.equal(binaries.building(), false);
  const warm = binaries.warm();
  assert.equal(binaries.building(), true);
  await eventually('the build runs', () => existsSync(join(root, 'runs')));
  const asked = binaries.find(...mine);
  writeFileSync(join(root, 'gate'), '');
  assert.equal(await asked, join(root, 'dist', `coder-${mine.join('-')}`));
  await warm;
  assert.equal(binaries.building(), false);
  await binaries.warm();
  assert.equal(readFileSync(join(root, 'runs'), 'utf8'), 'x', 'built once');
});

test('ends a running build with the server', async () => {
  const binaries = createBinaries(root);
  const warm = binaries.warm();
  await eventually('the build runs', () => existsSync(join(root, 'runs')));
  binaries.close();
  await warm;
  assert.equal(binaries.building(), false);
});
