import assert from 'node:assert/strict';
import { test } from 'node:test';
import { convert, evaluate, jsonText, parseExpression, UNKNOWN } from './index.ts';

const expression = (text: string) => parseExpression(text).expr!;
const converted = (value: string, type: string) => jsonText(convert(evaluate(expression(value)), expression(type)));

test('converts values to a type constraint as Terraform does', () => {
  const cases: [value: string, type: string, expected: string][] = [
    ['1', 'string', '"1"'],
    ['"1.5"', 'number', '1.5'],
    ['"true"', 'bool', 'true'],
    ['[1, "a"]', 'any', '[1,"a"]'],
    ['[1, "a"]', 'list(string)', '["1","a"]'],
    ['[1, "a"]', 'list', '["1","a"]'],
    ['["b", "a", "b"]', 'set(string)', '["a","b"]'],
    ['{ a = "1" }', 'map(number)', '{"a":1}'],
    ['["1", 2]', 'tuple([number, string])', '[1,"2"]'],
    ['{ a = 1, more = 2 }', 'object({ a = string })', '{"a":"1"}'],
    ['{}', 'object({ a = optional(string) })', '{"a":null}'],
    ['{ a = null }', 'object({ a = optional(list(string), ["x"]) })', '{"a":["x"]}'],
    ['[{ n = "1" }]', '(list(object({ n = number })))', '[{"n":1}]'],
    ['null', 'list(string)', 'null'],
  ];
  for (const [value, type, expected] of cases) assert.equal(converted(value, type), expected, `${value} to ${type}`);
  assert.equal(convert(UNKNOWN, expression('string')), UNKNOWN);
});

test('rejects values that do not fit, and invalid types', () => {
  const cases: [value: string, type: string, why: RegExp][] = [
    ['"x"', 'number', /A number is needed/],
    ['["x"]', 'string', /A string is needed/],
    ['"x"', 'list(string)', /A list is needed, not string/],
    ['["x"]', 'map(string)', /A map is needed/],
    ['[1]', 'tuple([number, number])', /A list of 2 is needed/],
    ['{}', 'object({ a = string })', /Attribute "a" is missing/],
    ['1', 'integer', /Invalid type constraint/],
    ['[1]', 'list(string, string)', /Invalid type constraint/],
  ];
  for (const [value, type, why] of cases) assert.throws(() => converted(value, type), why, `${value} to ${type}`);
});
