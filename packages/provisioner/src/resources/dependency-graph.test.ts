import assert from 'node:assert/strict';
import { cpSync, existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { dependencyGraph, Template } from '@ropewalk/hcl';
import { terraformDir } from '@ropewalk/terraform-provider/testing/terraform';

// Terraform judges the graphs of templates.

const TESTING = join(import.meta.dirname, '../../../hcl/src/testing');
const TEMPLATES = ['graphs', 'transitions'].flatMap((folder) =>
  readdirSync(join(TESTING, folder)).map((name) => join(folder, name)),
);
const MANIFEST = '.terraform/modules/modules.json';

function graphOf(dir: string) {
  const paths = [
    ...globSync('**/*.{tf,tf.json}', { cwd: dir }),
    ...(existsSync(join(dir, MANIFEST)) ? [MANIFEST] : []),
  ];
  const files = new Map(paths.map((path) => [path, readFileSync(join(dir, path))]));
  return dependencyGraph(new Template({ read: (path) => files.get(path), paths: () => files.keys() }));
}

/** The edges of a graph, without those of providers and of the root and checks, on which nothing depends. */
const edgesOf = (dot: string) =>
  dot
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.includes(' -> ') && !/provider\[|"\[root\] (root"|check\.)/.test(line))
    .sort();

const labelsOf = (dot: string) =>
  [...dot.matchAll(/^\s*"[^ ]* (.*)" \[label = "([^"\\]*)"/gm)].map(([, id, label]) => `${id}: ${label}`).sort();

for (const name of TEMPLATES)
  test(`${name}: the graph is Terraform's`, { timeout: 60_000 }, async (t) => {
    const { dir, terraform, remove } = await terraformDir('', { declare: false });
    t.after(remove);
    cpSync(join(TESTING, name), dir, { recursive: true, force: true });
    const init = await terraform(['init', '-input=false']);
    assert.ok(init.ok, init.output);
    const graph = await terraform(['graph', '-type=plan']);
    assert.ok(graph.ok, graph.output);
    const ours = graphOf(dir);
    if (name.endsWith('json')) return assert.match(JSON.stringify(ours), /an order in JSON/);
    assert.ok(typeof ours === 'string', JSON.stringify(ours));
    assert.deepEqual(edgesOf(ours), edgesOf(graph.output));
    assert.deepEqual(labelsOf(ours), labelsOf(graph.output));
  });
