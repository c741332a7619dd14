// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Chosen, PlannedValues, previewTemplate, Template } from '../index.ts';

const OWNER = {
  id: '11111111-1111-4111-8111-111111111111',
  name: 'ada',
  full_name: '',
  email: 'ada@example.com',
  ssh_public_key: 'ssh-ed25519 AAAA',
  login_type: 'password',
  groups: ['Everyone'],
  rbac_roles: [],
};

const templateOf = (files: Record<string, string>) =>
  new Template({
    read: (path) => (Object.hasOwn(files, path) ? Buffer.from(files[path]!) : undefined),
    paths: () => Object.keys(files),
  });

function preview(files: string | Record<string, string>, chosen: Partial<Chosen> = {}, plan: unknown = undefined) {
  const template = templateOf(typeof files === 'string' ? { 'main.tf': files } : files);
  return previewTemplate(template, new PlannedValues(plan), { inputs: {}, owner: OWNER, variables: [], ...chosen });
}

const parameter = (label: string, body: string) =>
  `data "coder_parameter" "${label}" {\n  name = "${label}"\n${body}\n}\n`;

/** The value of a parameter `p` whose default is this expression. */
function resolved(expression: string, more = '', files: Record<string, string> = {}, chosen: Partial<Chosen> = {}) {
  const { parameters, diagnostics } = preview(
    { 'main.tf': `${parameter('p', `default = ${expression}`)}${more}`, ...files },
    chosen,
  );
  const found = parameters.find(({ name }) => name === 'p');
  if (!found) return diagnostics.map(({ detail }) => detail).join();
  return found.value.valid ? found.value.value : found.diagnostics.map(({ detail }) => detail).join() || undefined;
}

describe('what parameters may refer to', () => {
  test('an argument of another block, even if the rest of that block depends on this one', () => {
    const other = `${parameter('q', 'default = data.coder_parameter.p.value\n icon = "/icon/x.svg"')}`;
    assert.equal(resolved('data.coder_parameter.q.icon', other), '/icon/x.svg');
  });

  test('a chain of locals, in any order', () => {
    assert.equal(resolved('local.a', 'locals {\n a = "${local.b}!"\n b = upper("x")\n}'), 'X!');
  });

  test('an argument of a resource, but not what its provider computes', () => {
    const disk = 'resource "disk" "main" {\n size = 5\n mount { path = "/a" }\n}';
    assert.equal(resolved('disk.main.size', disk), '5');
    assert.equal(resolved('disk.main.mount[0].path', disk), '/a');
    assert.equal(resolved('disk.main.id', disk), undefined);
  });

  test('files of the template, with templates', () => {
    const files = { 'hello.tftpl': 'Hi ${who}', 'data/list.yaml': '- a\n- b\n' };
    assert.equal(resolved('templatefile("${path.module}/hello.tftpl", { who = "ada" })', '', files), 'Hi ada');
    assert.equal(resolved('join("", yamldecode(file("data/list.yaml")))', '', files), 'ab');
    assert.match(resolved('file("/etc/passwd")')!, /has no file "\/etc\/passwd"/);
    assert.match(resolved('file("../../secret")')!, /has no file/);
  });

  test('variables from the build, from tfvars and from defaults, converted to their type', () => {
    const variable = 'variable "v" {\n type = list(number)\n default = [1]\n}';
    const value = 'jsonencode(var.v)';
    const given = { variables: [{ name: 'v', type: 'list(number)', value: '["3"]' }] };
    assert.equal(resolved(value, variable), '[1]');
    assert.equal(resolved(value, variable, { 'terraform.tfvars': 'v = [2]' }), '[2]');
    assert.equal(resolved(value, variable, { 'a.auto.tfvars.json': '{"v": [4]}' }), '[4]');
    assert.equal(resolved(value, variable, { 'terraform.tfvars': 'v = [2]' }, given), '[3]');
  });

  test('modules by folder and by manifest', () => {
    const call =
      'module "m" {\n source = "registry/x/y"\n n = 2\n}\nmodule "l" {\n source = "./lib"\n n = module.m.out\n}';
    const module = 'variable "n" {}\noutput "out" {\n value = var.n * 2\n}';
    const manifest = JSON.stringify({ Modules: [{ Key: 'm', Source: 'registry/x/y', Dir: '.terraform/modules/m' }] });
    const files = {
      'lib/main.tf': module,
      '.terraform/modules/m/main.tf': module,
      '.terraform/modules/modules.json': manifest,
    };
    assert.equal(resolved('module.l.out', call, files), '8');
    const { diagnostics } = preview({ 'main.tf': call });
    assert.deepEqual(
      diagnostics.map(({ severity, code }) => [severity, code]),
      [
        ['warning', 'module_not_loaded'],
        ['warning', 'module_not_loaded'],
      ],
    );
  });

  test("the owner, but not the owner's secrets", () => {
    const owner = 'data "coder_workspace_owner" "who" {}';
    assert.equal(resolved('data.coder_workspace_owner.who.groups[0]', owner), 'Everyone');
    assert.equal(resolved('data.coder_workspace_owner.who.full_name', owner), 'default');
    assert.equal(resolved('data.coder_workspace_owner.who.session_token', owner), undefined);
    const url = { accessUrl: 'https://dev.example.com' };
    const workspace = 'data "coder_workspace" "me" {}';
    assert.equal(resolved('data.coder_workspace.me.access_url', workspace, {}, url), 'https://dev.example.com');
    assert.equal(resolved('data.coder_workspace.me.access_port', workspace, {}, url), '443');
  });

  test('data sources that an earlier plan has read', () => {
    const source = `${parameter('p', 'default = data.http.x["a"].body')}data "http" "x" {\n for_each = toset(["a"])\n url = "u"\n}`;
    const resources = [{ address: 'data.http.x["a"]', mode: 'data', type: 'http', values: { body: 'B', url: 'old' } }];
    const plan = { prior_state: { values: { root_module: { resources } } } };
    assert.equal(preview(source, {}, plan).parameters[0]!.value.value, 'B');
    assert.equal(preview(source).parameters[0]!.value.valid, false);
  });

  test('JSON files and override files', () => {
    const data = { coder_parameter: { p: { name: 'p', default: '${1 + 1}', option: [{ name: 'Two', value: '2' }] } } };
    const [first] = preview({ 'main.tf.json': JSON.stringify({ data }) }).parameters;
    assert.deepEqual([first?.value.value, first?.options.length], ['2', 1]);
    const override = 'data "coder_parameter" "p" {\n default = "b"\n}';
    assert.equal(resolved('"a"', '', { 'override.tf': override }), 'b');
  });
});

