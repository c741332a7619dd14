import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matches, regexError } from './regex.ts';

test('expressions of the RE2 syntax', () => {
  assert.ok(matches('(?i)^abc$', 'ABC'));
  assert.ok(matches('\\Aabc\\z', 'abc'));
  assert.ok(!matches('\\Aabc\\z', 'abc\n'));
  assert.ok(matches('^(?P<x>a)$', 'a'));
  assert.ok(matches('^[[:upper:][:digit:]_]+$', 'A1_'));
  assert.ok(!matches('^[[:upper:]]+$', 'a'));
  assert.ok(matches('\\[:alpha:\\]', '[:alpha:]'));
  assert.match(regexError('[[:nope:]]') ?? '', /unknown character class/);
  assert.match(regexError('(') ?? '', /Invalid/);
  assert.throws(() => matches('^(a|a)*$', `${'a'.repeat(64)}b`), /longer than 50 ms/);
});
