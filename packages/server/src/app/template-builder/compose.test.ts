// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { evaluate, loadModule, parseExpression } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import { ensureDirectorySync } from '@ropewalk/kit/directory';
import { builtIn } from '../template-catalog/built-in.ts';
import type { CatalogItems } from '../template-catalog/folder.ts';
import { type ItemFiles, readBase, readModule } from '../template-catalog/items.ts';
import { type Choice, type Composed, compose } from './compose.ts';
import { quoted } from './literal.ts';

const text = (files: ItemFiles, path: string) => Buffer.from(files.get(path) ?? '').toString();
const filesOf = (texts: Record<string, string>): ItemFiles =>
  new Map(Object.entries(texts).map(([path, source]) => [path, Buffer.from(source)]));
const README = '---\ndisplay_name: Own\n---\n\n# Own\n\nNeeds nothing.\n';
const AGENT = 'resource "coder_agent" "dev" {\n  os   = "linux"\n  arch = "amd64"\n}\n';
const AGENT_ID = 'variable "agent_id" {\n  type = string\n}\n';

function items(base: string, modules: Record<string, string> = {}, front = ''): CatalogItems {
  const readme = README.replace('Own\n---', `Own\n${front}---`);
  return {
    bases: new Map([['own', readBase('bases/own', 'own', filesOf({ 'main.tf': base, 'README.md': README }))]]),
    modules: new Map(
      Object.entries(modules).map(([id, source]) => [
        id,
        readModule(`modules/${id}`, id, filesOf({ 'main.tf': AGENT_ID + source, 'README.md': readme })),
      ]),
    ),
    problems: [],
  };
}

const composed = (from: CatalogItems, choice: Partial<Choice> = {}): Composed =>
  compose(from, { base: 'own', baseValues: {}, modules: [], ...choice });

function rejects(from: CatalogItems, choice: Partial<Choice>, detail: RegExp): void {
  assert.throws(
    () => composed(from, choice),
    (err) => {
      assert.ok(err instanceof AppError && err.code === 'invalid', String(err));
      assert.equal(err.message, 'Failed to compose template.');
      assert.match(err.detail ?? '', detail);
      return true;
    },
  );
}

const HOSTILE = [
  '"',
  '\\"',
  '\\',
  'a" }\nresource "terraform_data" "x" { input = "',
  '${file("/etc/passwd")}',
  '$${x}',
  '$$${x}',
  '%{ if true }yes%{ endif }',
  '%%{ x }',
  '${',
  '%{',
  '$',
  '%',
  '<<EOT\nx\nEOT\n',
  'line\r\nline\ttab',
  '\u0001\u001b[31m\u007f\u0085\u2028\u2029\ufeff',
  '# comment',
  '*/ /* //',
  '}\n}\n',
  '😀 é \ud800',
  '',
];

