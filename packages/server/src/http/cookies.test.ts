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
