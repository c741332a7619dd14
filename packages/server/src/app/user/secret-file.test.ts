import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSecretFile, type SecretFileFormat } from '@ropewalk/rules/secret-file';
import { parseAllDocuments } from 'yaml';

const read = (format: SecretFileFormat, content: string) =>
  parseSecretFile(format, content, parseAllDocuments).map(({ name, value }) => [name, value]);

test('reads lines, JSON and YAML without changing a value', () => {
  const lines = [
    '\ufeff# comment',
    '  export  A = plain $HOME #1  ',
    `B='single "x" \\n'`,
    'C="a\\tb\\\\\\"\\q"  ',
    'D=',
    'export=word',
    'E=a=b',
  ];
  const expected = [
    ['A', 'plain $HOME #1'],
    ['B', 'single "x" \\n'],
    ['C', 'a\tb\\"\\q'],
    ['D', ''],
    ['export', 'word'],
    ['E', 'a=b'],
  ];
  assert.deepEqual(read('env', lines.join('\n')), expected);
  assert.deepEqual(read('env', lines.join('\r\n')), expected);
  assert.deepEqual(read('json', ' { "2" : "a\\u0041\\n" ,\n "1":"{\\"x\\": [1]}", "__proto__": "p" } '), [
    ['2', 'aA\n'],
    ['1', '{"x": [1]}'],
    ['__proto__', 'p'],
  ]);
  assert.deepEqual(read('yaml', 'a: |\n  one\n  two\nb: "2"\nc: yes\n'), [
    ['a', 'one\ntwo\n'],
    ['b', '2'],
    ['c', 'yes'],
  ]);
});

test('rejects other files, and names the place but no value', () => {
  const bad: [SecretFileFormat, string, RegExp][] = [
    ['env', 'A=hunter2\nhunter2', /^Line 2 is not/],
    ['env', '=hunter2', /^Line 1 has no name/],
    ['env', 'A="hunter2', /no closing quote/],
    ['env', `A='hunter2'x`, /after its closing quote/],
    ['env', 'A=hunter2\n\nA=hunter2', /"A" appears twice: again on line 3/],
    ['json', '{"a":"hunter2",}', /not valid JSON/],
    ['json', '["hunter2"]', /one JSON object/],
    ['json', '{"a":{"b":"hunter2"},"a":"hunter2"}', /"a" must be a text/],
    ['json', '{"a":"hunter2","a":"hunter2"}', /"a" appears twice/],
    ['json', '{"a":1}', /"a" must be a text/],
    ['json', '{}', /contains no secrets/],
    ['yaml', 'a: 1', /"a" must be a text/],
    ['yaml', 'a: [hunter2]', /"a" must be a text/],
    ['yaml', 'a: &x hunter2\nb: *x', /"b" must be a text/],
    ['yaml', '1: hunter2', /Names in YAML/],
    ['yaml', '- hunter2', /one YAML mapping/],
    ['yaml', 'hunter2', /one YAML mapping/],
    ['yaml', 'a: hunter2\n---\nb: hunter2', /one YAML document/],
    ['yaml', 'a: hunter2\na: hunter2', /"a" appears twice/],
    ['yaml', 'a: "hunter2\n', /not valid YAML/],
    ['yaml', '# nothing', /contains no secrets/],
    ['env', `A=${'x'.repeat(1024 * 1024)}`, /1048576 bytes/],
  ];
  for (const [format, content, why] of bad) {
    assert.throws(
      () => read(format, content),
      (err: Error) => why.test(err.message) && !err.message.includes('hunter2'),
      `${format} ${content.slice(0, 60)}`,
    );
  }
});
