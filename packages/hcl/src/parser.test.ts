import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  bodyReferences,
  Dict,
  EvaluationError,
  evaluate,
  object,
  parseExpression,
  parseHcl,
  rawText,
  references,
  tuple,
  UNKNOWN,
  type Value,
} from './index.ts';

const expr = (text: string) => {
  const { expr: parsed, diagnostics } = parseExpression(text);
  assert.ok(parsed, `${text}: ${diagnostics[0]?.message}`);
  return parsed;
};

describe('files', () => {
  test('parses attributes, blocks, labels, comments and raw text', () => {
    const source = `# one
resource "coder_agent" main { // two
  os = "linux" /* three */
  env = {
    A = "b", B = upper("c") # four
    "C" : 1
  }
  metadata { key = "x" }
  metadata {
    key = <<-EOT
      a
    EOT
  }
}
empty "a\\"b" {}
`;
    const file = parseHcl(source, 'main.tf');
    assert.deepEqual(file.diagnostics, []);
    const [agent, empty] = file.body.blocks;
    assert.deepEqual(agent!.labels, ['coder_agent', 'main']);
    assert.equal(agent!.range.line, 2);
    assert.deepEqual(empty!.labels, ['a"b']);
    assert.equal(agent!.body.blocks.length, 2);
    const env = agent!.body.attributes.get('env')!;
    assert.equal(env.range.line, 4);
    assert.ok(env.value.kind === 'object');
    assert.equal(rawText(file, env.value.items[1]!.value), 'upper("c")');
    assert.equal(rawText(file, agent!.body.attributes.get('os')!), 'os = "linux"');
    assert.equal(evaluate(agent!.body.blocks[1]!.body.attributes.get('key')!.value), 'a\n');
  });

  test('accepts Windows line ends and a byte order mark', () => {
    const file = parseHcl('\uFEFFa = 1\r\nb = <<EOT\r\nx\r\nEOT\r\nc {\r\n}\r\n', 'a.tf');
    assert.deepEqual(file.diagnostics, []);
    assert.equal(evaluate(file.body.attributes.get('b')!.value), 'x\n');
  });

  test('accepts blanks around the end marker of a heredoc', () => {
    const file = parseHcl('a = <<EOT\nx\nEOTS\n EOT \t\nb = <<-EOT\r\n  y\r\n  EOT \r\nc = 1\n', 'a.tf');
    assert.deepEqual(file.diagnostics, []);
    assert.equal(evaluate(file.body.attributes.get('a')!.value), 'x\nEOTS\n');
    assert.equal(evaluate(file.body.attributes.get('b')!.value), 'y\n');
  });

  const WRONG: [string, number, RegExp][] = [
    ['a = 1\nb = = 2\n', 2, /Expected an expression, found "="/],
    ['a = 1 b = 2', 1, /Expected the end of the line, found "b"/],
    ['a {\n  b = 1\n', 3, /Expected "}" to close block "a", found the end/],
    ['a = [1, 2', 1, /to close a list/],
    ['a = "x', 1, /not closed on its line/],
    ['\na = "$' + '{b', 2, /to close a template sequence/],
    ['a = <<EOT\nx\n', 1, /Heredoc <<EOT is not closed/],
    ['a = 1\na = 2', 2, /"a" is set twice/],
    ['a = "\\x"', 1, /is not an escape/],
    ['a = "%{ if true }x"', 1, /is not closed/],
    ['a = "%{ endfor }"', 1, /has no %\{ for \}/],
    ['a = /* x', 1, /comment is not closed/],
    ['a = f(1, ', 1, /Expected an expression, found the end/],
    ['a "b', 1, /label is not closed/],
    ['}', 1, /Expected an argument or a block/],
    ['a = 1 ? 2', 1, /Expected ":" in a conditional/],
    ['a = b.', 1, /attribute's name/],
    ['a = [for x of y : x]', 1, /Expected "in"/],
  ];
  for (const [source, line, message] of WRONG)
    test(`reports the problem in ${JSON.stringify(source)}`, () => {
      const { diagnostics } = parseHcl(source, 'x.tf');
      assert.equal(diagnostics.length, 1);
      assert.match(diagnostics[0]!.message, message);
      assert.equal(diagnostics[0]!.line, line);
      assert.equal(diagnostics[0]!.file, 'x.tf');
    });

  test('limits sources', () => {
    const bombs = [
      `a = ${'['.repeat(100_000)}`,
      `a = ${'('.repeat(100_000)}`,
      `a = ${'!'.repeat(100_000)}1`,
      `a = ${'"${'.repeat(100_000)}`,
      `a = 1${' + 1'.repeat(100_000)}`,
      `a = b${'.c'.repeat(100_000)}`,
      `a = b${'[*]'.repeat(100_000)}`,
      `a = ${'1 ? 1 : '.repeat(100_000)}1`,
      'a {\n'.repeat(100_000),
      `a = "${'%{ if true }'.repeat(50_000)}"`,
    ];
    for (const bomb of bombs) {
      const { diagnostics } = parseHcl(bomb, 'bomb.tf');
      assert.match(diagnostics[0]?.message ?? '', /deep|levels/, bomb.slice(0, 20));
    }
    assert.match(parseHcl(' '.repeat(5_000_000), 'big.tf').diagnostics[0]!.message, /larger than/);
  });

  test('evaluates and searches the deepest allowed expression', () => {
    const deep = expr(`${'('.repeat(90)}1${' + 1'.repeat(800)}${')'.repeat(90)}`);
    assert.equal(evaluate(deep), 801);
    assert.deepEqual(references(deep), []);
  });

  test('parses 100 kB in less than 50 ms of a processor', () => {
    const block = `resource "x" "y" {
  name  = "workspace-$\{data.coder_workspace.me.name}"
  image = var.image != "" ? var.image : lower(local.default_image)
  env   = [for k, v in local.env : "$\{k}=$\{v}" if v != null]
  script = <<-EOT
    #!/bin/sh
    set -e # and a comment of the script itself
    echo "hello $\{var.name}"
  EOT
}
`;
    const source = block.repeat(Math.ceil(100_000 / block.length));
    let best = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 5; i++) {
      const before = process.threadCpuUsage();
      assert.deepEqual(parseHcl(source, 'big.tf').diagnostics, []);
      const { user, system } = process.threadCpuUsage(before);
      best = Math.min(best, (user + system) / 1_000);
    }
    assert.ok(best < 50, `${best} ms`);
  });
});

