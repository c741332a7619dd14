// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadModule, parseExpression } from './index.ts';
import { ALL_TAGS } from './module.ts';

const none = { description: '', type: '', default: '', required: true, sensitive: false };

test('reads variables, tags and readme of a template', () => {
  const module = loadModule({
    'b.tf': `
variable "later" {
  type = list(object({
    name = string
  }))
  default = [{ name = "x" }]
}
variable "again" {}
`,
    './a.tf': `variable "token" {
  description = "The token"
  type        = string
  sensitive   = true
}
variable "count" {
  type    = number
  default = 3
}
variable "text" {
  type    = "string"
  default = "as it is"
}
variable "nothing" {
  default = null
}
data "coder_parameter" "zone" {
  name = "zone"
}
data "coder_workspace_tags" "tags" {
  tags = {
    "cluster" = "dev"
    zone      = data.coder_parameter.zone.value
    cost      = var.count > 2 ? "high" : "low" # really
  }
}
`,
    'c.tf.json': Buffer.from(
      '{"variable": {"js": {"default": {"a": 1}, "description": "d"}, "list": [{"type": "string"}]},' +
        '"data": {"coder_workspace_tags": {"x": {"tags": {"json": "not read"}}}}}',
    ),
    'z_override.tf': 'variable "count" {\n  default = 5\n}\n',
    'sub/x.tf': 'variable "not_root" {}',
    '.hidden.tf': 'variable "hidden" {}',
    'x.tf~': 'broken',
    'README.md': '# Hello',
  });
  assert.deepEqual(module.diagnostics, []);
  assert.deepEqual(module.variables, [
    { ...none, name: 'token', description: 'The token', type: 'string', sensitive: true },
    { ...none, name: 'count', type: 'number', default: '5', required: false },
    { ...none, name: 'text', type: 'string', default: 'as it is', required: false },
    { ...none, name: 'nothing', required: false },
    {
      ...none,
      name: 'later',
      type: 'list(object({\n    name = string\n  }))',
      default: '[{"name":"x"}]',
      required: false,
    },
    { ...none, name: 'again' },
    { ...none, name: 'js', description: 'd', default: '{"a":1}', required: false },
    { ...none, name: 'list', type: 'string' },
  ]);
  assert.deepEqual(module.workspaceTags, {
    cluster: '"dev"',
    zone: 'data.coder_parameter.zone.value',
    cost: 'var.count > 2 ? "high" : "low"',
  });
  assert.equal(module.readme, '# Hello');
});

test('reports problems with file and line', () => {
  const many = Array.from({ length: 998 }, (_, i) => `t${i} = 1\n`).join('');
  const { diagnostics, variables } = loadModule({
    'a.tf': 'variable "x" {}\nvariable "x" {}\nvariable "y" {\n  default = var.x\n}\nvariable {}\n',
    'b.tf': 'data "coder_workspace_tags" "a" {\n  tags = { a = 1\n "a" = 2 }\n}\n',
    'c.tf': 'data "coder_workspace_tags" "a" {\n  tags = { late = null_resource.x.id }\n}\n',
    'c1.tf': 'data "coder_workspace_tags" "a" {\n  tags = {\n "(x)" = 1\n upper("x") = 2\n (local.x) = 3 }\n}\n',
    'c2.tf': `data "coder_workspace_tags" "a" {\n  tags = {\n${many}}\n}\n`,
    'd.tf': 'resource "x" {\n  a = \n}\n',
    'e.tf.json': '{\n"variable": oops}',
    'f.tf.json': `{"variable": {"deep": {"default": ${'['.repeat(10_000)}${']'.repeat(10_000)}}}}`,
  });
  const said = diagnostics.map((d) => [`${d.file}:${d.line}`, d.message] as const);
  const expected: [string, RegExp][] = [
    ['a.tf:2', /"x" is declared twice/],
    ['a.tf:4', /default of variable "y" must be a constant/],
    ['a.tf:6', /exactly one label/],
    ['b.tf:3', /Tag "a" is set twice/],
    ['c1.tf:3', /starts with a parenthesis/],
    ['c1.tf:4', /is an expression: write it in parentheses/],
    ['c2.tf:1000', /"t997" exceeds the limit of 1000 tags/],
    ['d.tf:2', /Expected an expression/],
    ['e.tf.json:2', /JSON/],
    ['f.tf.json:1', /nested deeper than 500/],
    ['c.tf:2', /Tag "late" cannot depend on null_resource.x, which is known only to Terraform/],
  ];
  assert.equal(said.length, expected.length, JSON.stringify(said));
  for (const [i, [at, message]] of expected.entries()) {
    assert.equal(said[i]![0], at);
    assert.match(said[i]![1], message);
  }
  assert.deepEqual(
    variables.map((v) => v.name),
    ['x', 'y', 'deep'],
  );
});

