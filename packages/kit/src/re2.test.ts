import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compile } from './re2.ts';

// Pattern, matching texts, other texts: the results of Go's regexp.
const TABLE: [string, string[], string[]][] = [
  ['(?i)^abc$', ['ABC'], ['ab']],
  ['^(?i:a)b$', ['Ab'], ['AB']],
  ['\\Aabc\\z', ['abc'], ['abc\n']],
  ['^a$', ['a'], ['a\n']],
  ['(?m)^a$', ['b\na'], ['ba']],
  ['^(?P<x>a)(?<y>b)$', ['ab'], ['a']],
  ['^[[:upper:][:digit:]_]+$', ['A1_'], ['a']],
  ['^[[:^digit:]]+$', ['ab'], ['1']],
  ['\\[:alpha:\\]', ['[:alpha:]'], ['a']],
  ['^\\p{L}+$', ['é'], ['1']],
  ['^\\pL\\PL$', ['a1'], ['1a']],
  ['^\\p{^Greek}$', ['a'], ['α']],
  ['^\\Qa.b\\E$', ['a.b'], ['axb']],
  ['^\\x{1F600}$', ['😀'], ['a']],
  ['^.$', ['😀', 'é'], ['\n', 'ab']],
  ['^\\d\\w\\s$', ['1a '], ['٣a ', '1é ', '1a\u00a0']],
  ['^(a+)+$', ['aaa'], [`${'a'.repeat(100_000)}b`]],
];

test('matches RE2 expressions in linear time', () => {
  const started = performance.now();
  for (const [pattern, yes, no] of TABLE) {
    const expression = compile(pattern);
    for (const text of yes) assert.ok(expression.test(text), `${pattern} on ${text}`);
    for (const text of no) assert.ok(!expression.test(text), `${pattern} on ${text.slice(0, 20)}`);
  }
  assert.ok(performance.now() - started < 20_000);
});

test('rejects syntax outside RE2 and expressions that cost too much', () => {
  for (const pattern of [
    '(',
    '[[:nope:]]',
    '\\p{Nope}',
    '(?=a)a',
    '(?!a)b',
    '(?<=a)b',
    '(a)\\1',
    'a{1001}',
    'a**',
    '\\Z',
  ])
    assert.throws(() => compile(pattern), SyntaxError, pattern);
  for (const pattern of ['((a{100}){100}){100}', '('.repeat(2_000) + ')'.repeat(2_000), 'a'.repeat(10_001)])
    assert.throws(() => compile(pattern), SyntaxError);
  assert.throws(() => compile('(?:(?:.*a){300})+b').test('ab'.repeat(1_000_000)), /too long for this expression/);
});