test('accepts any value while some options are not known', () => {
  const options =
    'option {\n name = "A"\n value = "a"\n }\n dynamic "option" {\n for_each = data.http.x.list\n content {\n name = option.value\n value = option.value\n }\n }';
  const source = `${parameter('p', `default = "a"\n${options}`)}data "http" "x" {}`;
  const problems = (plan?: unknown) =>
    preview(source, { inputs: { p: 'b' } }, plan).parameters[0]!.diagnostics.map(({ summary }) => summary);
  assert.deepEqual(problems(), []);
  const planned = (list: string[]) => ({
    prior_state: {
      values: {
        root_module: { resources: [{ address: 'data.http.x', mode: 'data', type: 'http', values: { list } }] },
      },
    },
  });
  assert.deepEqual(problems(planned(['b'])), []);
  assert.deepEqual(problems(planned(['c'])), ['The value is not one of the options']);
});

test('a parameter that needs itself is unknown', () => {
  assert.equal(
    resolved('data.coder_parameter.q.value', parameter('q', 'default = data.coder_parameter.p.value')),
    undefined,
  );
  assert.equal(resolved('local.a', 'locals {\n a = local.b\n b = local.a\n}'), undefined);
});

test('names the place of a default that cannot be evaluated', () => {
  const options = parameter('size', 'default = "small"');
  const source = `${parameter('p', 'default = { small = "1" }[data.coder_parameter.size.value]')}${options}`;
  assert.deepEqual(
    preview(source).parameters.flatMap(({ diagnostics }) => diagnostics),
    [],
  );
  const [broken] = preview(source, { inputs: { size: 'huge' } }).parameters.flatMap(({ diagnostics }) => diagnostics);
  assert.match(broken!.detail, /^main\.tf:3: .*"huge"/);
});