test('keeps tags that are not written as an object as one list, which a heredoc does not break', () => {
  const text = '<<-EOT\n  {"a": "b"}\n  EOT\n';
  const { workspaceTags, diagnostics } = loadModule({
    'a.tf': 'data "coder_workspace_tags" "a" {\n  tags = merge(local.a, { b = 1 })\n}\n',
    'b.tf': `data "coder_workspace_tags" "b" {\n  tags = jsondecode(${text})\n}\n`,
    'c.tf': 'data "coder_workspace_tags" "c" {\n  tags = { plain = 1 }\n}\n',
    'd.tf': 'locals {\n  a = { x = 1 }\n}\n',
  });
  assert.deepEqual(diagnostics, []);
  assert.deepEqual(Object.keys(workspaceTags), ['plain', ALL_TAGS]);
  const { expr, diagnostics: wrong } = parseExpression(workspaceTags[ALL_TAGS]!);
  assert.deepEqual(wrong, []);
  assert.equal(expr?.kind === 'tuple' && expr.items.length, 2);
});

test('reports tags that only Terraform knows, and none that may have a value', () => {
  const reported = (tags: string, more = '') =>
    loadModule({ 'a.tf': `data "coder_workspace_tags" "a" {\n  tags = ${tags}\n}\n${more}` }).diagnostics.map(
      ({ message }) => /depend on (.*), which/.exec(message)?.[1] ?? message,
    );
  assert.deepEqual(reported('{ a = upper(null_resource.x.id) }'), ['null_resource.x']);
  assert.deepEqual(reported('merge(ephemeral.random_password.p, {})'), ['ephemeral.random_password.p']);
  assert.deepEqual(reported('local.a', 'locals {\n  a = merge(local.b, {})\n  b = coder_agent.main.env\n}\n'), [
    'coder_agent.main',
  ]);
  const inJson = JSON.stringify({ locals: { a: '${coder_agent.main.env}' } });
  const { diagnostics } = loadModule({
    'a.tf': 'data "coder_workspace_tags" "a" {\n  tags = local.a\n}\n',
    'b.tf.json': inJson,
  });
  assert.match(diagnostics[0]!.message, /cannot depend on coder_agent\.main/);
  for (const fine of [
    '{ a = var.fast ? "ssd" : x.y.id, b = try(x.y.id, "b"), c = local.names["eu"], d = var.fast && x.y.id }',
    '{ for key, value in local.names : key => value if value != x.y.id }',
    '{ a = data.http.page.body, b = module.m.out, c = "${path.module}-${terraform.workspace}", d = count.index }',
    '{ a = data.coder_parameter.zone.value, b = data.coder_workspace_owner.me.name, c = [for v in var.l : v.id][0] }',
  ])
    assert.deepEqual(reported(fine, 'locals {\n  names = { eu = "a", us = x.y.id }\n}\n'), [], fine);
});

test('treats names of JavaScript like any other', () => {
  const module = loadModule({
    'a.tf': 'variable "__proto__" {}\ndata "coder_workspace_tags" "a" {\n  tags = { constructor = "x" }\n}\n',
    'b.tf.json': '{"variable": {"__proto__x": {"default": {"__proto__": 1}}}}',
  });
  assert.deepEqual(module.diagnostics, []);
  assert.equal(module.variables[0]!.name, '__proto__');
  assert.equal(module.workspaceTags['constructor'], '"x"');
});

test('reports an invalid template as an error of its file', () => {
  const { diagnostics } = loadModule({ 'a.tf.json': '{"locals": {"a": "${", "b": "%{ if x }"}}' });
  assert.deepEqual(
    diagnostics.map(({ file }) => file),
    ['a.tf.json', 'a.tf.json'],
  );
});

test('handles thousands of invalid variables in less than a second', () => {
  const names = Array.from({ length: 20_000 }, (_, i) => `v${i}`);
  const wrong = JSON.stringify({
    variable: names.flatMap((name) => [{ [name]: {} }, { [name]: { default: 1 } }]),
  });
  const started = process.threadCpuUsage().user;
  const { variables, diagnostics } = loadModule({ 'a.tf.json': wrong });
  assert.equal(variables.length, names.length);
  assert.equal(diagnostics.length, 100, 'keeps no more');
  assert.deepEqual([diagnostics[0]!.line, diagnostics[0]!.message], [1, 'Variable "v0" is declared twice.']);
  assert.ok(process.threadCpuUsage().user - started < 1_000_000);
});

test('a variable accepts only constants without functions, as in Terraform', () => {
  const { diagnostics } = loadModule({ 'a.tf': 'variable "a" {\n  default = upper("x")\n}\n' });
  assert.match(diagnostics[0]!.message, /default of variable "a" must be a constant. Cannot call functions here/);
});

test('an override file replaces the tags of a block', () => {
  const tags = (value: string) => `data "coder_workspace_tags" "t" {\n  tags = {\n    zone = "${value}"\n  }\n}\n`;
  const other = 'data "coder_workspace_tags" "other" {\n  tags = {\n    disk = "ssd"\n  }\n}\n';
  const files = { 'main.tf': tags('a') + other, 'b_override.tf': tags('b') };
  const { workspaceTags, diagnostics } = loadModule(files);
  assert.deepEqual(diagnostics, []);
  assert.deepEqual(workspaceTags, { zone: '"b"', disk: '"ssd"' });
  const twice = loadModule({ 'main.tf': tags('a'), 'more.tf': tags('b') });
  assert.match(twice.diagnostics[0]!.message, /set twice/);
  // two blocks may exist in turn, by their count
  const inTurn = loadModule({ 'main.tf': tags('a'), 'more.tf': tags('b').replace('"t"', '"u"') });
  assert.deepEqual(inTurn.diagnostics, []);
});
