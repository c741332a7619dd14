import assert from 'node:assert/strict';
import { test } from 'node:test';
import { root } from '@ropewalk/cli/commands/index';
import type { Node } from '@ropewalk/cli/framework/context';
import { partFor } from './part.ts';

/** Each command line below a node, with the source of its `load`. */
function lines(node: Node, path: string[] = []): { path: string[]; loads: string }[] {
  const below = Object.entries(node.children ?? {}).flatMap(([name, child]) =>
    [name, ...(child.aliases ?? [])].flatMap((word) => lines(child, [...path, word])),
  );
  return [...(node.load ? [{ path, loads: String(node.load) }] : []), ...below];
}

test('each command that is a server or a daemon runs in the whole program', () => {
  const daemons = lines(root).filter(({ loads }) => loads.includes('/daemons/') && !loads.includes('/daemons/agent/'));
  assert.ok(daemons.length > 10);
  for (const { path } of daemons) {
    assert.equal(partFor(path), 'whole', path.join(' '));
    assert.equal(partFor(['--url', 'https://coder.example.com', ...path, '--verbose']), 'whole', path.join(' '));
  }
});

test('the agent, clients and the processes of builds run in the smaller part', () => {
  for (const line of ['agent', 'ssh dev -- coder server', 'version', 'provisioner runner', 'provisioner launcher', ''])
    assert.equal(partFor(line.split(' ')), 'command', line);
});
