import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TOKEN_SCOPES } from '@ropewalk/contract/token-scopes';
import { matching, preview, scopeChoices, summaryOf } from './token-choices.ts';

test('offers the scopes of the server, the combined ones first, and finds them by word', () => {
  const choices = scopeChoices([...TOKEN_SCOPES.keys(), 'fleet:read']);
  assert.equal(choices.length, TOKEN_SCOPES.size - 2);
  assert.match(choices[0]!.label, /^coder:/);
  assert.ok(choices.every(({ help }) => help !== ''));
  assert.deepEqual(
    matching(choices, 'workspace SSH').map(({ value }) => value),
    ['workspace:ssh'],
  );
  assert.ok(matching(choices, 'open shells').some(({ value }) => value === 'coder:workspaces.access'));
  assert.equal(matching(choices, '').length, choices.length);
});

test('previews what scopes permit together', () => {
  assert.deepEqual(preview(['workspace:read', 'workspace:ssh', 'template:*']), [
    { type: 'Workspaces', actions: 'Read, Open shells' },
    { type: 'Templates', actions: 'Every action' },
  ]);
  assert.deepEqual(preview(['all', 'coder:all']), [{ type: 'Everything', actions: 'Every action' }]);
  assert.deepEqual(preview([]), []);
});

test('summarizes the limits of a token', () => {
  const all = ['*:*'];
  assert.equal(summaryOf({ scopes: ['coder:all'], allow_list: all }), 'Everything');
  assert.equal(summaryOf({ scopes: ['coder:application_connect'], allow_list: all }), 'Apps only');
  assert.equal(summaryOf({ scopes: ['workspace:read'], allow_list: ['workspace:x'] }), 'workspace:read, 1 object');
  assert.equal(summaryOf({ scopes: ['a:b', 'c:d'], allow_list: all }), '2 scopes');
});
