// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dependencyGraph, Template } from '../index.ts';

// Terraform judges the graphs themselves (packages/provisioner/src/resources/dependency-graph.test.ts).

function graphOf(files: Record<string, string>) {
  const data = new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]));
  return dependencyGraph(new Template({ read: (path) => data.get(path), paths: () => data.keys() }));
}

const MODULE = 'module "m" {\n  source = "./m"\n}\n';

/** Templates whose graph only Terraform knows, with the reason. */
const UNDECIDED: Record<string, [files: Record<string, string>, why: RegExp]> = {
  'a module without files': [{ 'main.tf': MODULE }, /^Module "m" is not loaded\.$/],
  "a module's provider that refers to something": [
    { 'main.tf': MODULE, 'm/main.tf': 'provider "p" {\n  x = var.x\n}\nvariable "x" {}' },
    /^m\/main\.tf:1: the configuration of a module's provider/,
  ],
  'a module with other providers': [
    { 'main.tf': 'module "m" {\n  source = "./m"\n  providers = { p = p.x }\n}', 'm/main.tf': '' },
    /^Module "m" has other providers\.$/,
  ],
  'an order in JSON': [
    { 'main.tf.json': '{"resource": {"r": {"a": {}, "b": {"depends_on": ["r.a"]}}}}' },
    /main\.tf\.json:1: an order in JSON/,
  ],
  'an import': [
    { 'main.tf': 'import {\n to = r.a\n id = "x"\n}\nresource "r" "a" {}' },
    /only Terraform knows blocks import/,
  ],
  'references with a prefix': [
    { 'main.tf': 'resource "r" "a" {}\noutput "x" {\n value = resource.r.a.id\n}' },
    /references that begin with "resource"/,
  ],
  'a circle': [{ 'main.tf': 'locals {\n a = local.b\n b = local.c\n c = local.a\n}' }, /circle/],
  'a module that calls itself': [
    { 'main.tf': MODULE, 'm/main.tf': 'module "m" {\n source = "../m"\n}' },
    /too many modules/,
  ],
  'a file that cannot be parsed': [{ 'main.tf': 'resource "r" "a" {' }, /main\.tf:1/],
  'more references than can be followed': [
    {
      'main.tf': `locals {\n${Array.from(
        { length: 3_000 },
        (_, i) => `l${i} = [${Array.from({ length: 10 }, (_, j) => `local.l${i + j + 1}`).join(', ')}]`,
      ).join('\n')}\n${Array.from({ length: 10 }, (_, j) => `l${3_000 + j} = 1`).join('\n')}\n}`,
    },
    /too many references/,
  ],
};

for (const [what, [files, why]] of Object.entries(UNDECIDED))
  test(`${what}: only Terraform knows the graph`, () => {
    const found = graphOf(files);
    assert.match(typeof found === 'string' ? 'decided' : found.why, why);
  });

test('an edge goes from a block to what it refers to, and names may hold anything', () => {
  const graph = graphOf({ 'main.tf': 'resource "r" "a" {\n  x = r.b["]\\""].id\n}\nresource "r" "b" {}' });
  assert.equal(
    graph,
    `digraph {
	"[root] r.a (expand)" [label = "r.a"]
	"[root] r.b (expand)" [label = "r.b"]
	"[root] r.a (expand)" -> "[root] r.b (expand)"
}
`,
  );
  assert.equal(graphOf({}), 'digraph {\n}\n');
});