test('messages do not quote sensitive variables', () => {
  const source = `variable "token" { sensitive = true }\n${parameter('p', 'default = { a = 1 }[var.token]')}`;
  const variables = [{ name: 'token', type: 'string', value: 'hunter2-secret', sensitive: true }];
  const [problem] = preview(source, { variables }).parameters[0]!.diagnostics;
  assert.match(problem!.detail, /Unknown attribute "\(sensitive\)"/);
});

test('evaluates a template any number of times', () => {
  const files = {
    'main.tf': `variable "v" {}\n${parameter('p', 'default = length(var.v)')}`,
    'terraform.tfvars': `v = [${'1,'.repeat(10_000)}]`,
  };
  const template = templateOf(files);
  const chosen = { inputs: {}, owner: OWNER, variables: [] };
  for (let i = 0; i < 40; i++) {
    const { parameters } = previewTemplate(template, new PlannedValues(undefined), chosen);
    assert.equal(parameters[0]!.value.value, '10000', `evaluation ${i}`);
  }
});

describe('templates made to take long', () => {
  const CASES: [string, string, RegExp][] = [
    ['nested for', 'locals {\n a = [for x in range(1000) : [for y in range(1000) : x * y]]\n}\n', /more than|elements/],
    ['range of a million', 'locals {\n a = range(1000000)\n}\n', /at most 1024/],
    [
      'doubling locals',
      `locals {\n a0 = ["x"]\n${Array.from({ length: 60 }, (_, i) => ` a${i + 1} = concat(local.a${i}, local.a${i})\n`).join('')} a = local.a60\n}\n`,
      /elements|steps/,
    ],
    [
      'a chain of locals',
      `locals {\n a0 = 1\n${Array.from({ length: 5000 }, (_, i) => ` a${i + 1} = local.a${i}\n`).join('')} a = local.a5000\n}\n`,
      /chain of more than/,
    ],
    ['a catastrophic regular expression', `locals {\n a = regexall("^(a+)+$", "${'a'.repeat(40)}!")\n}\n`, /^$/],
    [
      'a template that repeats a text',
      'locals {\n t = join("", range(1000))\n a = "%{ for x in range(1000) }%{ for y in range(1000) }${local.t}%{ endfor }%{ endfor }"\n}\n',
      /characters|steps/,
    ],
  ];
  for (const [name, locals, message] of CASES)
    test(name, () => {
      const started = process.threadCpuUsage().user;
      const { parameters, diagnostics } = preview(`${locals}${parameter('p', 'default = jsonencode(local.a)')}`);
      const texts = [...diagnostics, ...parameters.flatMap((one) => one.diagnostics)].map(({ detail }) => detail);
      assert.match(texts.join(), message);
      assert.ok(process.threadCpuUsage().user - started < 5_000_000);
    });

  test('modules that call themselves', () => {
    const call = (n: number) => `module "m${n}" {\n source = "./"\n}\n`;
    const { diagnostics } = preview(`${call(1)}${call(2)}${parameter('p', '')}`);
    assert.match(diagnostics[0]!.detail, /more than 500 module|nested deeper/);
  });

  test('thousands of instances', () => {
    const source = 'data "coder_parameter" "p" {\n count = 100000\n name = "p${count.index}"\n}';
    assert.match(preview(source).diagnostics[0]!.detail, /more than 1,000 instances/);
  });
});

test('judges a preset by the parameters that exist with its values', () => {
  const source = [
    parameter('ide', 'default = "vim"'),
    'data "coder_parameter" "plugin" {\n  count = data.coder_parameter.ide.value == "code" ? 1 : 0\n  name = "plugin"\n default = "a"\n}',
    ...['right', 'wrong'].map(
      (name) =>
        `data "coder_workspace_preset" "${name}" {\n  name = "${name}"\n  parameters = {\n    ide = "${name === 'right' ? 'code' : 'vim'}"\n    plugin = "b"\n  }\n}`,
    ),
  ].join('\n');
  const { presets } = preview(source);
  assert.deepEqual(
    presets.map(({ name, diagnostics }) => [name, diagnostics.map(({ summary }) => summary)]),
    [
      ['right', []],
      ['wrong', ['Undefined parameter']],
    ],
  );
});