describe('values', () => {
  test('a quoted text is always one text with the same value', () => {
    for (const value of HOSTILE) {
      const { expr, diagnostics } = parseExpression(quoted(value));
      assert.deepEqual(diagnostics, [], value);
      assert.equal(evaluate(expr!), value.toWellFormed(), value);
      assert.ok(!/[\n\r]/.test(quoted(value)));
    }
  });

  const VARIABLES = [
    'variable "with_default" {\n  type    = string\n  default = "x"\n}\n',
    'variable "with_default" {\n  type = string\n  default = <<-EOT\n    x\n  EOT\n  description = "after"\n}\n',
    'variable "with_default" {\n  type = string # a comment\n}\n',
    'variable "with_default" {}\n',
    'variable "with_default" { type = string }\n',
    'variable "with_default" {\n  description = "} {"\n}\n',
    'variable "with_default" {\n  description = <<EOT\n}\nEOT\n}\n',
  ];
  test('a hostile value becomes the default of a variable of a base and adds nothing else', () => {
    for (const variable of VARIABLES) {
      const from = items(`${variable}${AGENT}`);
      for (const value of HOSTILE) {
        const { files } = composed(from, { baseValues: { with_default: value } });
        const loaded = loadModule({ 'main.tf': text(files, 'main.tf') });
        assert.deepEqual(loaded.diagnostics, [], text(files, 'main.tf'));
        assert.deepEqual(
          loaded.files[0]!.body.blocks.map(({ type }) => type),
          ['variable', 'resource'],
        );
        assert.equal(
          evaluate(loaded.files[0]!.body.blocks[0]!.body.attributes.get('default')!.value),
          value.toWellFormed(),
        );
      }
    }
  });

  test('a hostile value becomes one argument of a module', () => {
    const from = items(AGENT, { tool: 'variable "word" {\n  type = string\n}\n' });
    for (const value of HOSTILE) {
      const { files } = composed(from, { modules: [{ id: 'tool', values: { word: value } }] });
      const { body, diagnostics } = loadModule({ 'modules.tf': text(files, 'modules.tf') }).files[0]!;
      assert.deepEqual(diagnostics, []);
      assert.equal(body.blocks.length, 1);
      assert.deepEqual([...body.blocks[0]!.body.attributes.keys()], ['source', 'agent_id', 'word']);
      assert.equal(evaluate(body.blocks[0]!.body.attributes.get('word')!.value), value.toWellFormed());
    }
  });

  test('rejects values of the wrong type, unknown variables and missing values', () => {
    const from = items(
      `variable "size" {\n  type = number\n}\nvariable "fast" {\n  type = bool\n  default = true\n}\n${AGENT}`,
    );
    const good = { size: '3', fast: 'false' };
    assert.match(text(composed(from, { baseValues: good }).files, 'main.tf'), /default = 3\n[\s\S]*default = false\n/);
    rejects(from, { baseValues: {} }, /^Base "own", variable "size": a value is required\.$/);
    rejects(from, { baseValues: { size: 'null' } }, /a value is required/);
    for (const size of ['', '1e9', '0x1', 'file("x")', '1 + 1', '1\n', 'NaN', '9'.repeat(16)])
      rejects(from, { baseValues: { size } }, /variable "size": ".*" is not a number/);
    rejects(from, { baseValues: { ...good, fast: 'yes' } }, /"yes" is neither true nor false/);
    for (const name of ['other', 'constructor', '__proto__', 'x" {'])
      rejects(from, { baseValues: { ...good, [name]: 'x' } }, name === '__proto__' ? /./ : /unknown variable/);
    const words = items(`variable "word" {\n}\n${AGENT}`);
    rejects(words, { baseValues: { word: 'é'.repeat(2_049) } }, /the limit is 4096 bytes/);
    rejects(words, { baseValues: { word: 'a\0' } }, /NUL/);
  });

  test('a sensitive value is not part of the source', () => {
    const secret = 'variable "password" {\n  type      = string\n  sensitive = true\n}\n';
    const from = items(secret + AGENT, { 'my-tool': secret });
    const { files, sensitive } = composed(from, {
      baseValues: { password: 'canary-1' },
      modules: [{ id: 'my-tool', values: { password: 'canary-2' } }],
    });
    assert.ok(![...files.values()].some((data) => Buffer.from(data).includes('canary')));
    assert.deepEqual(sensitive, [
      { name: 'password', value: 'canary-1' },
      { name: 'my_tool_password', value: 'canary-2' },
    ]);
    const called = text(files, 'modules.tf');
    assert.match(called, /password = var\.my_tool_password/);
    assert.match(called, /variable "my_tool_password" \{\n {2}type {6}= string\n {2}sensitive = true\n\}/);
    // the import asks for those that are missing
    const without = composed(from, { modules: [{ id: 'my-tool', values: {} }] });
    assert.deepEqual([text(without.files, 'modules.tf'), without.sensitive], [called, []]);
  });
});

