import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstFile, pathProblem, type TreeNode, treeOf, within } from './tree.ts';

const show = (nodes: TreeNode[]): unknown[] =>
  nodes.map(({ name, children }) => (children ? [name, show(children)] : name));

test('lists folders first, by name, with numbers in order', () => {
  const paths = ['main.tf', 'a10.sh', 'a9.sh', 'scripts/x/deep.sh', 'scripts/start.sh', '.terraform.lock.hcl'];
  assert.deepEqual(show(treeOf(paths)), [
    ['scripts', [['x', ['deep.sh']], 'start.sh']],
    '.terraform.lock.hcl',
    'a9.sh',
    'a10.sh',
    'main.tf',
  ]);
});

test('finds what is below a folder, and the file to show first', () => {
  assert.deepEqual(within(['a/b', 'ab', 'a/c/d', 'a'], 'a'), ['a/b', 'a/c/d', 'a']);
  assert.equal(firstFile(['README.md', 'z.tf', 'main.tf']), 'main.tf');
  assert.equal(firstFile(['README.md', 'z.tf']), 'z.tf');
  assert.equal(firstFile([]), undefined);
});

test('rejects paths that leave the template or collide', () => {
  const taken = ['main.tf', 'scripts/start.sh'];
  for (const path of ['', ' ', '/etc/passwd', 'a//b', '../x', 'a/./b', 'a\\b', 'a/', 'main.tf', 'scripts', 'main.tf/x'])
    assert.ok(pathProblem(path, taken), path);
  for (const path of ['a.tf', 'scripts/stop.sh', '.gitignore', 'größe.md'])
    assert.equal(pathProblem(path, taken), undefined);
});
