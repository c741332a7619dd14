import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cronError } from './cron.ts';
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

test('schedules', () => {
  for (const good of ['0 */5 8-18 * * mon-fri', '0,30 0 0 1 JAN *', '@daily', '*/10 * * * * *', '0 0 0 ? * 1/2'])
    assert.equal(cronError(good, 6), undefined, good);
  for (const bad of ['* * * * *', '60 * * * * *', '* * * * * 7', '* 5-1 * * * *', '* */0 * * * *', 'a * * * * *'])
    assert.notEqual(cronError(bad, 6), undefined, bad);
  assert.equal(cronError('* 8-18 * * 1-5', 5), undefined);
  assert.notEqual(cronError('0 0 1 * * *', 5), undefined);
});