describe('evaluation', () => {
  const scope = {
    variables: {
      var: object([
        ['later', UNKNOWN],
        ['list', tuple([1, UNKNOWN])],
        ['name', 'dev'],
      ]),
    },
  };
  const UNKNOWNS: [string, Value][] = [
    ['var.later', UNKNOWN],
    ['var.later.a[0]', UNKNOWN],
    ['"x$' + '{var.later}"', UNKNOWN],
    ['var.later + 1', UNKNOWN],
    ['var.later == 1', UNKNOWN],
    ['var.later ? 1 : 2', UNKNOWN],
    ['upper(var.later)', UNKNOWN],
    ['length(var.list)', 2],
    ['var.list[0]', 1],
    ['join(",", var.list)', UNKNOWN],
    ['jsonencode(var.list)', UNKNOWN],
    ['[for x in var.later : x]', UNKNOWN],
    ['true ? var.name : var.later', 'dev'],
    ['try(var.nope, var.name)', 'dev'],
  ];
  for (const [text, value] of UNKNOWNS) test(text, () => assert.equal(evaluate(expr(text), scope), value));

  test('reports problems, always ends, and changes nothing of JavaScript', () => {
    const WRONG: [string, RegExp][] = [
      ['nope', /Nothing named nope/],
      ['constructor', /Nothing named constructor/],
      ['toString()', /Unknown function toString/],
      ['{}.constructor', /Unknown attribute "constructor"/],
      ['upper()', /upper takes 1 argument, not 0/],
      ['upper("a", "b")', /upper takes 1 argument, not 2/],
      ['[1][2]', /Invalid index 2: the list has 1 elements/],
      ['[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : 1]]]', /more than 400,000 steps/],
      [
        'join("", [for a in range(1000) : [for b in range(1000) : b][0] > 0 ? "" : format("%10000s", "x")])',
        /more than 400,000 steps/,
      ],
      ['format("%99999999s", "x")', /width or precision is more than 10,000/],
      ['regex("^(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")', /matches nothing/],
      [`jsondecode("${'['.repeat(5000)}${']'.repeat(5000)}")`, /nested deeper than 500/],
      ['setproduct(range(1000), range(1000))', /more than 100,000 elements/],
    ];
    for (const [text, message] of WRONG)
      assert.throws(
        () => evaluate(expr(text), scope),
        (err) => err instanceof EvaluationError && message.test(err.message),
        text,
      );
    const proto = evaluate(expr('{ "__proto__" = 1 }'));
    assert.ok(proto instanceof Dict && proto.entries.get('__proto__') === 1);
    assert.equal(evaluate(expr('jsonencode({ "__proto__" = 1 })')), '{"__proto__":1}');
  });
});

test('references', () => {
  const CASES: [string, string[]][] = [
    ['coder_agent.main.id', ['coder_agent.main']],
    ['coder_agent.main[0].id', ['coder_agent.main']],
    ['data.coder_parameter.x.value', ['data.coder_parameter.x']],
    ['module.m.out', ['module.m.out']],
    ['module.m["k"].out.x', ['module.m.out']],
    ['module.m', ['module.m']],
    ['var.a + local.b', ['var.a', 'local.b']],
    ['[for x in var.list : x.name if x.on && local.on]', ['var.list', 'local.on']],
    ['"$' + '{var.a}%{ for k in local.m }$' + '{k.x}%{ endfor }"', ['var.a', 'local.m']],
    ['docker_container.c[*].id', ['docker_container.c']],
    ['aws_instance.a[var.i].tags[local.k]', ['aws_instance.a', 'local.k', 'var.i']],
    ['{ (var.k) = each.value, b = count.index }', ['var.k', 'each.value', 'count.index']],
    ['f(path.module, terraform.workspace, 1)', ['path.module', 'terraform.workspace']],
    ['string', []],
  ];
  for (const [text, names] of CASES) assert.deepEqual(references(expr(text)).sort(), names.sort(), text);
  const file = parseHcl(
    'a = var.x\nb {\n  depends_on = [c_d.e]\n}\ndynamic "env" {\n  for_each = var.envs\n  content {\n    name = env.value.n\n  }\n}\n',
    'a.tf',
  );
  assert.deepEqual(bodyReferences(file.body), ['var.x', 'c_d.e', 'var.envs']);
});
