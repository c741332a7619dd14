import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cookieValue } from './cookies.ts';

test('finds a cookie by its whole name', () => {
  const header = 'xsession=0; session=a%20b; session=second;empty=; bad=%zz';
  assert.equal(cookieValue(header, 'session'), 'a b');
  assert.equal(cookieValue(header, 'empty'), '');
  assert.equal(cookieValue(header, 'bad'), '%zz');
  assert.equal(cookieValue(header, 'ession'), undefined);
  assert.equal(cookieValue(undefined, 'session'), undefined);
});

test('finds no cookie within the value of another one', () => {
  assert.equal(cookieValue('a=x session=smuggled; session=real', 'session'), 'real');
  assert.equal(cookieValue('a=x session=smuggled', 'session'), undefined);
  assert.equal(cookieValue('a=x\tsession=smuggled;\t session=real', 'session'), 'real');
  assert.equal(cookieValue(' session=first', 'session'), 'first');
  assert.equal(cookieValue('session', 'session'), undefined);
});
