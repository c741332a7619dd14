import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  filterTerm,
  filterValue,
  replaceToken,
  tokenAt,
  withFilterValue,
  withoutOpenTerm,
  withoutTermAt,
} from './filter-tokens.ts';

test('finds the term at the cursor', () => {
  const text = 'owner:me template:"go service" dev';
  assert.deepEqual(tokenAt(text, 2), { start: 0, end: 8, key: undefined, value: 'ow' });
  assert.deepEqual(tokenAt(text, 8), { start: 0, end: 8, key: 'owner', value: 'me' });
  assert.deepEqual(tokenAt(text, 22), { start: 9, end: 30, key: 'template', value: 'go ' });
  assert.deepEqual(tokenAt(text, text.length), { start: 31, end: 34, key: undefined, value: 'dev' });
  assert.deepEqual(tokenAt('owner:me ', 9), { start: 9, end: 9, key: undefined, value: '' });
  assert.deepEqual(tokenAt('name:"half', 10), { start: 0, end: 10, key: 'name', value: 'half' });
});

test('replaces a term and keeps the rest', () => {
  const text = 'ow template:go';
  assert.deepEqual(replaceToken(text, tokenAt(text, 2), 'owner:'), { text: 'owner: template:go', cursor: 6 });
  assert.deepEqual(replaceToken('owner:', tokenAt('owner:', 6), 'owner:me'), { text: 'owner:me ', cursor: 9 });
  assert.deepEqual(replaceToken('a owner:x b', tokenAt('a owner:x b', 9), 'owner:me'), {
    text: 'a owner:me b',
    cursor: 11,
  });
});

test('quotes values with spaces and reads them back', () => {
  assert.equal(filterTerm('template', 'go service'), 'template:"go service"');
  assert.equal(filterTerm('owner', 'me'), 'owner:me');
  assert.equal(filterValue('owner:me template:"go service"', 'template'), 'go service');
  assert.equal(filterValue('owner:me', 'status'), undefined);
});

test('leaves out the term that is being written', () => {
  assert.equal(withoutOpenTerm('owner:me status:', 16), 'owner:me');
  assert.equal(withoutOpenTerm('owner:me status: dev', 16), 'owner:me dev');
  assert.equal(withoutOpenTerm('name:"', 6), '');
  // the server says what is wrong with a term that stays like that
  assert.equal(withoutOpenTerm('status: dev', 11), 'status: dev');
  assert.equal(withoutOpenTerm('owner:me template:"go service" dev', 8), 'owner:me template:"go service" dev');
  assert.equal(withoutTermAt('owner:me template:"go serv dev', 23), 'owner:me');
  assert.equal(withoutTermAt('owner:me status:fail dev', 20), 'owner:me dev');
});

test('writes, replaces and removes the term of a key', () => {
  assert.equal(withFilterValue('owner:me', 'status', 'running'), 'owner:me status:running');
  assert.equal(withFilterValue('Status:failed dev', 'status', 'running'), 'dev status:running');
  assert.equal(withFilterValue('template:"go service" dev', 'template', undefined), 'dev');
  assert.equal(withFilterValue('', 'template', 'go service'), 'template:"go service"');
});
