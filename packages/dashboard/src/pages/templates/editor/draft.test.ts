import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedPaths, draftOf, filesOf, isChanged, renamed, renamedPath, without, withText } from './draft.ts';

const bytes = new Uint8Array([1, 0, 2]);
const base = draftOf([
  { path: 'main.tf', data: new TextEncoder().encode('a\n'), mode: 0o600 },
  { path: 'scripts/start.sh', data: new TextEncoder().encode('b\n'), mode: 0o755 },
  { path: 'logo.png', data: bytes, mode: 0o644 },
]);

test('keeps bytes and modes from archive to archive', () => {
  assert.equal(base.get('logo.png')!.bytes, bytes);
  assert.deepEqual(
    filesOf(withText(base, 'main.tf', 'c')).map(({ path, mode }) => [path, mode]),
    [
      ['main.tf', 0o600],
      ['scripts/start.sh', 0o755],
      ['logo.png', 0o644],
    ],
  );
});

test('knows what changed, and that undoing a change ends it', () => {
  assert.ok(!isChanged(base, base));
  const edited = withText(base, 'main.tf', 'c');
  assert.deepEqual([...changedPaths(edited, base)], ['main.tf']);
  assert.ok(!isChanged(withText(edited, 'main.tf', 'a\n'), base));
  const shorter = without(base, 'scripts');
  assert.deepEqual([...shorter.keys()], ['main.tf', 'logo.png']);
  assert.ok(isChanged(shorter, base));
});

test('renames files and folders', () => {
  assert.deepEqual([...renamed(base, 'scripts', 'bin').keys()], ['main.tf', 'bin/start.sh', 'logo.png']);
  assert.equal(renamedPath('scripts-old/x', 'scripts', 'bin'), 'scripts-old/x');
  assert.equal(renamedPath('main.tf', 'main.tf', 'a/b.tf'), 'a/b.tf');
  assert.equal(withText(base, 'new.sh', '').get('new.sh')!.mode, 0o755);
});