describe('modules', () => {
  test('composes the same files each time, with one call for each module', () => {
    const from = items(AGENT, { b: '', a: 'variable "port" {\n  type = number\n}\n' });
    const choice: Pick<Choice, 'modules'> = {
      modules: [
        { id: 'b', values: {} },
        { id: 'a', values: { port: '80' } },
      ],
    };
    const { files } = composed(from, choice);
    assert.deepEqual(
      [...files.keys()],
      ['README.md', 'main.tf', 'modules.tf', 'modules/a/main.tf', 'modules/b/main.tf'],
    );
    assert.equal(
      text(files, 'modules.tf'),
      'module "b" {\n  source   = "./modules/b"\n  agent_id = coder_agent.dev.id\n}\n\n' +
        'module "a" {\n  source   = "./modules/a"\n  agent_id = coder_agent.dev.id\n  port     = 80\n}\n',
    );
    assert.deepEqual(composed(from, choice), composed(from, choice));
  });

  test('rejects modules that do not exist, do not go together or do not work on the system', () => {
    const from = items(AGENT, { a: '', b: '' }, 'conflicts_with: [b]\n');
    const chosen = (...ids: string[]) => ({ modules: ids.map((id) => ({ id, values: {} })) });
    rejects(from, chosen('c'), /^Unknown module "c"\.$/);
    rejects(from, chosen('constructor'), /Unknown module/);
    rejects(from, { base: 'other' }, /^Unknown base "other"\.$/);
    rejects(from, chosen('a', 'a'), /^The module "a" is chosen twice\.$/);
    rejects(from, chosen('a', 'b'), /^The modules "a" and "b" exclude each other\.$/);
    rejects(from, chosen('b', 'a'), /exclude each other/);
    const windows = items(AGENT, { a: '' }, 'compatible_os: [windows]\n');
    rejects(windows, chosen('a'), /^The module "a" does not work on linux, the operating system of the base "own"\.$/);
    const app = 'resource "coder_app" "x" {\n  agent_id = var.agent_id\n  slug = "web"\n}\n';
    rejects(items(AGENT, { a: app, b: app }), chosen('a', 'b'), /^"a" and "b" both have an app with the slug "web"\.$/);
    const base = `${AGENT}module "a" {\n  source = "./x"\n}\n`;
    rejects(items(base, { a: '' }), chosen('a'), /^The base "own" has a module "a" already\.$/);
    const variable = items(`variable "a_key" {\n  default = ""\n}\n${AGENT}`, {
      a: 'variable "key" {\n  sensitive = true\n}\n',
    });
    rejects(variable, { modules: [{ id: 'a', values: { key: 'x' } }] }, /a_key/);
  });
});

const VALUES: Record<string, string> = {
  address: 'http://proxy:3128',
  folder: '/home/coder',
  namespace: 'dev',
  port: '8080',
  project_id: 'p',
  repository: 'https://example.com/x.git',
};
const required = (variables: readonly { name: string; required: boolean }[]) =>
  Object.fromEntries(variables.flatMap(({ name, required }) => (required ? [[name, VALUES[name]!]] : [])));

test('every base of this release takes every module of its system, and Terraform finds the result well formed', () => {
  const own = builtIn();
  assert.ok(own.bases.size >= 15 && own.modules.size >= 9);
  const root = mkdtempSync(join(tmpdir(), 'composed-'));
  try {
    for (const base of own.bases.values()) {
      const fitting = [...own.modules.values()].filter(
        ({ compatibleOs }) => compatibleOs.length === 0 || compatibleOs.includes(base.os),
      );
      const { files } = compose(own, {
        base: base.id,
        baseValues: required(base.variables),
        modules: fitting.map(({ id, variables }) => ({ id, values: required(variables) })),
      });
      for (const [path, data] of files) {
        const at = join(root, base.id, path);

        ensureDirectorySync(dirname(at));
        writeFileSync(at, data);
      }
    }
    assert.equal(execFileSync('terraform', ['fmt', '-check', '-recursive', '-diff', root]).toString(), '');
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});
