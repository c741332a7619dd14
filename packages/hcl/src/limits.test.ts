// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  convert,
  EvaluationError,
  evaluate,
  loadModule,
  newWork,
  object,
  parseExpression,
  type Value,
} from './index.ts';

/** The CPU time limit of one expression, in ms. Without limits, these took minutes or all memory. */
const MAX_MS = 2_000;
const busy = () => process.threadCpuUsage().user / 1000;

const expr = (text: string) => {
  const { expr: parsed, diagnostics } = parseExpression(text);
  assert.ok(parsed, diagnostics[0]?.message ?? text);
  return parsed;
};

const long = 'a'.repeat(100_000);
const scope = {
  variables: {
    local: object([
      ['long', long],
      ['digits', '9'.repeat(100_000)],
      ['zeros', `%${'0'.repeat(100_000)}`],
      ['ends', `${'\n'.repeat(100_000)}x`],
      ['json', `[${'[],'.repeat(500_000)}[]]`],
      ['csv', `a,b\n${'1,2\n'.repeat(150_000)}`],
    ] as [string, Value][]),
  },
};

const STEPS = /more than 400,000 steps/;
const TEXT = /more than 8,388,608 characters/;
const ELEMENTS = /more than 100,000 elements/;
const CHARACTERS = /holds more than 4,194,304 characters/;
const REGEX = /too long for this expression|400,000 steps/;

describe('no expression takes much time or memory', () => {
  const CASES: [string, RegExp | 'a value'][] = [
    ['length(transpose({ for a in range(200) : a => [for b in range(300) : b] }))', 'a value'],
    ['[for i in range(1000) : transpose({ for a in range(200) : a => range(300) })]', STEPS],
    ['[for i in range(100) : can(regex("^(a+)+$", "${local.long}!"))]', STEPS],
    ['regexall("a.*b|a", local.long)', REGEX],
    ['[for i in range(1000) : regexall("[\\\\pL\\\\pN]{1000}", "x")]', STEPS],
    ['[for i in range(20) : parseint(local.digits, 10)]', /more than 1,024 digits/],
    ['local.digits + 1', /more than 10,000 characters/],
    ['tonumber("${local.digits}x")', /more than 10,000 characters/],
    ['chomp(local.ends)', 'a value'],
    ['format(local.zeros, 1)', /not followed by a verb/],
    ['[for i in range(1000) : length(local.long)]', STEPS],
    ['[for i in range(1000) : strrev(local.long)]', STEPS],
    ['[for i in range(1000) : substr(local.long, i, 1)]', STEPS],
    ['join(local.long, range(1000))', TEXT],
    ['replace(local.long, "a", local.long)', TEXT],
    ['replace(local.long, "", local.long)', /too long|characters|steps/],
    ['replace(local.long, "/a/", local.long)', /too long|characters|steps/],
    ['indent(10000, local.ends)', TEXT],
    ['format(join("", [for i in range(1000) : "%10000[1]s"]), "x")', TEXT],
    ['formatlist("%10000s", range(1000))', TEXT],
    ['format("%.200e", 1)', /format:/],
    ['"%{ for a in range(1000) }%{ for b in range(1000) }${local.long}%{ endfor }%{ endfor }"', TEXT],
    ['jsonencode([for i in range(1000) : local.long])', CHARACTERS],
    ['split("", join("", [for i in range(3) : local.long]))', /more than 100,000 parts/],
    ['split("a", join("", [for i in range(3) : local.long]))', /more than 100,000 parts/],
    ['jsondecode(local.json)', /JSON has more than 1,048,576 characters/],
    ['csvdecode(local.csv)', ELEMENTS],
    ['setproduct(range(1000), range(1000))', ELEMENTS],
    ['setproduct([for i in range(1000) : [i]]...)', 'a value'],
    ['setintersection(range(1000), [for i in range(1000) : range(500)]...)', /elements|steps/],
    ['contains([for i in range(1000) : i], range(1000))', 'a value'],
    ['[for i in range(1000) : contains(range(1000), range(1000))]', STEPS],
    ['[for i in range(1000) : range(1000) == range(1000)]', STEPS],
    ['flatten([for i in range(1000) : range(1000)])', /elements|steps/],
    ['concat([for i in range(1000) : range(1000)]...)', /elements|steps/],
    ['[for i in range(1000) : sha512(local.long)]', STEPS],
    [`${'('.repeat(40)}1${' + 1)'.repeat(40)}`, 'a value'],
  ];
  for (const [text, expected] of CASES)
    test(text.slice(0, 80), () => {
      const started = busy();
      if (expected === 'a value') assert.ok(evaluate(expr(text), scope) !== undefined);
      else
        assert.throws(
          () => evaluate(expr(text), scope),
          (err) => err instanceof EvaluationError && expected.test(err.message),
        );
      const took = busy() - started;
      assert.ok(took < MAX_MS, `${took} ms`);
    });
});

test('limits values that double with each local or nest in each other', () => {
  const grown = (text: string) => {
    let value: Value = evaluate(expr('["abcdefgh", "x"]'));
    for (let i = 0; i < 2_000; i++) value = evaluate(expr(text), { variables: { local: object([['v', value]]) } });
    return value;
  };
  assert.throws(() => grown('[local.v, local.v]'), ELEMENTS);
  assert.throws(() => grown('{ a = local.v, b = local.v }'), ELEMENTS);
  assert.throws(() => grown('[local.v]'), /nested deeper than 500 levels/);
  assert.throws(() => grown('{ a = local.v }'), /nested deeper than 500 levels/);
  assert.throws(() => grown('[join("", flatten([local.v, local.v]))]'), /characters/);
});

test('limits the depth of expressions in locals that refer to each other', () => {
  const work = newWork();
  const deep = expr(`${'-'.repeat(90)}${'local.v + '.repeat(800)}1`);
  const down = (levels: number): Value =>
    evaluate(
      deep,
      {
        variables: {
          get local() {
            return object([['v', levels > 0 ? down(levels - 1) : 1]]);
          },
        },
      },
      work,
    );
  assert.throws(() => down(20), /nested deeper than 2,000 levels/);
  assert.equal(work.nested, 0);
  assert.equal(evaluate(expr('can(nope) ? 1 : try(nope, [for a in [1] : nope], 2)'), undefined, work), 2);
  assert.equal(work.nested, 0);
});

test('counts a type with costly defaults like other work', () => {
  const type = expr('list(object({ a = optional(string, join("", [for i in range(1000) : "x"])) }))');
  const value = evaluate(expr('[for i in range(1000) : {}]'));
  assert.throws(() => convert(value, type), STEPS);
});

test('limits the expressions of a module, in all of its files together', () => {
  const ones = `[${'1,'.repeat(200_000)}1]`;
  const native = { 'a.tf': `locals {\n  a = ${ones}\n}\n`, 'b.tf': `locals {\n  b = ${ones}\n}\n` };
  assert.match(loadModule(native).diagnostics[0]!.message, /more than 300,000 expressions/);
  const inJson = { 'a.tf': native['a.tf'], 'b.tf.json': JSON.stringify({ locals: { b: JSON.parse(ones) } }) };
  const { diagnostics } = loadModule(inJson);
  assert.match(diagnostics[0]!.message, /too many expressions/);
  assert.equal(diagnostics.length, 100);
  assert.deepEqual(loadModule({ 'a.tf': native['a.tf'] }).diagnostics, []);
});
