import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findPhrases } from './words.ts';

const found = (text: string) => findPhrases('a.ts', text).map(({ line }) => line);

test('finds phrases by line, whatever their case', () => {
  assert.deepEqual(found('// fine\n// It can not connect.\n// The client is told.'), [2, 3]);
  assert.deepEqual(found('// It ends at once.\nconst MOST_ROWS = 1;'), [1, 2]);
  assert.deepEqual(found('// CAN NOT\n// a name that is no name\n// whoever asks'), [1, 2, 3]);
  assert.deepEqual(found('// a uid of its own.\n// It stands beside the door.\n// of its own organization'), [1, 2]);
});

test('leaves correct English and quotations alone', () => {
  assert.deepEqual(found('// There is no route.\n// It cannot connect.\n// It is no longer there.'), []);
  assert.deepEqual(found("message('You can not'); // words: quoted"), []);
});
